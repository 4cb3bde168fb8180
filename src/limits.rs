//! Every bound on a run, with its unit and the reason for it.
//!
//! No limit is optional. Each has a default, a maximum and a [`Source`] that is recorded and shown, so
//! that a run that met one can say which it was, how large it was, and which key changes it. What a
//! skill's manifest asks for can only lower what the operator set.

mod budget;

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

pub use budget::{Budget, Pause, Reservation};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// More fuel than any run can burn, and the largest number that a TOML file can hold.
const FUEL_UNLIMITED: u64 = u64::MAX >> 1;
const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Where the value of a limit came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The default that this crate ships.
    Default,
    /// `[limits]` in the operator's `config.toml`.
    Config,
    /// `[skills.<name>.limits]` in the operator's `config.toml`.
    Skill,
    /// The skill's own `skill.toml`, which asked for less than the operator allows.
    Manifest,
    /// The caller of this one run.
    Call,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Config => "config",
            Self::Skill => "config of the skill",
            Self::Manifest => "manifest",
            Self::Call => "call",
        })
    }
}

macro_rules! limit_keys {
    ($($(#[$doc:meta])+ $variant:ident as $field:ident, $default:expr, $max:expr;)+) => {
        /// Names one limit. The name, as it stands in `[limits]` of `config.toml` and of `skill.toml`,
        /// ends in the unit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LimitKey { $($(#[$doc])+ $variant,)+ }

        impl LimitKey {
            /// Every limit, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The key in configuration and manifest.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field),)+ }
            }

            /// The value when nobody set one.
            pub fn default_value(self) -> u64 {
                match self { $(Self::$variant => $default,)+ }
            }

            /// The largest value that is accepted; the smallest is 1.
            pub fn max_value(self) -> u64 {
                match self { $(Self::$variant => $max,)+ }
            }
        }

        /// The limits of one run.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits { $($field: Limit,)+ }

        impl Limits {
            /// The value of one limit and where it came from.
            pub fn get(&self, key: LimitKey) -> Limit {
                match key { $(LimitKey::$variant => self.$field,)+ }
            }

            fn slot(&mut self, key: LimitKey) -> &mut Limit {
                match key { $(LimitKey::$variant => &mut self.$field,)+ }
            }
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: Limit { value: $default, source: Source::Default },)+ }
            }
        }
    };
}

limit_keys! {
    /// Wall time from the moment the guest starts, waiting in host calls included, but for waiting for
    /// a person. Protects callers from a run that never ends.
    WallTimeMs as wall_time_ms, 60_000, 24 * HOUR_MS;
    /// Time the guest holds a thread, the host's part of its calls included, seen every 10 ms. Protects
    /// the other runs on the machine from one that spins.
    CpuTimeMs as cpu_time_ms, 30_000, 24 * HOUR_MS;
    /// Instructions the guest may execute, roughly one unit each. Unlike time it is deterministic, so
    /// it cuts off at the same place on every machine; the default never does.
    Fuel as fuel, FUEL_UNLIMITED, FUEL_UNLIMITED;
    /// All linear memories of the guest, summed. Protects the host from a guest that grows.
    MemoryBytes as memory_bytes, 256 * MIB, 4 * GIB;
    /// Elements of all tables of the guest, summed: host memory that is not in a linear memory.
    TableElements as table_elements, 20_000, 1_000_000;
    /// Host resources that the guest holds at once: steps, streams, timers, files. Protects the host's
    /// heap.
    Resources as resources, 10_000, 1_000_000;
    /// Files and folders that the guest holds open at once, the folders that it is given included.
    /// Protects the other runs of the process, which share its file descriptors.
    OpenFiles as open_files, 64, 1024;
    /// Bytes that the guest writes to files, growth without writing included, and 256 for each name that
    /// it makes. Protects the disk.
    FileWriteBytes as file_write_bytes, 256 * MIB, 64 * GIB;
    /// The JSON text of the result. Protects ledgers and callers.
    OutputBytes as output_bytes, 4 * MIB, 64 * MIB;
    /// What one host call may carry out of the guest, summed over its strings and lists; never less
    /// than `output_bytes`. Protects the host's heap, which a guest's memory limit does not cover.
    HostCallBytes as host_call_bytes, 8 * MIB, 128 * MIB;
    /// Calls of host functions that reach a tool, a model, a person, another skill or a server.
    HostCalls as host_calls, 10_000, 1_000_000;
    /// The body of one outgoing request. Protects the host's heap and the ledger, which keep it whole.
    HttpRequestBytes as http_request_bytes, 8 * MIB, 64 * MIB;
    /// The body of one response, for the same reason. What a guest has not read yet may be
    /// `parallel_calls` times as much.
    HttpResponseBytes as http_response_bytes, 8 * MIB, 64 * MIB;
    /// Time for one outgoing request, from the look-up of its host to the end of the response. Protects
    /// callers from servers that never end.
    HttpTimeoutMs as http_timeout_ms, 30_000, HOUR_MS;
    /// Outgoing requests at once; further ones wait. Protects the servers that are asked, and with the
    /// two sizes the host's heap.
    ParallelCalls as parallel_calls, 4, 16;
    /// Time that a person has to answer a question; a skill may ask for less. Protects callers from a run
    /// that waits for ever, since it does not count as wall time.
    ApprovalTimeoutMs as approval_timeout_ms, DAY_MS, 30 * DAY_MS;
    /// Tokens that language models read and write for the run, its own reports of such use included.
    /// Protects the operator's account.
    LlmTokens as llm_tokens, 1_000_000, 1_000_000_000;
    /// What that costs, in millionths of a US dollar. Protects the operator's account.
    LlmCostMicrousd as llm_cost_microusd, 10_000_000, 100_000_000_000;
    /// Runs within runs. Protects from skills that hand work to each other for ever.
    NestingDepth as nesting_depth, 8, 64;
    /// Log lines, standard output and standard error, summed, 64 bytes for each line beside its text;
    /// what is above it is counted and dropped. Protects the ledger.
    LogBytes as log_bytes, MIB, 256 * MIB;
    /// Events that the guest adds to its ledger, log lines and waits included. Protects the ledger.
    GuestEvents as guest_events, 100_000, 10_000_000;
    /// Those events' content, summed, and what outgoing requests and their responses put into the lines of
    /// the ledger. Protects the disk, and with it everyone else's ledgers.
    GuestEventBytes as guest_event_bytes, 64 * MIB, 4 * GIB;
}

