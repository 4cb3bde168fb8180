//! One event as one line, written and read.

use std::borrow::Cow;
use std::io::{self, Write as _};

use serde::Deserialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;

use super::digest::Digest;
use super::error::Damage;
use super::event::{Event, Origin};
use super::json::Json;
use crate::clock::Timestamp;
use crate::id::RunId;

/// The version of the line format that this code writes.
const VERSION: u64 = 1;

/// Bytes of a line, its break included. A writer refuses a longer one, and a reader takes it for
/// damage; it protects the memory of every reader.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Writes the lines of one run.
#[derive(Debug)]
pub(super) struct LineEncoder {
    /// The line up to the value of `seq`, which is the same for all.
    beginning: Box<[u8]>,
}

impl LineEncoder {
    pub(super) fn new(run_id: &RunId) -> Self {
        Self {
            beginning: beginning(run_id).into_bytes().into(),
        }
    }

    /// Puts the line, its break included, in place of what `out` holds.
    pub(super) fn encode(
        &self,
        out: &mut Vec<u8>,
        seq: u64,
        time: Timestamp,
        origin: Origin,
        event: &Event,
        prev: Digest,
    ) -> io::Result<()> {
        out.clear();
        out.extend_from_slice(&self.beginning);
        write!(out, "{seq},\"time\":\"{time}\",\"type\":\"")?;
        // Types are this crate's own constants, so they need no escapes.
        out.extend_from_slice(event.kind().as_bytes());
        out.extend_from_slice(b"\",\"source\":\"");
        out.extend_from_slice(origin.as_str().as_bytes());
        out.extend_from_slice(b"\",\"payload\":");
        event.serialize_payload(&mut Serializer::with_formatter(&mut *out, LineFormatter))?;
        out.extend_from_slice(b",\"prev\":\"");
        out.extend_from_slice(&prev.hex());
        out.extend_from_slice(b"\"}\n");
        Ok(())
    }
}

fn beginning(run_id: &RunId) -> String {
    format!("{{\"v\":{VERSION},\"run_id\":\"{run_id}\",\"seq\":")
}

/// Compact JSON whose strings also escape what JSON lets stand and terminals and some readers of
/// lines act on: DEL, the C1 controls, and the two separators of Unicode. What a guest logs cannot
/// steer the terminal of a person who follows the file.
struct LineFormatter;

impl Formatter for LineFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe_in_a_line) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            if let Some(control) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(control))?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

fn is_unsafe_in_a_line(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')
}

/// How many bytes `text` takes as a JSON string in a line.
pub(super) fn string_len(text: &str) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    let serialized = serde::Serialize::serialize(
        text,
        &mut Serializer::with_formatter(&mut count, LineFormatter),
    );
    // Counting cannot fail; if it did, the text would have to be taken for a large one.
    serialized.map_or(usize::MAX, |()| count.0)
}

/// One line of a ledger, read.
#[derive(Debug, Clone)]
pub struct Record {
    /// The version of the line format; absent in ledgers of the original system.
    pub version: Option<u64>,
    /// The run.
    pub run_id: RunId,
    /// The event's number, from 1.
    pub seq: u64,
    /// When the event was recorded.
    pub time: Timestamp,
    /// The event's type; it may be one that this version does not know.
    pub kind: String,
    /// Who says that it happened. The original system recorded only what the host saw.
    pub origin: Origin,
    /// What it carries; large values stand as references to blobs.
    pub payload: Json,
    /// The digest of the line before; absent in ledgers of the original system.
    pub prev: Option<Digest>,
    /// The line as it stands, without its break.
    pub line: Box<str>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    v: Option<u64>,
    run_id: RunId,
    seq: u64,
    time: Timestamp,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    source: Option<Origin>,
    #[serde(borrow)]
    payload: &'a RawValue,
    prev: Option<Digest>,
}

impl Record {
    /// Reads a line, given without its break.
    ///
    /// # Errors
    /// The bytes are not an event: no JSON, a field is missing or malformed, or only some of `v`,
    /// `source` and `prev` are there.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Damage> {
        let unreadable = |reason: String| Damage::Unreadable { reason };
        let text = std::str::from_utf8(line).map_err(|error| unreadable(error.to_string()))?;
        let envelope: Envelope<'_> =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        if envelope.v == Some(0) {
            return Err(unreadable("version 0".to_owned()));
        }
        let origin = match (envelope.v, envelope.source, envelope.prev) {
            (Some(_), Some(origin), Some(_)) => origin,
            (None, None, None) => Origin::Host,
            _ => {
                return Err(unreadable(
                    "one of v, source and prev is missing".to_owned(),
                ));
            }
        };
        Ok(Self {
            version: envelope.v,
            run_id: envelope.run_id,
            seq: envelope.seq,
            time: envelope.time,
            kind: envelope.kind.into_owned(),
            origin,
            payload: Json::from_raw(envelope.payload)
                .map_err(|error| unreadable(error.to_string()))?,
            prev: envelope.prev,
            line: text.into(),
        })
    }

    /// The event, as far as this version knows its type.
    pub fn event(&self) -> Event {
        Event::decode(&self.kind, &self.payload)
    }

    /// What the next line names as its predecessor.
    pub fn digest(&self) -> Digest {
        Digest::of(self.line.as_bytes())
    }
}

