//! Parsed identifiers. An empty or malformed one cannot be built, and none can leave its folder when
//! it becomes a file name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Characters of a UUID in simple form.
const UUID_SIMPLE_CHARS: usize = 32;
/// Digits of the time in an id of the original system: `YYYYMMDD` `T` `hhmmssmmm`.
const ORIGINAL_DATE_DIGITS: usize = 8;
const ORIGINAL_TIME_DIGITS: usize = 9;
/// Hexadecimal digits that follow the time in an id of the original system.
const ORIGINAL_SUFFIX_CHARS: usize = 16;

/// A run's id: `run_` and a UUIDv7 in simple form, so that ids sort by start time.
///
/// Ids of the original system, `run_<compact time>_<hex>`, parse as well, because its ledgers are
/// listed and inspected; none is ever made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Box<str>);

impl RunId {
    /// A new id, later in order than every id that this process made before.
    pub fn generate() -> Self {
        let mut buffer = Uuid::encode_buffer();
        let uuid = Uuid::now_v7();
        Self(format!("run_{}", uuid.simple().encode_lower(&mut buffer)).into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let malformed = || IdError::Malformed {
            given: text.chars().take(80).collect(),
        };
        let rest = text.strip_prefix("run_").ok_or_else(malformed)?;
        if is_lower_hex(rest, UUID_SIMPLE_CHARS) || is_original(rest) {
            Ok(Self(text.into()))
        } else {
            Err(malformed())
        }
    }
}

fn is_lower_hex(text: &str, chars: usize) -> bool {
    text.len() == chars
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_digits(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_original(text: &str) -> bool {
    let Some((moment, suffix)) = text.split_once('_') else {
        return false;
    };
    let Some((date, time)) = moment.split_once('T') else {
        return false;
    };
    is_digits(date, ORIGINAL_DATE_DIGITS)
        && is_digits(time, ORIGINAL_TIME_DIGITS)
        && is_lower_hex(suffix, ORIGINAL_SUFFIX_CHARS)
}

impl TryFrom<String> for RunId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0.into()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an execution: `exec_`, the digits of the run that is its ledger, `_` and which stretch of that it
/// is, from 1: an agent that is taken up again goes on in the same ledger, as another execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExecutionId {
    run_id: RunId,
    part: u32,
}

impl ExecutionId {
    /// The execution that is this stretch, from 1, of the ledger of `run_id`; none for a run of the original
    /// system, which had no such thing, and for stretch 0.
    pub fn new(run_id: &RunId, part: u32) -> Option<Self> {
        let digits = run_id.as_str().strip_prefix("run_")?;
        (part > 0 && is_lower_hex(digits, UUID_SIMPLE_CHARS)).then(|| Self {
            run_id: run_id.clone(),
            part,
        })
    }

    /// The run whose ledger it has.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Which stretch of the ledger is its own, from 1.
    pub fn part(&self) -> u32 {
        self.part
    }
}

impl FromStr for ExecutionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parsed = || {
            let (digits, part) = text.strip_prefix("exec_")?.split_once('_')?;
            let is_number = !part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
            let run_id = format!("run_{digits}").parse().ok()?;
            Self::new(&run_id, part.parse().ok().filter(|_| is_number)?)
        };
        parsed().ok_or_else(|| IdError::MalformedExecution {
            given: text.chars().take(80).collect(),
        })
    }
}

impl TryFrom<String> for ExecutionId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ExecutionId> for String {
    fn from(id: ExecutionId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.run_id.as_str().trim_start_matches("run_");
        write!(f, "exec_{digits}_{}", self.part)
    }
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text does not have the form of a run id.
    #[error("malformed run id {given:?}: expected run_ and 32 lower-case hexadecimal digits")]
    Malformed {
        /// The text, cut after 80 characters.
        given: String,
    },
    /// The text does not have the form of an execution's id.
    #[error(
        "malformed execution id {given:?}: expected exec_, 32 lower-case hexadecimal digits, _ and a number from 1"
    )]
    MalformedExecution {
        /// The text, cut after 80 characters.
        given: String,
    },
}

#[cfg(test)]
mod tests {
    use super::{ExecutionId, RunId};

    #[test]
    fn the_id_of_an_execution_tells_its_ledger_and_its_stretch_of_it() {
        let run_id = RunId::generate();
        let id = ExecutionId::new(&run_id, 12).unwrap();
        let text = id.to_string();
        assert_eq!(text.parse::<ExecutionId>().as_ref(), Ok(&id));
        assert_eq!((id.run_id(), id.part()), (&run_id, 12));
        assert!(ExecutionId::new(&run_id, 0).is_none());
        let stem = text.trim_end_matches("12");
        for bad in ["", "0", "01", "-1", "+1", "4294967296", "1_1", "1/../.."] {
            let bad = format!("{stem}{bad}");
            assert!(bad.parse::<ExecutionId>().is_err(), "{bad}");
        }
        assert!(
            "exec_20260513T170216042_9f86d081884c7d65_1"
                .parse::<ExecutionId>()
                .is_err()
        );
    }

    #[test]
    fn ids_sort_by_start_and_parse_back() {
        let ids: Vec<RunId> = (0..100).map(|_| RunId::generate()).collect();
        assert!(ids.is_sorted());
        for id in &ids {
            assert_eq!(id.as_str().parse::<RunId>().as_ref(), Ok(id));
        }
    }

    #[test]
    fn only_the_two_known_forms_parse() {
        for good in [
            "run_0190a0a0a0a07000800000000000abcd",
            "run_20260513T170216042_9f86d081884c7d65",
        ] {
            assert!(good.parse::<RunId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "run_",
            "run_../../../../etc/passwd/aaaaaaaaaaa",
            "run_0190A0A0A0A07000800000000000ABCD",
            "run_0190a0a0a0a07000800000000000abcd0",
            "run_20260513T170216042_9f86d081884c7d6/",
            "run_2026051T1702160420_9f86d081884c7d65",
            "0190a0a0a0a07000800000000000abcd",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