/// One limit's value and origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// In the unit that the key's name ends in.
    pub value: u64,
    /// Who set it.
    pub source: Source,
}

/// Values that a configuration, a manifest or a call sets, by key.
pub type LimitOverrides = BTreeMap<String, i64>;

impl Limits {
    /// Just the number.
    pub fn value(&self, key: LimitKey) -> u64 {
        self.get(key).value
    }

    /// Applies the values of one source. An operator's configuration and a call replace, except that
    /// neither a skill's own section nor a call can raise what the pool of instances is sized by. A
    /// manifest can only lower. A larger wish leaves the value in force.
    ///
    /// # Errors
    /// A key that does not exist, and a value that is 0, negative or above the key's maximum; nothing
    /// is applied then.
    pub fn with(mut self, source: Source, overrides: &LimitOverrides) -> Result<Self, LimitError> {
        for (name, &value) in overrides {
            let key = LimitKey::ALL
                .iter()
                .copied()
                .find(|key| key.as_str() == name)
                .ok_or_else(|| LimitError::UnknownKey { name: name.clone() })?;
            let value = u64::try_from(value)
                .ok()
                .filter(|value| (1..=key.max_value()).contains(value))
                .ok_or(LimitError::OutOfRange {
                    key: key.as_str(),
                    value,
                    max: key.max_value(),
                })?;
            let slot = self.slot(key);
            let lowers_only = match source {
                Source::Manifest => true,
                Source::Skill | Source::Call => {
                    matches!(key, LimitKey::MemoryBytes | LimitKey::TableElements)
                }
                Source::Default | Source::Config => false,
            };
            if !lowers_only || value < slot.value {
                *slot = Limit { value, source };
            }
        }
        Ok(self)
    }

    /// The limits of another run, as its ledger has them, for it to be done again. Of what the pool of
    /// instances is sized by there is no more than here. A limit that is not there has its default, and one
    /// that this version does not know does not count.
    ///
    /// # Errors
    /// The text is not what a ledger has, or a value is 0 or above the key's maximum.
    pub(crate) fn recorded(&self, text: &str) -> Result<Self, LimitError> {
        let recorded: BTreeMap<String, Limit> =
            serde_json::from_str(text).map_err(|error| LimitError::Malformed {
                problem: error.to_string(),
            })?;
        let mut limits = Self::default();
        for &key in LimitKey::ALL {
            let Some(&limit) = recorded.get(key.as_str()) else {
                continue;
            };
            if !(1..=key.max_value()).contains(&limit.value) {
                return Err(LimitError::OutOfRange {
                    key: key.as_str(),
                    value: i64::try_from(limit.value).unwrap_or(i64::MAX),
                    max: key.max_value(),
                });
            }
            *limits.slot(key) = limit;
        }
        let bound_here = [
            LimitKey::WallTimeMs,
            LimitKey::CpuTimeMs,
            LimitKey::MemoryBytes,
            LimitKey::TableElements,
        ];
        for key in bound_here {
            let own = self.get(key);
            if limits.value(key) > own.value {
                *limits.slot(key) = own;
            }
        }
        Ok(limits)
    }
}

impl Serialize for Limits {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            LimitKey::ALL
                .iter()
                .map(|&key| (key.as_str(), self.get(key))),
        )
    }
}

/// Whose limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The run's own.
    Run,
    /// That of a run above it, whose budget it shares.
    Above,
}

/// A limit that was reached: everything that a person needs to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} limit of {} reached (set by {}{})", key.as_str(), limit.value, limit.source, scope.suffix())]
pub struct LimitReached {
    /// Which limit.
    pub key: LimitKey,
    /// Its value and source.
    pub limit: Limit,
    /// Whose it is.
    pub scope: Scope,
}

