//! How long a request may wait for what it asked for.

use std::time::Duration;

use super::problem::{Problem, ProblemCode};

/// Milliseconds that a request may wait: ten minutes. Protects connections from callers who forgot that they wait.
const WAIT_MS_MAX: u64 = 600_000;

/// What the parameter `wait` says: how long is waited at most; none when it is not.
///
/// # Errors
/// It is neither `true` nor `false`, and no number of milliseconds that may be waited.
pub(super) fn parse(text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let text = match text {
        None | Some("false") => return Ok(None),
        Some("true") => return Ok(Some(Duration::from_millis(WAIT_MS_MAX))),
        Some(text) => text,
    };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let wait_ms = text.parse().ok().filter(|_| is_number);
    match wait_ms.filter(|wait_ms| (1..=WAIT_MS_MAX).contains(wait_ms)) {
        Some(wait_ms) => Ok(Some(Duration::from_millis(wait_ms))),
        None => Err(Problem::new(
            ProblemCode::InvalidInput,
            format!("wait: expected true, false, or 1 to {WAIT_MS_MAX} milliseconds"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn a_wait_is_a_word_or_so_many_milliseconds() {
        let ms = |ms| Some(Duration::from_millis(ms));
        for (text, expected) in [
            (None, None),
            (Some("false"), None),
            (Some("true"), ms(600_000)),
            (Some("1"), ms(1)),
            (Some("600000"), ms(600_000)),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text:?}");
        }
        for text in ["", "0", "600001", "-1", "+1", "1.5", "yes", "TRUE"] {
            assert!(parse(Some(text)).is_err(), "{text:?}");
        }
    }
}
