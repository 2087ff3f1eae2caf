//! What a trial's process runs in, and which variables it gets.

use crate::catalog::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Variables of a process.
pub type Variables = BTreeMap<String, String>;

/// A mitigation: its name, the variables it sets, and what they do.
pub type Mitigation = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// Known mitigations.
pub const MITIGATIONS: &[Mitigation] = &[
    ("none", &[], "nothing changed"),
    ("one_thread", &[("RAYON_NUM_THREADS", "1")], "the CPU backend on one thread: no reduction order to vary"),
    ("cuda_launch_blocking", &[("CUDA_LAUNCH_BLOCKING", "1")], "every CUDA launch waits for its kernel"),
    ("cuda_one_connection", &[("CUDA_DEVICE_MAX_CONNECTIONS", "1")], "one hardware queue to an NVIDIA GPU"),
    ("hip_launch_blocking", &[("HIP_LAUNCH_BLOCKING", "1")], "every HIP launch waits for its kernel"),
    (
        "amd_serialize",
        &[("AMD_SERIALIZE_KERNEL", "3"), ("AMD_SERIALIZE_COPY", "3")],
        "no two AMD kernels or copies at once",
    ),
    ("gpu_max_hw_queues_2", &[("GPU_MAX_HW_QUEUES", "2")], "two hardware queues to an AMD GPU"),
    ("hsa_no_sdma", &[("HSA_ENABLE_SDMA", "0")], "copies of an AMD GPU by kernels, not by its copy engines"),
    ("hsa_no_interrupt", &[("HSA_ENABLE_INTERRUPT", "0")], "an AMD GPU is polled"),
    ("xnack", &[("HSA_XNACK", "1")], "page faults of an AMD GPU are retried"),
];

/// An environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Image that holds this program as `inferasim`, started by `docker run`.
    pub docker: String,
}

/// How a cell names its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Environment {
    /// `local`, or a name the recipe defines.
    Named(String),
    /// A container, on the spot.
    Inline(Container),
}

/// An environment with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// `local`, the recipe's name, or the image.
    pub name: String,
    /// The image; null where the trial is a process of this machine.
    pub docker: Option<String>,
}

impl Environment {
    /// Looks a name up.
    ///
    /// # Errors
    /// What was found and what to do, for a name nobody defined.
    pub fn resolve(&self, defined: &BTreeMap<String, Container>) -> Result<Resolved, (String, String)> {
        match self {
            Environment::Inline(container) => {
                Ok(Resolved { name: container.docker.clone(), docker: Some(container.docker.clone()) })
            }
            Environment::Named(name) if name == "local" => Ok(Resolved { name: name.clone(), docker: None }),
            Environment::Named(name) => match defined.get(name) {
                Some(container) => Ok(Resolved { name: name.clone(), docker: Some(container.docker.clone()) }),
                None => {
                    let known: Vec<&str> = std::iter::once("local").chain(defined.keys().map(String::as_str)).collect();
                    Err((format!("no environment `{name}`"), suggestion(name, &known)))
                }
            },
        }
    }
}

/// Variables of stacked mitigations.
///
/// # Errors
/// What was found and what to do: an unknown name, or two mitigations that set one variable to different values.
pub fn variables(names: &[String], defined: &BTreeMap<String, Variables>) -> Result<Variables, (String, String)> {
    let mut all = Variables::new();
    for name in names {
        let built_in = MITIGATIONS.iter().find(|(known, ..)| known == name);
        let bundle: Variables = match (built_in, defined.get(name)) {
            (Some((_, pairs, _)), _) => pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            (None, Some(own)) => own.clone(),
            (None, None) => {
                let known: Vec<&str> =
                    MITIGATIONS.iter().map(|m| m.0).chain(defined.keys().map(String::as_str)).collect();
                return Err((format!("no mitigation `{name}`"), suggestion(name, &known)));
            }
        };
        for (key, value) in bundle {
            if let Some(other) = all.get(&key)
                && *other != value
            {
                let found = format!("`{name}` sets {key}={value}, another mitigation {key}={other}");
                return Err((found, "Put them into cells of their own".into()));
            }
            all.insert(key, value);
        }
    }
    Ok(all)
}

fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("Did you mean `{near}`? Known: {}", known.join(", ")),
        None => format!("Known: {}", known.join(", ")),
    }
}
