//! What went wrong, in one line: what was tried, what was found, what to do.

use std::fmt;

/// The crate's result type.
pub type Result<T> = std::result::Result<T, Error>;

/// Exit codes shared by both binaries.
pub mod exit {
    /// An answer was given.
    pub const ANSWER: u8 = 0;
    /// A check or a comparison differs.
    pub const DIFFERS: u8 = 1;
    /// The input or the environment is at fault.
    pub const INPUT: u8 = 2;
    /// Nothing satisfies the constraints.
    pub const INFEASIBLE: u8 = 3;
}

/// Why a run stopped; it decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Bad input, an unreadable file, a folder that cannot be written: exit code 2.
    Input,
    /// Every candidate was rejected: exit code 3.
    Infeasible,
    /// A comparison differs from its expectation: exit code 1.
    Differs,
}

/// One error: what was tried, what was found and the repair.
///
/// Printed as `{tried}: {found}. {repair}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Decides the exit code.
    pub kind: ErrorKind,
    /// What was tried: a file with line, a flag, a deployment.
    pub tried: String,
    /// What was found there.
    pub found: String,
    /// What the user can do; empty when nothing useful can be said.
    pub repair: String,
}

impl Error {
    /// Bad input: exit code 2.
    pub fn input(tried: impl Into<String>, found: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Input, tried: tried.into(), found: found.into(), repair: repair.into() }
    }

    /// Nothing feasible: exit code 3.
    pub fn infeasible(tried: impl Into<String>, found: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Infeasible, ..Self::input(tried, found, repair) }
    }

    /// A comparison differs: exit code 1.
    pub fn differs(tried: impl Into<String>, found: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Differs, ..Self::input(tried, found, repair) }
    }

    /// The exit code of the process that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Input => exit::INPUT,
            ErrorKind::Infeasible => exit::INFEASIBLE,
            ErrorKind::Differs => exit::DIFFERS,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tried, self.found)?;
        if !self.repair.is_empty() {
            // A server's message ends with a full stop of its own at times.
            let stop = if self.found.ends_with(['.', '!', '?']) { "" } else { "." };
            write!(f, "{stop} {}", self.repair)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