/// Finds the number of a line that this code wrote without reading the rest of it.
pub(super) struct SeqPeek(String);

impl SeqPeek {
    pub(super) fn new(run_id: &RunId) -> Self {
        Self(beginning(run_id))
    }

    /// The number; `None` when the line has to be read whole to know.
    pub(super) fn seq(&self, line: &[u8]) -> Option<u64> {
        let rest = line.strip_prefix(self.0.as_bytes())?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::payload::{Custom, Log, RunStarted};
    use super::{
        Digest, Event, Json, LineEncoder, Origin, Record, RunId, SeqPeek, Timestamp, string_len,
    };

    fn run_id() -> RunId {
        "run_0190a0a0a0a07000800000000000abcd".parse().unwrap()
    }

    fn line(seq: u64, origin: Origin, event: &Event) -> Vec<u8> {
        let mut out = b"left over".to_vec();
        let time = Timestamp::from_unix_micros(1_778_691_736_049_000);
        LineEncoder::new(&run_id())
            .encode(&mut out, seq, time, origin, event, Digest::ZERO)
            .unwrap();
        out
    }

    #[test]
    fn the_line_has_the_documented_form() {
        let event = RunStarted {
            skill: "triage".to_owned(),
            input: Json::parse(r#"{"b":1, "a":0.10}"#).unwrap(),
            ..RunStarted::default()
        };
        let expected = concat!(
            r#"{"v":1,"run_id":"run_0190a0a0a0a07000800000000000abcd","seq":1,"#,
            r#""time":"2026-05-13T17:02:16.049000Z","type":"run_started","source":"host","#,
            r#""payload":{"skill":"triage","input":{"b":1,"a":0.10}},"#,
            r#""prev":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
            "\n"
        );
        assert_eq!(
            String::from_utf8(line(1, Origin::Host, &event.into())).unwrap(),
            expected
        );
    }

    #[test]
    fn control_characters_never_stand_raw() {
        let hostile = "\u{1b}[2J\u{9b}2J\u{85}\u{2028}\u{7f}\r\nüß\u{0}";
        let event = Log {
            message: hostile.into(),
            ..Log::default()
        }
        .into();
        let bytes = line(1, Origin::Guest, &event);
        let text = std::str::from_utf8(&bytes).unwrap().trim_end_matches('\n');
        assert!(
            !text.chars().any(|c| c.is_control() || c == '\u{2028}'),
            "{text}"
        );
        assert_eq!(Record::parse(text.as_bytes()).unwrap().event(), event);
    }

    #[test]
    fn a_field_too_few_is_damage_and_one_too_many_is_kept() {
        let event = Custom {
            name: "x".to_owned(),
            data: None,
        }
        .into();
        let bytes = line(7, Origin::Host, &event);
        let text = std::str::from_utf8(&bytes[..bytes.len() - 1]).unwrap();
        let newer = text.replace(r#"{"v":1,"#, r#"{"v":2,"color":"red","#);
        assert_eq!(&*Record::parse(newer.as_bytes()).unwrap().line, newer);
        for (field, gone) in [
            (r#""v":1,"#, ""),
            (r#""seq":7,"#, ""),
            (r#""source":"host","#, ""),
            (r#""source":"host","#, r#""source":"cosmos","#),
            (r#""type":"custom","#, ""),
            (r#""seq":7"#, r#""seq":7,"seq":7"#),
        ] {
            assert!(
                Record::parse(text.replace(field, gone).as_bytes()).is_err(),
                "{field}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            seq in 1_u64..,
            guest: bool,
            message in any::<String>(),
            fields in prop::option::of(".*".prop_map(|text: String| Json::string(&text))),
            dropped: Option<u64>,
        ) {
            let origin = if guest { Origin::Guest } else { Origin::Host };
            let log = Log { message: message.as_str().into(), fields, dropped, ..Log::default() };
            let event = Event::from(log);
            let bytes = line(seq, origin, &event);
            let (last, text) = bytes.split_last().unwrap();
            prop_assert_eq!(*last, b'\n');
            prop_assert!(!text.contains(&b'\n'));
            let record = Record::parse(text).unwrap();
            prop_assert_eq!((record.seq, record.origin), (seq, origin));
            prop_assert_eq!(record.event(), event);
            prop_assert_eq!(SeqPeek::new(&run_id()).seq(text), Some(seq));
            prop_assert!(bytes.len() >= string_len(&message));
        }

        #[test]
        fn reading_garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Record::parse(&bytes).is_err());
        }
    }
}