impl Serialize for LimitReached {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("LimitReached", 4)?;
        fields.serialize_field("key", self.key.as_str())?;
        fields.serialize_field("value", &self.limit.value)?;
        fields.serialize_field("source", &self.limit.source)?;
        fields.serialize_field("scope", &self.scope)?;
        fields.end()
    }
}

impl Scope {
    fn suffix(self) -> &'static str {
        match self {
            Self::Run => "",
            Self::Above => ", for the run above this one and all inside it",
        }
    }
}

impl LimitReached {
    /// The same, as it looks from a run inside the one that it was reached for.
    #[must_use]
    pub(crate) fn above(self) -> Self {
        Self {
            scope: Scope::Above,
            ..self
        }
    }

    /// What to do about it, for a `hint:` line.
    pub fn hint(&self) -> String {
        let key = self.key.as_str();
        match self.limit.source {
            Source::Default | Source::Config => format!(
                "raise limits.{key} in config.toml (at most {}), if the skill is meant to need more",
                self.key.max_value()
            ),
            Source::Skill => format!(
                "raise skills.<name>.limits.{key} in config.toml (at most {})",
                self.key.max_value()
            ),
            Source::Manifest => {
                format!("the skill's own skill.toml sets limits.{key}; it may be raised there")
            }
            Source::Call => format!("the call set {key}; let it set more"),
        }
    }
}

/// Why a set of limits was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// No limit has that name.
    #[error("unknown limit {name:?}: expected one of {}", names())]
    UnknownKey {
        /// The name as given.
        name: String,
    },
    /// The value is not between 1 and the maximum.
    #[error("limit {key} = {value} is out of range: expected 1 to {max}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: i64,
        /// The largest value accepted.
        max: u64,
    },
    /// What should be the limits of a run is something else.
    #[error("malformed limits: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
}

fn names() -> String {
    let names: Vec<&str> = LimitKey::ALL.iter().map(|key| key.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{LimitError, LimitKey, LimitOverrides, Limits, Source};

    fn set(name: &str, value: i64) -> LimitOverrides {
        LimitOverrides::from([(name.to_owned(), value)])
    }

    #[test]
    fn zero_negative_absurd_and_unknown_are_refused() {
        for value in [0, -1, i64::MIN, 24 * 60 * 60 * 1000 + 1, i64::MAX] {
            let refused = Limits::default().with(Source::Config, &set("wall_time_ms", value));
            assert!(
                matches!(
                    refused,
                    Err(LimitError::OutOfRange {
                        key: "wall_time_ms",
                        ..
                    })
                ),
                "{value}"
            );
        }
        let refused = Limits::default().with(Source::Config, &set("wall_time", 5));
        assert!(matches!(refused, Err(LimitError::UnknownKey { .. })));
    }

    #[test]
    fn a_manifest_lowers_and_never_raises() {
        let limits = Limits::default()
            .with(Source::Config, &set("wall_time_ms", 5_000))
            .and_then(|limits| limits.with(Source::Manifest, &set("wall_time_ms", 9_000)))
            .and_then(|limits| limits.with(Source::Manifest, &set("memory_bytes", 65_536)))
            .unwrap();
        let wall = limits.get(LimitKey::WallTimeMs);
        assert_eq!((wall.value, wall.source), (5_000, Source::Config));
        let memory = limits.get(LimitKey::MemoryBytes);
        assert_eq!((memory.value, memory.source), (65_536, Source::Manifest));
    }

    #[test]
    fn recorded_limits_come_back_and_raise_nothing_that_the_pool_is_sized_by() {
        let here = Limits::default();
        let there = Limits::default()
            .with(Source::Config, &set("memory_bytes", 1 << 32))
            .and_then(|limits| limits.with(Source::Manifest, &set("host_calls", 3)))
            .unwrap();
        let text = serde_json::to_string(&there).unwrap();
        let recorded = here.recorded(&text).unwrap();
        let memory = LimitKey::MemoryBytes;
        assert_eq!(recorded.get(memory), here.get(memory));
        for &key in LimitKey::ALL.iter().filter(|key| **key != memory) {
            assert_eq!(recorded.get(key), there.get(key), "{}", key.as_str());
        }
        assert_eq!(here.recorded("{}"), Ok(Limits::default()));
        for forged in [
            r#"{"host_calls":{"value":0,"source":"call"}}"#,
            r#"{"host_calls":{"value":18446744073709551615,"source":"call"}}"#,
            r#"{"host_calls":{"value":1,"source":"nobody"}}"#,
            r#"{"host_calls":-1}"#,
            "[]",
        ] {
            assert!(here.recorded(forged).is_err(), "{forged}");
        }
    }

    #[test]
    fn every_default_is_within_its_own_range() {
        for key in LimitKey::ALL {
            assert!(
                (1..=key.max_value()).contains(&key.default_value()),
                "{}",
                key.as_str()
            );
        }
    }
}
