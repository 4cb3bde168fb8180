//! The only reader of time.
//!
//! Everything that needs the time of day or a duration is handed a [`Clock`], so that a test can set
//! both. Timers are tokio's, which a test pauses on its own.

#![expect(clippy::disallowed_methods, reason = "this is the one reader of time")]

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment in UTC with microseconds, written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The moment that lies `micros` microseconds after 1970-01-01T00:00:00Z; moments outside the
    /// years -9999 to 9999 become the nearest one inside.
    pub fn from_unix_micros(micros: i64) -> Self {
        let clamped = micros.clamp(
            jiff::Timestamp::MIN.as_microsecond(),
            jiff::Timestamp::MAX.as_microsecond(),
        );
        Self(jiff::Timestamp::from_microsecond(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn unix_micros(self) -> i64 {
        self.0.as_microsecond()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        text.parse()
            .map(Self)
            .map_err(|_| TimestampError(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;

    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(moment: Timestamp) -> Self {
        moment.to_string()
    }
}

/// A text that is not an RFC 3339 moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed time {0:?}: expected RFC 3339, as in 2026-05-13T17:02:16.049000Z")]
pub struct TimestampError(String);

/// Where the time comes from.
#[derive(Debug, Clone, Default)]
pub struct Clock(Source);

#[derive(Debug, Clone, Default)]
enum Source {
    #[default]
    System,
    /// Microseconds since the epoch, the same for both kinds of reading.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`Clock::advance`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(
            start.unix_micros(),
        ))))
    }

    /// Moves a manual clock, and every clone of it, forward. The system's clock is not ours to move,
    /// so there it does nothing.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            micros.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let micros = match &self.0 {
            Source::System => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
                Err(before) => {
                    i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)
                }
            },
            Source::Manual(micros) => micros.load(Ordering::SeqCst),
        };
        Timestamp::from_unix_micros(micros)
    }

    /// Starts to measure a duration; setting the time of day does not disturb it.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(match &self.0 {
            Source::System => Start::System(Instant::now()),
            Source::Manual(micros) => Start::Manual {
                now: Arc::clone(micros),
                start: micros.load(Ordering::SeqCst),
            },
        })
    }
}

/// A running measurement, made by [`Clock::stopwatch`].
#[derive(Debug, Clone)]
pub struct Stopwatch(Start);

#[derive(Debug, Clone)]
enum Start {
    System(Instant),
    Manual { now: Arc<AtomicI64>, start: i64 },
}

impl Stopwatch {
    /// The time since the start; never negative.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Start::System(instant) => instant.elapsed(),
            Start::Manual { now, start } => {
                let passed = now.load(Ordering::SeqCst).saturating_sub(*start);
                Duration::from_micros(u64::try_from(passed).unwrap_or(0))
            }
        }
    }

    /// The time since the start in whole microseconds, as ledgers carry it.
    pub fn elapsed_micros(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Timestamp};

    #[test]
    fn a_moment_always_has_six_decimals_and_parses_back() {
        for micros in [0, 1, 1_778_691_736_049_000, -1, i64::MAX, i64::MIN] {
            let moment = Timestamp::from_unix_micros(micros);
            let text = moment.to_string();
            let decimals = text.rsplit_once('.').map(|(_, tail)| tail.len());
            assert_eq!(decimals, Some("000000Z".len()), "{text}");
            assert_eq!(text.parse(), Ok(moment));
        }
    }

    #[test]
    fn a_manual_clock_moves_with_all_its_clones() {
        let clock = Clock::manual(Timestamp::from_unix_micros(5));
        let other = clock.clone();
        let watch = other.stopwatch();
        clock.advance(Duration::from_micros(7));
        assert_eq!(other.now(), Timestamp::from_unix_micros(12));
        assert_eq!(watch.elapsed_micros(), 7);
    }
}
