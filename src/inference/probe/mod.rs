//! How fast are this device's copies, matrix products, attention, experts and small kernels?
//!
//! Every shape is timed once per round, round after round, so that a busy machine slows all of them alike; the median
//! over the rounds counts. Attention and small kernels are the very functions the models run. A model touches every
//! weight and every cached key once per step, so between two uses of one the others have pushed it out of the caches;
//! here each timing takes the next of so many equal operands that the same holds.

mod kernels;

use super::config::Dtype;
use super::device::{Place, Task, dtype_of};
use super::latency::median;
use super::random::{self, Stream};
use super::samples::{AttentionSample, ExpertSample, GemmSample, Samples, SmallSample};
use crate::{Error, Result};
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};

/// A probe of one number format.
pub struct Probe<F> {
    /// Number format.
    pub dtype: Dtype,
    /// Rounds; the median over them counts.
    pub rounds: usize,
    /// Hears of each round that ends.
    pub said: F,
}

/// (columns, reduction) of the products; no shape of the default model is among them.
const MATRICES: &[(usize, usize)] = &[(768, 256), (1024, 384), (3072, 768), (768, 3072), (16000, 384), (4096, 1024)];
const ROWS: &[usize] = &[1, 2, 6, 12, 32, 96, 384, 640];
/// (rows, context, heads, dimensions) of decode attention.
const DECODE: &[(usize, usize, usize, usize)] =
    &[(1, 96, 12, 64), (2, 48, 4, 64), (2, 384, 6, 64), (6, 96, 12, 64), (6, 192, 8, 48), (8, 320, 8, 64)];
/// (rows, tokens, heads, dimensions) of prefill attention.
const PREFILL: &[(usize, usize, usize, usize)] =
    &[(1, 32, 12, 64), (2, 96, 4, 64), (1, 160, 12, 64), (3, 192, 6, 64), (1, 384, 6, 64), (2, 320, 8, 48)];
/// (tokens, experts, hidden, inner) of experts.
const EXPERTS: &[(usize, usize, usize, usize)] = &[
    (1, 4, 256, 768),
    (6, 4, 256, 768),
    (48, 4, 256, 768),
    (256, 4, 256, 768),
    (6, 8, 384, 1024),
    (160, 8, 384, 1024),
    (2, 4, 640, 1280),
    (40, 4, 640, 1280),
    (320, 4, 640, 1280),
    (640, 8, 384, 768),
];
/// (tokens, hidden) of small kernels.
const SMALL: &[(usize, usize)] = &[(4, 384), (4, 768), (48, 384), (48, 768), (320, 384), (320, 768)];
/// Values of each array of the copy, 4 bytes each.
const COPIED: usize = 8 << 20;

impl<F: Fn(usize) + Send> Task for Probe<F> {
    type Output = Samples;

    fn run<B: Backend>(self, place: &Place<B>) -> Result<Samples> {
        let mut kernels = Kernels::new(place, self.dtype);
        kernels.round(place, false)?;
        for round in 1..=self.rounds {
            kernels.round(place, true)?;
            (self.said)(round);
        }
        kernels.samples(place)
    }
}

/// Every timed shape with its operands.
pub struct Kernels<B: Backend> {
    dtype: Dtype,
    cold: usize,
    jobs: Vec<Job<B>>,
}

impl<B: Backend> Kernels<B> {
    /// Makes the operands.
    pub fn new(place: &Place<B>, dtype: Dtype) -> Self {
        let cold = cold_bytes(&place.name);
        let operands = Operands { place, held: place.held(dtype), cold };
        let mut jobs: Vec<Job<B>> = vec![operands.copy()];
        for (n, k) in MATRICES {
            jobs.extend(operands.gemm(*n, *k));
        }
        jobs.extend(DECODE.iter().map(|shape| operands.decode(*shape)));
        jobs.extend(PREFILL.iter().map(|shape| operands.prefill(*shape)));
        jobs.extend(EXPERTS.iter().map(|shape| operands.experts(*shape)));
        for shape in SMALL {
            jobs.extend(operands.small(*shape));
        }
        Self { dtype, cold, jobs }
    }

    /// Times every shape once; `counts` is false for a round that only warms up.
    ///
    /// # Errors
    /// The device fails.
    pub fn round(&mut self, place: &Place<B>, counts: bool) -> Result<()> {
        for job in &mut self.jobs {
            let us = job.time(place)?;
            if counts {
                job.us.push(us);
            }
        }
        Ok(())
    }

    /// Medians over the rounds.
    ///
    /// # Errors
    /// A shape took no measurable time.
    pub fn samples(&self, place: &Place<B>) -> Result<Samples> {
        gather(&self.jobs, place, self.dtype, self.cold)
    }
}

