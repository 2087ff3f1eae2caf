//! On which device does a task run, and through which backend?

use super::clock::Clock;
use super::config::{Device, Dtype};
use crate::{Error, Result};
use burn_tensor::DType;
use burn_tensor::backend::Backend;

/// Work that runs on whichever backend is chosen.
pub trait Task {
    /// What it yields.
    type Output: Send;

    /// Runs on a device.
    ///
    /// # Errors
    /// Whatever the work reports.
    fn run<B: Backend>(self, place: &Place<B>) -> Result<Self::Output>;
}

/// A device and how it is timed.
#[derive(Debug, Clone)]
pub struct Place<B: Backend> {
    /// The backend's device.
    pub device: B::Device,
    /// `cpu`, `cuda:0`, `rocm:0`.
    pub name: String,
    /// Threads of the CPU.
    pub threads: Option<usize>,
    /// Clock of the measured times.
    pub clock: Clock,
}

impl<B: Backend> Place<B> {
    /// Format in which the device holds values of a number format.
    pub fn held(&self, dtype: Dtype) -> Dtype {
        dtype.held_on(&self.name)
    }

    /// Waits for the device and reads the clock, seconds.
    ///
    /// # Errors
    /// The device reports a failed kernel.
    pub fn now(&self) -> Result<f64> {
        B::sync(&self.device)
            .map_err(|e| Error::input(&self.name, format!("a kernel failed: {e}"), "Check the driver"))?;
        Ok(self.clock.now())
    }

    /// Runs `work` and returns what it yields with the time until the device is done, ms.
    ///
    /// # Errors
    /// See [`Place::now`].
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> Result<(T, f64)> {
        let start = self.now()?;
        let out = work();
        Ok((out, 1e3 * (self.now()? - start)))
    }
}

/// The framework's name of a number format.
pub fn dtype_of(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Bfloat16 => DType::BF16,
        Dtype::Float16 => DType::F16,
        Dtype::Float32 => DType::F32,
    }
}

/// How a device is used.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// Threads of the CPU; where `None`, one for processor time, else `RAYON_NUM_THREADS` or all cores.
    pub threads: Option<usize>,
    /// Clock of the measured times.
    pub clock: Clock,
}

/// Runs a task on a device.
///
/// # Errors
/// A device this binary has no backend for, processor time on more than one thread or on a GPU, a GPU that does not
/// start, and whatever the task reports.
pub fn run<T: Task + Send>(device: Device, usage: Use, task: T) -> Result<T::Output> {
    match device {
        Device::Cpu => on_cpu(usage, task),
        Device::Cuda => on_cuda(usage, task),
        Device::Rocm => on_rocm(usage, task),
        Device::Auto if cfg!(feature = "cuda") => on_cuda(usage, task),
        Device::Auto if cfg!(feature = "rocm") => on_rocm(usage, task),
        Device::Auto => on_cpu(usage, task),
    }
}

fn on_cpu<T: Task + Send>(usage: Use, task: T) -> Result<T::Output> {
    // 0 leaves the number to RAYON_NUM_THREADS, else to the cores.
    let asked = usage.threads.unwrap_or(if usage.clock == Clock::Cpu { 1 } else { 0 });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(asked).build().map_err(|e| {
        Error::input(format!("--threads {asked}"), format!("the threads cannot be started: {e}"), "Use fewer")
    })?;
    let threads = pool.current_num_threads();
    if usage.clock == Clock::Cpu && threads > 1 {
        return Err(Error::input(
            format!("--clock cpu --threads {threads}"),
            "processor time of several threads is no latency",
            "Use --threads 1, or --clock wall",
        ));
    }
    let place = Place::<burn_flex::Flex> {
        device: Default::default(),
        name: "cpu".into(),
        threads: Some(threads),
        clock: usage.clock,
    };
    pool.install(|| task.run(&place))
}

/// Starts a GPU backend. Processor time says nothing about a GPU.
///
/// # Errors
/// The driver or the GPU is absent; processor time was asked for.
#[cfg(any(feature = "cuda", feature = "rocm"))]
fn on_gpu<B: Backend, T: Task>(name: &str, usage: Use, task: T) -> Result<T::Output>
where
    B::Device: Default,
{
    if usage.clock == Clock::Cpu {
        return Err(Error::input("--clock cpu", format!("{name} is no processor"), "Use --clock wall"));
    }
    let start = || {
        let device = B::Device::default();
        let ones = burn_tensor::Tensor::<B, 1>::ones([1], &device);
        ones.into_data();
        device
    };
    // The backends load their driver at run time and panic where it is absent.
    let device = std::panic::catch_unwind(start).map_err(|_| {
        Error::input(format!("device {name}"), "its driver or a GPU is absent", "Use device: cpu, or repair the driver")
    })?;
    let place = Place::<B> { device, name: format!("{name}:0"), threads: None, clock: usage.clock };
    task.run(&place)
}

#[cfg(feature = "cuda")]
fn on_cuda<T: Task + Send>(usage: Use, task: T) -> Result<T::Output> {
    on_gpu::<burn_cuda::Cuda, T>("cuda", usage, task)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda<T: Task + Send>(_: Use, _: T) -> Result<T::Output> {
    Err(no_backend("cuda"))
}

#[cfg(feature = "rocm")]
fn on_rocm<T: Task + Send>(usage: Use, task: T) -> Result<T::Output> {
    on_gpu::<burn_rocm::Rocm, T>("rocm", usage, task)
}

#[cfg(not(feature = "rocm"))]
fn on_rocm<T: Task + Send>(_: Use, _: T) -> Result<T::Output> {
    Err(no_backend("rocm"))
}

#[cfg(not(all(feature = "cuda", feature = "rocm")))]
fn no_backend(name: &str) -> Error {
    Error::input(
        format!("device {name}"),
        "this binary was built without it",
        format!("Build with --features {name}, or use device: cpu"),
    )
}
