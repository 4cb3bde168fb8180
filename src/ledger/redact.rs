//! Values that must not stand in a ledger.
//!
//! They are looked for in every string of an event, keys and large values included, however the string
//! is escaped, and replaced before the line is made and before anything is stored beside the ledger.
//! A value that somebody encoded, split or turned into a number is not found; bytes that the host itself
//! encodes are looked through before.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use super::event::{Event, Origin};
use super::json::{Json, JsonError};
use super::payload::{
    ApprovalSource, CallFailure, CallKind, CallPhase, Effect, LogLevel, LogStream, RunStatus,
    SessionPhase, UpdateKind,
};
use crate::call::TurnStop;
use crate::config::{Durability, SECRET_BYTES_MIN as VALUE_BYTES_MIN};
use crate::outcome::OutcomeCode;

/// Bytes of a value, and of a name, at most.
const VALUE_BYTES_MAX: usize = 64 * 1024;
const NAME_BYTES_MAX: usize = 64;
/// Values of one store. Protects the time that each event takes.
const VALUES_MAX: usize = 1000;

/// Why a value cannot be kept out of ledgers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedactError {
    /// It is too short to be told from other text, or too long.
    #[error("value of {name} has {bytes} bytes: expected {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX}")]
    Length {
        /// The value's name.
        name: String,
        /// The value's length.
        bytes: usize,
    },
    /// It is a word of the ledger's own, or part of one.
    #[error("value of {name} is part of {word:?}, a word that ledgers are made of")]
    Word {
        /// The value's name.
        name: String,
        /// The word.
        word: String,
    },
    /// The name is to stand in ledgers.
    #[error("malformed name {name:?}: expected 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -")]
    Name {
        /// The name, cut after 80 characters.
        name: String,
    },
    /// There are as many as there may be.
    #[error("more than {VALUES_MAX} values")]
    TooMany,
}

/// The values that a store keeps out of its ledgers.
#[derive(Default)]
pub(super) struct Redactions {
    /// The longest first, so that a value inside another does not leave the rest of that one.
    secrets: RwLock<Vec<Secret>>,
    /// The length of `secrets`, to be read without its lock.
    count: AtomicUsize,
}

struct Secret {
    value: Box<str>,
    replacement: Box<str>,
}

impl fmt::Debug for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactions({})", self.count.load(Ordering::SeqCst))
    }
}

