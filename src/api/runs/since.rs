//! A moment as a query names it: itself, or how long ago it was.

use crate::clock::Timestamp;

/// Hours of a day, where nobody asks for the days on which clocks are set.
const HOURS_PER_DAY: u64 = 24;
/// Characters of what was given that an error repeats.
const SHOWN_CHARS_MAX: usize = 64;

/// A text that names no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no moment: expected RFC 3339, as in 2026-05-13T17:02:16Z, or a time such as 1h or 30d"
)]
pub(super) struct SinceError(String);

/// The moment that `text` names, `now` being now. One before the first year there is becomes that.
///
/// # Errors
/// It is neither RFC 3339 nor a time that is not negative.
pub(super) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, SinceError> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let malformed = || SinceError(text.chars().take(SHOWN_CHARS_MAX).collect());
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    let hours = days.and_then(|days: u64| days.checked_mul(HOURS_PER_DAY));
    let in_hours = hours.map(|hours| format!("{hours}h"));
    let ago: jiff::SignedDuration = in_hours
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| malformed())?;
    let ago = std::time::Duration::try_from(ago).map_err(|_| malformed())?;
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    let then = now.unix_micros().saturating_sub(micros);
    Ok(Timestamp::from_unix_micros(then))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Timestamp, parse};

    const NOW_MICROS: i64 = 1_778_691_736_049_000;

    fn now() -> Timestamp {
        Timestamp::from_unix_micros(NOW_MICROS)
    }

    #[test]
    fn a_moment_and_how_long_ago_it_was_are_the_same() {
        for (text, seconds) in [
            ("0s", 0),
            ("90m", 5_400),
            ("1h 30m", 5_400),
            ("2d", 172_800),
        ] {
            let then = Timestamp::from_unix_micros(NOW_MICROS - seconds * 1_000_000);
            assert_eq!(parse(text, now()), Ok(then), "{text}");
            assert_eq!(parse(&then.to_string(), now()), Ok(then), "{text}");
        }
        assert!(parse("100000000d", now()).unwrap() < now());
        for text in [
            "",
            "1",
            "d",
            "-1h",
            "-1d",
            "yesterday",
            "1.5d",
            "2026-05-13",
            "1 hour ago",
        ] {
            assert!(parse(text, now()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_not_in_the_future_is_later_than_now(text in ".{0,40}", days: u64) {
            let _refused_or_not = parse(&text, now());
            if let Ok(then) = parse(&format!("{days}d"), now()) {
                prop_assert!(then <= now());
            }
        }
    }
}
