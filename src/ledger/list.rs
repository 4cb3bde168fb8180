//! What is asked of the folder as a whole, and what it answers.

use std::fmt;
use std::str::FromStr;

use super::summary::{RunState, Summary};
use crate::clock::Timestamp;
use crate::id::RunId;

/// Runs of one page of a list. Protects the memory of whoever asked.
pub const LIST_RUNS_MAX: usize = 10_000;
/// Hexadecimal digits of the time in a cursor.
const TIME_DIGITS: usize = 16;

/// Which runs are wanted. Conditions that are absent let every run pass.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// Runs in this state; [`RunState::Running`] includes those whose process is gone.
    pub state: Option<RunState>,
    /// Only runs that have no end, or one after which they can go on.
    pub may_go_on: bool,
    /// Runs of this skill, or of one function of it, which is asked for as `skill.function`.
    pub skill: Option<String>,
    /// Runs that this one asked for.
    pub parent_run_id: Option<RunId>,
    /// Runs of agents, of one session or of any.
    pub session: Option<OfSession>,
    /// Runs that started then or later.
    pub since: Option<Timestamp>,
    /// Runs after the last one of an earlier page.
    pub after: Option<Cursor>,
    /// How many runs at most; more than [`LIST_RUNS_MAX`] counts as that.
    pub limit: usize,
}

/// Which executions are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfSession {
    /// All that there are.
    Any,
    /// Those of this session.
    One(String),
}

/// The skill, of what a run was asked for: no name of a skill has a dot in it, and behind one stands the
/// function that was asked for.
pub(super) fn skill_of(asked: &str) -> &str {
    asked.split('.').next().unwrap_or(asked)
}

impl RunQuery {
    /// The newest `limit` runs.
    pub fn newest(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    fn wants_skill(&self, run: &Summary) -> bool {
        match (&self.skill, &run.skill) {
            (None, _) => true,
            (Some(wanted), Some(asked)) => asked == wanted || skill_of(asked) == wanted,
            (Some(_), None) => false,
        }
    }

    fn wants_session(&self, run: &Summary) -> bool {
        match &self.session {
            None => true,
            Some(OfSession::Any) => run.session_id.is_some(),
            Some(OfSession::One(wanted)) => run.session_id.as_ref() == Some(wanted),
        }
    }

    /// Whether the run fulfils every condition but those on its place in the list.
    pub(super) fn wants(&self, run: &Summary) -> bool {
        self.state.is_none_or(|state| state == run.state)
            && (!self.may_go_on || run.state.may_go_on())
            && self.wants_skill(run)
            && self.wants_session(run)
            && (self.parent_run_id.is_none() || run.parent_run_id == self.parent_run_id)
    }
}

/// Runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The runs, damaged ones included.
    pub runs: Vec<Summary>,
    /// Where the next page begins; absent when there are no further runs. A page that is shorter than
    /// asked for says nothing: runs that went while it was made are left out.
    pub next: Option<Cursor>,
    /// Names of files that look like ledgers and name no run; at most 100.
    pub foreign: Vec<String>,
}

/// A place in the list of all runs: after one run, whether or not that run still exists.
///
/// Its text is for handing back only; what it consists of may change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Microseconds since 1970 by which the run is sorted.
    pub(super) started_micros: i64,
    /// Tells runs of one microsecond apart.
    pub(super) run_id: RunId,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0TIME_DIGITS$x}{}", self.started_micros, self.run_id)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let malformed = || CursorError(text.chars().take(80).collect());
        let (time, run_id) = text.split_at_checked(TIME_DIGITS).ok_or_else(malformed)?;
        let is_hex = time
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let micros = u64::from_str_radix(time, 16).map_err(|_| malformed())?;
        Ok(Self {
            started_micros: is_hex
                .then_some(micros.cast_signed())
                .ok_or_else(malformed)?,
            run_id: run_id.parse().map_err(|_| malformed())?,
        })
    }
}

/// A text that no list has named as its next page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed cursor {0:?}: expected the one that a list ended with")]
pub struct CursorError(String);

#[cfg(test)]
mod tests {
    use super::{Cursor, RunId};

    #[test]
    fn a_cursor_comes_back_from_its_text_and_nothing_else_parses() {
        for started_micros in [0, -1, i64::MIN, i64::MAX, 1_778_691_736_049_000] {
            let run_id = RunId::generate();
            let cursor = Cursor {
                started_micros,
                run_id,
            };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        let good = "00065194f1d5d000run_0190a0a0a0a07000800000000000abcd";
        assert!(good.parse::<Cursor>().is_ok());
        for bad in [
            "",
            "ü",
            &good[1..],
            &good[16..],
            &good[..16],
            &good.to_uppercase(),
            "+0065194f1d5d000run_0190a0a0a0a07000800000000000abcd",
            "0006519üf1d5d00run_0190a0a0a0a07000800000000000abcd",
        ] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
        }
    }
}