impl Redactions {
    /// Shows `[redacted:name]` in place of `value` from now on.
    pub(super) fn add(&self, name: &str, value: &str) -> Result<(), RedactError> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_name {
            let name = name.chars().take(80).collect();
            return Err(RedactError::Name { name });
        }
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len()) {
            return Err(RedactError::Length {
                name: name.to_owned(),
                bytes: value.len(),
            });
        }
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let begins_a_run_id = value.strip_prefix("run_").is_some_and(is_hex);
        let run_id = begins_a_run_id.then(|| value.to_owned());
        let mut words = run_id.into_iter().chain(words());
        if let Some(word) = words.find(|word| word.contains(value)) {
            return Err(RedactError::Word {
                name: name.to_owned(),
                word,
            });
        }
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        // A text in an event may be JSON itself, and hold the value as JSON spells it.
        let spelled = serde_json::to_string(value).unwrap_or_default();
        let spelled = spelled
            .get(1..spelled.len().saturating_sub(1))
            .unwrap_or_default();
        for value in [value, spelled] {
            if secrets.iter().any(|secret| *secret.value == *value) {
                continue;
            }
            if secrets.len() >= VALUES_MAX {
                return Err(RedactError::TooMany);
            }
            secrets.push(Secret {
                value: value.into(),
                replacement: format!("[redacted:{name}]").into(),
            });
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        self.count.store(secrets.len(), Ordering::SeqCst);
        Ok(())
    }

    /// The event without the values; `None` when it has none.
    ///
    /// # Errors
    /// The event is not what its type says any more: it must not be written.
    pub(super) fn apply(&self, event: &Event) -> Result<Option<Event>, JsonError> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Ok(None);
        }
        let mut payload = Vec::new();
        event.serialize_payload(&mut serde_json::Serializer::new(&mut payload))?;
        let payload = std::str::from_utf8(&payload)?;
        let Some(redacted) = self.redact_json(payload) else {
            return Ok(None);
        };
        Ok(Some(Event::decode(event.kind(), &Json::parse(&redacted)?)))
    }

    /// As [`Redactions::apply`], for bytes that are no event yet.
    pub(super) fn apply_to_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let mut clean: Option<Vec<u8>> = None;
        for Secret { value, replacement } in &*secrets {
            let current = clean.as_deref().unwrap_or(bytes);
            if let Some(replaced) = replaced_bytes(current, value.as_bytes(), replacement) {
                clean = Some(replaced);
            }
        }
        clean
    }

    /// The text of a JSON object with every string redacted but the names of its own fields; `None` when
    /// nothing was found.
    fn redact_json(&self, text: &str) -> Option<String> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let mut redacted: Option<String> = None;
        // Where the text begins that was neither copied nor replaced yet.
        let mut copied = 0;
        let mut depth = 0_usize;
        let mut at = 0;
        while let Some(offset) = text.get(at..)?.find(['"', '{', '}', '[', ']']) {
            let start = at + offset;
            let rest = text.get(start..)?;
            if !rest.starts_with('"') {
                let opens = rest.starts_with(['{', '[']);
                depth = if opens {
                    depth + 1
                } else {
                    depth.saturating_sub(1)
                };
                at = start + 1;
                continue;
            }
            let len = string_len(rest)?;
            at = start + len;
            let is_own_field = depth == 1 && text.get(at..)?.starts_with(':');
            let content = unescaped(rest.get(1..len.saturating_sub(1))?);
            if !is_own_field && let Some(clean) = replaced(&secrets, &content) {
                let out = redacted.get_or_insert_default();
                out.push_str(text.get(copied..start)?);
                out.push_str(Json::string(&clean).as_str());
                copied = at;
            }
        }
        let mut redacted = redacted?;
        redacted.push_str(text.get(copied..)?);
        Some(redacted)
    }
}

/// The length of the JSON string that `text` begins with, both quotes included.
fn string_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    let closing = text.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    closing.map(|at| at + 2)
}

