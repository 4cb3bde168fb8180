//! The modes of an execution: which tools it has beside those of servers and of the host.

use std::fmt;
use std::str::FromStr;

use super::error::{RuntimeError, shown};
use crate::id::ExecutionId;
use crate::runner::ToolSurface;
use crate::tools::Toolbox;

/// Which tools an execution has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Running skills, and children of one's own.
    #[default]
    Task,
    /// Looking after skills and limits.
    Config,
    /// Plans, documents and decisions.
    Office,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Task, Self::Config, Self::Office];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Config => "config",
            Self::Office => "office",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = RuntimeError;

    fn from_str(text: &str) -> Result<Self, RuntimeError> {
        let named = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        named.ok_or_else(|| RuntimeError::UnknownMode { mode: shown(text) })
    }
}

/// Where the tools of modes come from.
pub trait ModeTools: Send + Sync {
    /// The tools that this execution has in a mode. What its agent may call of them, its grants say.
    fn surface(&self, mode: Mode, execution: &ExecutionId) -> ToolSurface;
}

/// Modes without tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModeTools;

impl ModeTools for NoModeTools {
    fn surface(&self, mode: Mode, _execution: &ExecutionId) -> ToolSurface {
        ToolSurface {
            mode: mode.as_str().to_owned(),
            tools: Toolbox::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn a_mode_comes_back_from_its_word_and_nothing_else_is_one() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse::<Mode>().ok(), Some(mode));
        }
        for bad in ["", "Task", "task ", "root"] {
            let error = bad.parse::<Mode>().unwrap_err().to_string();
            assert!(error.starts_with("unknown mode"), "{error}");
        }
    }
}
