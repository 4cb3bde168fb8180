//! Sending a request again, when that may help.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use crate::clock::Timestamp;

/// The first wait, which doubles with each further one, and the longest.
const FIRST_WAIT_MS: u64 = 500;
const WAIT_MS_MAX: u64 = 30_000;
/// The longest wait that a provider may ask for. Protects callers from one that names next year.
const ASKED_WAIT_MS_MAX: u64 = 60_000;

/// What failed, and whether sending it again may help.
pub(super) trait Attempted {
    /// Whether it may go well the next time.
    fn is_transient(&self) -> bool;

    /// How long the other side asked to wait.
    fn asked_wait(&self) -> Option<Duration>;
}

/// Attempts until one goes well, cannot go well, was one too many, or the next would begin after the
/// deadline. Gives the last failure and the number of attempts.
pub(super) async fn with_retries<T, E: Attempted, F: Future<Output = Result<T, E>>>(
    retries_max: u32,
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Result<T, (E, u32)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let failure = match attempt().await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        if !failure.is_transient() || attempts > retries_max {
            return Err((failure, attempts));
        }
        let asked_max = Duration::from_millis(ASKED_WAIT_MS_MAX);
        let wait = match failure.asked_wait() {
            Some(asked) => asked.min(asked_max),
            None => back_off(attempts),
        };
        let waiting = sleep(wait);
        if waiting.deadline() >= deadline {
            return Err((failure, attempts));
        }
        waiting.await;
    }
}

/// The wait after so many attempts: half of it is chance, so that those who failed together do not come
/// back together.
fn back_off(attempts: u32) -> Duration {
    let doubled = FIRST_WAIT_MS.saturating_mul(1_u64 << attempts.saturating_sub(1).min(16));
    let longest = doubled.min(WAIT_MS_MAX);
    Duration::from_millis(rand::rng().random_range(longest / 2..=longest))
}

/// The wait that a header field asks for: a number of seconds, or a date.
pub(super) fn asked_wait(field: &str, now: Timestamp) -> Option<Duration> {
    let field = field.trim();
    if let Ok(seconds) = field.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(field)
        .ok()?;
    let micros = date.as_microsecond().saturating_sub(now.unix_micros());
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::time::{Instant, interval};

    use super::{Attempted, asked_wait, with_retries};
    use crate::clock::Timestamp;

    #[derive(Debug, PartialEq, Eq)]
    struct Failure {
        number: u32,
        is_transient: bool,
        asked_ms: Option<u64>,
    }

    impl Attempted for Failure {
        fn is_transient(&self) -> bool {
            self.is_transient
        }

        fn asked_wait(&self) -> Option<Duration> {
            self.asked_ms.map(Duration::from_millis)
        }
    }

    /// Attempts that fail until one of that number goes well; gives what came of it and the
    /// milliseconds that it took, in the paused time of the test.
    async fn attempt(
        well_at: u32,
        retries_max: u32,
        within_ms: u64,
        asked_ms: Option<u64>,
        is_transient: bool,
    ) -> (Result<u32, (Failure, u32)>, u128) {
        let from = interval(Duration::from_secs(1)).tick().await;
        let deadline: Instant = from + Duration::from_millis(within_ms);
        let number = Cell::new(0);
        let done = with_retries(retries_max, deadline, || {
            number.set(number.get() + 1);
            let number = number.get();
            async move {
                match number {
                    _ if number == well_at => Ok(number),
                    number => Err(Failure {
                        number,
                        is_transient,
                        asked_ms,
                    }),
                }
            }
        })
        .await;
        (done, from.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_other_side_asks_for_is_waited_and_no_longer_than_a_minute() {
        let (done, took_ms) = attempt(2, 3, 600_000, Some(7_000), true).await;
        assert_eq!((done, took_ms), (Ok(2), 7_000));
        let (done, took_ms) = attempt(2, 3, 600_000, Some(86_400_000), true).await;
        assert_eq!((done, took_ms), (Ok(2), 60_000));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_with_chance_in_them() {
        let mut all = Vec::new();
        for _ in 0..8 {
            let (done, took_ms) = attempt(4, 3, 600_000, None, true).await;
            assert_eq!(done, Ok(4));
            // 500 + 1,000 + 2,000 at most, and half of each at least.
            assert!((1_750..=3_503).contains(&took_ms), "{took_ms}");
            all.push(took_ms);
        }
        all.dedup();
        assert!(all.len() > 1, "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_last_failure() {
        let (done, _) = attempt(9, 3, 600_000, None, true).await;
        let (failure, attempts) = done.unwrap_err();
        assert_eq!((failure.number, attempts), (4, 4));
        let (done, took_ms) = attempt(9, 3, 600_000, None, false).await;
        assert_eq!((done.unwrap_err().1, took_ms), (1, 0));
        // What would begin after the deadline is not waited for.
        let (done, took_ms) = attempt(9, 3, 5_000, Some(5_000), true).await;
        assert_eq!((done.unwrap_err().1, took_ms), (1, 0));
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_or_a_date() {
        let now = Timestamp::from_unix_micros(784_111_777_000_000);
        for (field, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let wait = asked_wait(field, now);
            assert_eq!(wait, seconds.map(Duration::from_secs), "{field:?}");
        }
        assert!(asked_wait("18446744073709551615", now).is_some());
    }
}