/// What the inside of a JSON string says. Half a surrogate pair, which JSON allows and text does not,
/// becomes a replacement character.
fn unescaped(inside: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut out = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    let end_units = |units: &mut Vec<u16>, out: &mut String| {
        let decoded = char::decode_utf16(units.drain(..));
        out.extend(decoded.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
    };
    while let Some(c) = chars.next() {
        let escape = if c == '\\' { chars.next() } else { None };
        if escape == Some('u') {
            let digits: String = chars.by_ref().take(4).collect();
            units.push(u16::from_str_radix(&digits, 16).unwrap_or(u16::MAX));
            continue;
        }
        end_units(&mut units, &mut out);
        out.push(match escape {
            None => c,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(other) => other,
        });
    }
    end_units(&mut units, &mut out);
    out
}

/// `text` with every secret replaced; `None` when it has none.
fn replaced(secrets: &[Secret], text: &str) -> Option<String> {
    let mut clean: Option<String> = None;
    for Secret { value, replacement } in secrets {
        let current = clean.as_deref().unwrap_or(text);
        if current.contains(&**value) {
            clean = Some(current.replace(&**value, replacement));
        }
    }
    clean
}

/// `bytes` with every `value` replaced; `None` when it has none.
fn replaced_bytes(bytes: &[u8], value: &[u8], replacement: &str) -> Option<Vec<u8>> {
    let mut clean: Option<Vec<u8>> = None;
    let mut rest = bytes;
    while let Some(at) = find(rest, value) {
        let out = clean.get_or_insert_default();
        out.extend_from_slice(rest.get(..at)?);
        out.extend_from_slice(replacement.as_bytes());
        rest = rest.get(at + value.len()..)?;
    }
    let mut clean = clean?;
    clean.extend_from_slice(rest);
    Some(clean)
}

/// Where `value` begins in `bytes`.
fn find(bytes: &[u8], value: &[u8]) -> Option<usize> {
    let first = value.first()?;
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| byte == first)?;
        if bytes.get(at..)?.starts_with(value) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Words that stand in events in places where nothing else may. With one of them replaced, an event
/// would not be one any more.
fn words() -> Vec<String> {
    let kinds = Event::KINDS.iter().map(|kind| (*kind).to_owned());
    let codes = OutcomeCode::ALL.iter().map(ToString::to_string);
    let mut words: Vec<String> = kinds.chain(codes).collect();
    words.push("sha256".to_owned());
    words.extend(closed_words());
    words
}

/// The words of the other closed sets, as they are written.
fn closed_words() -> Vec<String> {
    fn spelled<T: serde::Serialize>(words: &[T]) -> impl Iterator<Item = String> {
        words.iter().filter_map(|word| {
            let text = serde_json::to_string(word).ok()?;
            Some(text.trim_matches('"').to_owned())
        })
    }
    use ApprovalSource::{Api, Auto, Cancelled as NobodyCancelled, Cli, Mcp, Timeout, Web};
    use LogLevel::{Critical, Debug, Error, Info, Trace, Warn};
    use RunStatus::{Cancelled, Error as Failed, Interrupted, Ok, Suspended};
    use SessionPhase::{BootReady, Finishing, ModeChanged, Ready, ToolsChanged};
    use TurnStop::{Cancelled as TurnCancelled, EndTurn, Error as TurnFailed, Refusal, TokenLimit};
    use UpdateKind::{ContextWindow, MessageChunk, Plan, Reasoning};
    spelled(&[Ok, Failed, Cancelled, Suspended, Interrupted])
        .chain(spelled(&[Effect::Read, Effect::Idempotent, Effect::Write]))
        .chain(spelled(&[Trace, Debug, Info, Warn, Error, Critical]))
        .chain(spelled(&[LogStream::Stdout, LogStream::Stderr]))
        .chain(spelled(&[CallPhase::Call, CallPhase::Result]))
        .chain(spelled(&[CallKind::Tool, CallKind::Skill]))
        .chain(CallFailure::KINDS.map(str::to_owned))
        .chain(spelled(&[
            Cli,
            Web,
            Mcp,
            Api,
            Timeout,
            Auto,
            NobodyCancelled,
        ]))
        .chain(spelled(&[Durability::Sync, Durability::Relaxed]))
        .chain(spelled(&[Origin::Host, Origin::Guest]))
        .chain(spelled(&[
            BootReady,
            Ready,
            ModeChanged,
            ToolsChanged,
            Finishing,
        ]))
        .chain(spelled(&[
            EndTurn,
            TokenLimit,
            Refusal,
            TurnCancelled,
            TurnFailed,
        ]))
        .chain(spelled(&[MessageChunk, Reasoning, Plan, ContextWindow]))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::payload::{Log, ToolCall};
    use super::*;

    const SECRET: &str = "s3cr\"t\\/ü\n𝄞";

    fn redactions() -> Redactions {
        let redactions = Redactions::default();
        redactions.add("token", SECRET).unwrap();
        redactions
    }

    #[test]
    fn only_what_can_be_told_from_other_text_is_taken() {
        let redactions = Redactions::default();
        for (name, value) in [
            ("", "long enough"),
            ("a b", "long enough"),
            ("name", "short"),
        ] {
            assert!(redactions.add(name, value).is_err(), "{name} {value}");
        }
        for n in 0..VALUES_MAX {
            redactions.add("name", &format!("value-{n}")).unwrap();
        }
        assert_eq!(
            redactions.add("name", "one-more"),
            Err(RedactError::TooMany)
        );
        assert_eq!(redactions.add("name", "value-1"), Ok(()));
    }

    #[test]
    fn a_word_that_events_are_made_of_is_no_secret() {
        let redactions = Redactions::default();
        for value in [
            "run_started",
            "_started",
            "cancelled",
            "idempotent",
            "critical",
            "sha256",
            "stdout",
            "interrupted",
            "skill_error",
            "run_01",
        ] {
            let refused = redactions.add("name", value);
            assert!(matches!(refused, Err(RedactError::Word { .. })), "{value}");
        }
        assert_eq!(redactions.add("name", "run_started!"), Ok(()));
    }

    /// A body, a log line or a payload may be JSON text that stands in an event as a string.
    #[test]
    fn a_value_inside_json_inside_a_string_is_found() {
        let redactions = redactions();
        let inner = serde_json::to_string(&[SECRET]).unwrap();
        let log = Log {
            message: inner.as_str().into(),
            ..Log::default()
        };
        let clean = redactions.apply(&log.into()).unwrap().unwrap();
        let Event::Log(clean) = clean else {
            panic!("another type");
        };
        assert_eq!(clean.message.as_str(), r#"["[redacted:token]"]"#);
    }

    #[test]
    fn bytes_that_are_no_text_are_looked_through_too() {
        let redactions = redactions();
        redactions.add("short", "secret").unwrap();
        let bytes = [b"\xff".as_slice(), SECRET.as_bytes(), b"\xffsecsecretret\0"].concat();
        let clean = redactions.apply_to_bytes(&bytes).unwrap();
        assert_eq!(clean, b"\xff[redacted:token]\xffsec[redacted:short]ret\0");
        assert_eq!(redactions.apply_to_bytes(b"\xffsecre"), None);
        assert_eq!(redactions.apply_to_bytes(b""), None);
    }

    #[test]
    fn a_value_inside_another_leaves_nothing_of_that_one() {
        let redactions = Redactions::default();
        redactions.add("short", "secret").unwrap();
        redactions.add("long", "my-secret-key").unwrap();
        let clean = redactions.redact_json(r#"{"a":"my-secret-key secret"}"#);
        assert_eq!(
            clean.as_deref(),
            Some(r#"{"a":"[redacted:long] [redacted:short]"}"#)
        );
    }

    #[test]
    fn fields_keep_their_names_and_numbers_their_spelling() {
        let redactions = Redactions::default();
        redactions.add("word", "arguments").unwrap();
        let arguments = Json::parse(r#"{"arguments":["arguments",1e400,0.10]}"#).unwrap();
        let call = ToolCall {
            arguments,
            ..ToolCall::default()
        };
        let Some(Event::ToolCall(clean)) = redactions.apply(&call.into()).unwrap() else {
            panic!("not redacted");
        };
        assert_eq!(
            clean.arguments.as_str(),
            r#"{"[redacted:word]":["[redacted:word]",1e400,0.10]}"#
        );
        let harmless = Event::from(Log::default());
        assert_eq!(redactions.apply(&harmless).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_spelling_of_a_value_hides_it(
            before in ".{0,20}",
            after in ".{0,20}",
            spelling in prop::collection::vec(0..3_u8, SECRET.chars().count()),
            lone_surrogate: bool,
        ) {
            let mut spelled = String::new();
            for (c, how) in SECRET.chars().zip(spelling) {
                if how == 0 {
                    let quoted = serde_json::to_string(&c).unwrap();
                    spelled.push_str(&quoted[1..quoted.len() - 1]);
                } else {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let digits = format!("{unit:04x}");
                        spelled.push_str(&format!("\\u{}", if how == 1 { digits } else { digits.to_uppercase() }));
                    }
                }
            }
            let quoted = |text: &str| serde_json::to_string(text).unwrap();
            let (before, after) = (quoted(&before), quoted(&after));
            let surrogate = if lone_surrogate { "\\ud800" } else { "" };
            let text = format!(
                "{{\"x\":{{{before}:[{after}]}},\"y\":\"{}{surrogate}{spelled}{}\"}}",
                &before[1..before.len() - 1],
                &after[1..after.len() - 1],
            );
            let clean = redactions().redact_json(&text).unwrap();
            prop_assert!(clean.contains("[redacted:token]"), "{}", clean);
            prop_assert!(Json::parse(&clean).is_ok());
            prop_assert_eq!(redactions().redact_json(&clean), None);
        }
    }
}
