//! How a run ended: one closed set of codes, the same on every surface.
//!
//! A code is written into `run_completed.code`, answered by every surface and mapped to a process
//! exit code by the command line. A code has one meaning; what exactly happened is in the message
//! that goes with it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a run ended the way it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub enum OutcomeCode {
    /// The skill returned a result.
    Ok,
    /// The skill returned an error of its own.
    SkillError,
    /// The input does not fit the skill's schema; the skill was not run.
    InvalidInput,
    /// The result does not fit the skill's schema; nobody gets it.
    InvalidOutput,
    /// The guest trapped: `unreachable`, an access out of bounds, a stack that overflowed.
    Trap,
    /// The guest's language runtime reported a panic before it trapped.
    Panic,
    /// The guest used up its fuel.
    FuelLimit,
    /// The run used up its wall time or its processor time.
    TimeLimit,
    /// The guest's memories and tables together would have outgrown their bound.
    MemoryLimit,
    /// The result was larger than a result may be.
    OutputLimit,
    /// The guest made more host calls than it may, or nested runs too deeply.
    HostCallLimit,
    /// The effective policy refused something without which the skill could not go on.
    Denied,
    /// The caller cancelled the run.
    Cancelled,
    /// The process stopped while the run was going on; it can be resumed.
    Interrupted,
    /// A replay did not match the record.
    Diverged,
    /// A replay met a call whose effect may or may not have happened.
    AmbiguousCall,
    /// The component could not be loaded.
    LoadError,
    /// No skill has that name, or the skill has no such operation.
    NotFound,
    /// The run was not admitted, because too many were going on.
    Busy,
    /// The host failed.
    Internal,
}

impl OutcomeCode {
    /// Every code, in the order of declaration.
    pub const ALL: [Self; 20] = [
        Self::Ok,
        Self::SkillError,
        Self::InvalidInput,
        Self::InvalidOutput,
        Self::Trap,
        Self::Panic,
        Self::FuelLimit,
        Self::TimeLimit,
        Self::MemoryLimit,
        Self::OutputLimit,
        Self::HostCallLimit,
        Self::Denied,
        Self::Cancelled,
        Self::Interrupted,
        Self::Diverged,
        Self::AmbiguousCall,
        Self::LoadError,
        Self::NotFound,
        Self::Busy,
        Self::Internal,
    ];

    /// The code as it stands in a ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::SkillError => "skill_error",
            Self::InvalidInput => "invalid_input",
            Self::InvalidOutput => "invalid_output",
            Self::Trap => "trap",
            Self::Panic => "panic",
            Self::FuelLimit => "fuel_limit",
            Self::TimeLimit => "time_limit",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit => "output_limit",
            Self::HostCallLimit => "host_call_limit",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Diverged => "diverged",
            Self::AmbiguousCall => "ambiguous_call",
            Self::LoadError => "load_error",
            Self::NotFound => "not_found",
            Self::Busy => "busy",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for OutcomeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::OutcomeCode;

    #[test]
    fn the_spelling_in_a_ledger_is_the_one_of_as_str() {
        for code in OutcomeCode::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{code}\""));
        }
    }
}