/// Something timed, with how often it runs in one timing and what it was.
struct Job<B: Backend> {
    what: What,
    repeats: usize,
    work: Box<dyn FnMut() + Send>,
    us: Vec<f64>,
    backend: std::marker::PhantomData<fn() -> B>,
}

/// What a job times.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Copy,
    Gemm { rows: usize, n: usize, k: usize },
    Decode(AttentionSample),
    Prefill(AttentionSample),
    Experts(ExpertSample),
    AttentionPart { tokens: usize, hidden: usize },
    FfnPart { tokens: usize, hidden: usize },
    StepPart { tokens: usize, hidden: usize },
}

impl<B: Backend> Job<B> {
    fn new(what: What, repeats: usize, work: impl FnMut() + Send + 'static) -> Self {
        Self { what, repeats, work: Box::new(work), us: Vec::new(), backend: std::marker::PhantomData }
    }

    /// Time of one run, µs.
    fn time(&mut self, place: &Place<B>) -> Result<f64> {
        let (work, repeats) = (&mut self.work, self.repeats);
        let (_, ms) = place.timed(|| (0..repeats).for_each(|_| work()))?;
        Ok(1e3 * ms / repeats as f64)
    }
}

/// Makes operands of jobs.
struct Operands<'a, B: Backend> {
    place: &'a Place<B>,
    held: Dtype,
    /// Bytes that pass between two uses of one weight or cache.
    cold: usize,
}

/// Last-level caches are smaller than a quarter of this: on a processor by what the kernel says, else by assumption.
fn cold_bytes(device: &str) -> usize {
    const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
    let bytes_of = |index: usize| {
        let text = std::fs::read_to_string(format!("{CACHES}/index{index}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    let largest = if device == "cpu" { (0..8).filter_map(bytes_of).max() } else { Some(128 << 20) };
    // A shared cache of a big server would take more memory than a probe should: 512 MiB are enough there too, for its
    // neighbours use it as well.
    (4 * largest.unwrap_or(32 << 20)).clamp(32 << 20, 512 << 20)
}

impl<B: Backend> Operands<'_, B> {
    fn tensor<const D: usize>(&self, shape: [usize; D]) -> Tensor<B, D> {
        let values = random::uniform(1, Stream::Probe(D as u64), shape.iter().product(), 0.5);
        Tensor::from_data(TensorData::new(values, shape), (&self.place.device, dtype_of(self.held)))
    }

    /// How many operands of `values` values it takes that a use of one finds none of it in a cache.
    fn copies(&self, values: usize) -> usize {
        (self.cold / (values * self.held.bytes()).max(1) + 1).max(2)
    }
}

fn gather<B: Backend>(jobs: &[Job<B>], place: &Place<B>, dtype: Dtype, cold: usize) -> Result<Samples> {
    let mut samples = Samples {
        device: place.name.clone(),
        threads: place.threads,
        clock: place.clock.word().into(),
        dtype,
        held: place.held(dtype),
        cold_bytes: cold,
        copy_bytes_us: 0.0,
        gemm: Vec::new(),
        decode: Vec::new(),
        prefill: Vec::new(),
        experts: Vec::new(),
        small: Vec::new(),
    };
    let small = |samples: &mut Samples, tokens: usize, hidden: usize| {
        let found = samples.small.iter().position(|s| s.tokens == tokens && s.hidden == hidden);
        found.unwrap_or_else(|| {
            let empty = SmallSample { tokens, hidden, attention_us: 0.0, ffn_us: 0.0, step_us: 0.0 };
            samples.small.push(empty);
            samples.small.len() - 1
        })
    };
    for job in jobs {
        let us = median(&job.us).unwrap_or_default();
        if us <= 0.0 {
            let found = format!("{:?} took no measurable time", job.what);
            return Err(Error::input("probe", found, "Use --clock wall, or a device with a finer clock"));
        }
        match job.what {
            What::Copy => samples.copy_bytes_us = 3.0 * 4.0 * COPIED as f64 / us,
            What::Gemm { rows, n, k } => samples.gemm.push(GemmSample { rows, n, k, us }),
            What::Decode(sample) => samples.decode.push(AttentionSample { us, ..sample }),
            What::Prefill(sample) => samples.prefill.push(AttentionSample { us, ..sample }),
            What::Experts(sample) => samples.experts.push(ExpertSample { us, ..sample }),
            What::AttentionPart { tokens, hidden } => {
                let at = small(&mut samples, tokens, hidden);
                samples.small[at].attention_us = us;
            }
            What::FfnPart { tokens, hidden } => {
                let at = small(&mut samples, tokens, hidden);
                samples.small[at].ffn_us = us;
            }
            What::StepPart { tokens, hidden } => {
                let at = small(&mut samples, tokens, hidden);
                samples.small[at].step_us = us;
            }
        }
    }
    Ok(samples)
}
