//! What an execution does, and what may follow what.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an execution does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// It is being made, and is on no record yet.
    Pending,
    /// It is on record, and its agent starts.
    Starting,
    /// Its agent waits for a prompt.
    Ready,
    /// A turn goes on.
    Running,
    /// Its agent ended by itself.
    Completed,
    /// Its agent trapped, met a limit, or the host failed.
    Failed,
    /// Somebody stopped it, or its process came to an end.
    Stopped,
}

impl ExecutionStatus {
    /// Every status, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Starting,
        Self::Ready,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Stopped,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing follows it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Stopped)
    }
}

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How an execution ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its agent ended by itself.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
}

impl From<Ending> for ExecutionStatus {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Completed => Self::Completed,
            Ending::Failed => Self::Failed,
            Ending::Stopped => Self::Stopped,
        }
    }
}

/// Something that changes what an execution does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// It is on record.
    Registered,
    /// Its agent has started, or was taken up.
    Booted,
    /// A turn begins, or, taken up, goes on.
    TurnBegun,
    /// A turn is over, and the agent waits for the next prompt.
    Ready,
    /// It ended.
    Ended(Ending),
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 7] = [
        Self::Registered,
        Self::Booted,
        Self::TurnBegun,
        Self::Ready,
        Self::Ended(Ending::Completed),
        Self::Ended(Ending::Failed),
        Self::Ended(Ending::Stopped),
    ];
}

/// A change that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an execution that is {from} cannot change by {by:?}")]
pub struct IllegalTransition {
    /// What the execution does.
    pub from: ExecutionStatus,
    /// What was to change it.
    pub by: Change,
}

/// What an execution does after a change.
///
/// # Errors
/// The change cannot follow; the execution is to stay as it is.
pub fn next(from: ExecutionStatus, by: Change) -> Result<ExecutionStatus, IllegalTransition> {
    use ExecutionStatus::{Pending, Ready, Running, Starting};
    match (from, by) {
        (Pending, Change::Registered) => Ok(Starting),
        (Starting, Change::Booted) | (Running, Change::Ready) => Ok(Ready),
        // A turn that was cut off goes on before its agent takes a prompt.
        (Starting | Ready, Change::TurnBegun) => Ok(Running),
        (Pending | Starting | Ready | Running, Change::Ended(ending)) => Ok(ending.into()),
        _ => Err(IllegalTransition { from, by }),
    }
}

#[cfg(test)]
mod tests {
    use super::ExecutionStatus::{Completed, Failed, Pending, Ready, Running, Starting, Stopped};
    use super::{Change, Ending, ExecutionStatus, next};

    /// What is allowed, all of it.
    const ALLOWED: [(ExecutionStatus, Change, ExecutionStatus); 17] = [
        (Pending, Change::Registered, Starting),
        (Starting, Change::Booted, Ready),
        (Starting, Change::TurnBegun, Running),
        (Ready, Change::TurnBegun, Running),
        (Running, Change::Ready, Ready),
        (Pending, Change::Ended(Ending::Completed), Completed),
        (Pending, Change::Ended(Ending::Failed), Failed),
        (Pending, Change::Ended(Ending::Stopped), Stopped),
        (Starting, Change::Ended(Ending::Completed), Completed),
        (Starting, Change::Ended(Ending::Failed), Failed),
        (Starting, Change::Ended(Ending::Stopped), Stopped),
        (Ready, Change::Ended(Ending::Completed), Completed),
        (Ready, Change::Ended(Ending::Failed), Failed),
        (Ready, Change::Ended(Ending::Stopped), Stopped),
        (Running, Change::Ended(Ending::Completed), Completed),
        (Running, Change::Ended(Ending::Failed), Failed),
        (Running, Change::Ended(Ending::Stopped), Stopped),
    ];

    #[test]
    fn what_may_follow_what_is_this_table_and_nothing_else() {
        for from in ExecutionStatus::ALL {
            for by in Change::ALL {
                let expected = ALLOWED.iter().find(|row| (row.0, row.1) == (from, by));
                let expected = expected.map(|row| row.2);
                assert_eq!(next(from, by).ok(), expected, "{from} {by:?}");
            }
        }
    }

    #[test]
    fn an_end_is_final() {
        for ended in [Completed, Failed, Stopped] {
            assert!(ended.is_terminal());
            assert!(Change::ALL.iter().all(|by| next(ended, *by).is_err()));
        }
        for going_on in [Pending, Starting, Ready, Running] {
            assert!(!going_on.is_terminal());
        }
    }
}
