//! Server-sent events, as bytes.

use bytes::Bytes;
use serde::Serialize;

use crate::ledger::Event;

/// Milliseconds after which a client that lost its stream asks for it again.
const RETRY_MS: u64 = 2_000;
/// How an event ends.
pub(super) const END: &[u8] = b"\n\n";
/// What shows that a stream is there when it has nothing to say.
pub(super) const HEARTBEAT: &[u8] = b":\n\n";
/// The names of what a stream says about itself. No event of a run has one of them.
pub(super) const CONTROLS: [&str; 5] = ["damaged", "end", "lagged", "reset", "shutdown"];
/// The name of an event whose type cannot be one.
const UNNAMED: &str = "unknown";
/// Bytes of a type that is used as a name. Protects readers; types of this version are far shorter.
const NAME_BYTES_MAX: usize = 64;

/// What a stream begins with.
pub(super) fn opening() -> Bytes {
    format!("retry: {RETRY_MS}\n\n").into()
}

/// The beginning of an event, up to its data.
pub(super) fn push_head(out: &mut Vec<u8>, id: &str, kind: &str) {
    for part in ["id: ", id, "\nevent: ", name(kind), "\ndata: "] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// A piece of an event's data. Whatever a reader takes for the end of a line begins a further line of data.
pub(super) fn push_data(out: &mut Vec<u8>, data: &[u8]) {
    let mut lines = data.split(|byte| matches!(byte, b'\r' | b'\n'));
    if let Some(first) = lines.next() {
        out.extend_from_slice(first);
    }
    for line in lines {
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(line);
    }
}

/// What a stream says about itself. It has no id, so that the one before it stays.
pub(super) fn push_control(out: &mut Vec<u8>, name: &'static str, data: &impl Serialize) {
    debug_assert!(CONTROLS.contains(&name));
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // Only numbers, texts and flags are said, which cannot fail.
    push_data(out, &serde_json::to_vec(data).unwrap_or_default());
    out.extend_from_slice(END);
}

/// As [`push_control`], on its own.
pub(super) fn control(name: &'static str, data: &impl Serialize) -> Bytes {
    let mut out = Vec::new();
    push_control(&mut out, name, data);
    out.into()
}

/// Lets a client know how far it is when it was sent nothing. It is no event.
pub(super) fn place(id: &str) -> Bytes {
    format!("id: {id}\n\n").into()
}

/// The type of an event as the name of one. A ledger that was forged has types of any kind.
fn name(kind: &str) -> &str {
    let is_name = kind.len() <= NAME_BYTES_MAX
        && (Event::KINDS.contains(&kind)
            || !kind.is_empty()
                && !CONTROLS.contains(&kind)
                && kind
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
    if is_name { kind } else { UNNAMED }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a stream as the specification says; each event as id, name and data.
    fn read(stream: &[u8]) -> Vec<(String, String, String)> {
        let text = String::from_utf8_lossy(stream).replace("\r\n", "\n");
        let text = text.replace('\r', "\n");
        let (mut id, mut name, mut data) = (String::new(), String::new(), None::<String>);
        let mut events = Vec::new();
        for line in text.split('\n') {
            if line.is_empty() {
                if let Some(data) = data.take() {
                    events.push((id.clone(), std::mem::take(&mut name), data));
                }
                name.clear();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "id" => id = value,
                "event" => name = value,
                "data" => match &mut data {
                    Some(data) => *data = format!("{data}\n{value}"),
                    None => data = Some(value),
                },
                _ => {}
            }
        }
        events
    }

    #[test]
    fn an_event_has_the_documented_form() {
        let mut out = Vec::new();
        push_head(&mut out, "7", "tool_call");
        push_data(&mut out, br#"{"seq":7}"#);
        out.extend_from_slice(END);
        let expected = "id: 7\nevent: tool_call\ndata: {\"seq\":7}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(&control("lagged", &3)[..], b"event: lagged\ndata: 3\n\n");
    }

    #[test]
    fn no_type_passes_for_what_the_stream_says() {
        for kind in CONTROLS.iter().copied().chain(["", "a\nb", "A", "a b"]) {
            assert_eq!(name(kind), UNNAMED, "{kind:?}");
        }
        for kind in Event::KINDS.iter().copied().chain(["hologram"]) {
            assert_eq!(name(kind), kind);
        }
    }

    proptest! {
        #[test]
        fn no_data_and_no_type_breaks_the_framing(
            events in prop::collection::vec(
                ("[0-9]{1,9}", any::<String>(), "[a:\\r\\n \\x00é]{0,40}", 1..9_usize), 1..5),
        ) {
            let mut out = opening().to_vec();
            for (id, kind, data, piece) in &events {
                push_head(&mut out, id, kind);
                for piece in data.as_bytes().chunks(*piece) {
                    push_data(&mut out, piece);
                }
                out.extend_from_slice(END);
                out.extend_from_slice(HEARTBEAT);
            }
            let expected: Vec<_> = events
                .iter()
                .map(|(id, kind, data, _)| {
                    (id.clone(), name(kind).to_owned(), data.replace('\r', "\n"))
                })
                .collect();
            prop_assert_eq!(read(&out), expected);
        }
    }
}
