//! Server-sent events, from bytes as they come.

use bytes::BytesMut;
use tokio_util::codec::{Decoder as _, LinesCodec, LinesCodecError};

use super::ModelError;

/// Bytes of one line. With the bound on a whole answer it protects the host's memory from a server that
/// never ends a line.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its lines of data, with a line feed between two of them.
    pub(super) data: String,
}

/// Puts events together. Each byte is looked at once, however the bytes come in pieces; lines end with a
/// line feed, with or without a carriage return before it.
pub(super) struct EventReader {
    lines: LinesCodec,
    buffer: BytesMut,
    event: Event,
    has_data: bool,
    is_first_line: bool,
}

impl EventReader {
    pub(super) fn new() -> Self {
        Self {
            lines: LinesCodec::new_with_max_length(LINE_BYTES_MAX),
            buffer: BytesMut::new(),
            event: Event::default(),
            has_data: false,
            is_first_line: true,
        }
    }

    /// Takes what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event that is whole. Fields other than `data` are passed over: both wire formats name
    /// the type of an event in its data.
    pub(super) fn next(&mut self) -> Result<Option<Event>, ModelError> {
        loop {
            let line = match self.lines.decode(&mut self.buffer) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(LinesCodecError::MaxLineLengthExceeded) => {
                    let problem = format!("a line of more than {LINE_BYTES_MAX} bytes");
                    return Err(ModelError::Failed(problem));
                }
                Err(LinesCodecError::Io(_)) => {
                    return Err(ModelError::Failed(
                        "malformed stream: expected UTF-8".to_owned(),
                    ));
                }
            };
            let line = match std::mem::take(&mut self.is_first_line) {
                true => line.strip_prefix('\u{feff}').unwrap_or(&line),
                false => &line,
            };
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(std::mem::take(&mut self.event)));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            if field == "data" {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                let value = value.strip_prefix(' ').unwrap_or(value);
                self.event.data.push_str(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EventReader, LINE_BYTES_MAX};

    fn read(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
        let mut reader = EventReader::new();
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece);
            while let Some(event) = reader.next().map_err(|error| error.to_string())? {
                events.push(event.data);
            }
        }
        Ok(events)
    }

    #[test]
    fn events_are_read_as_the_standard_has_them() {
        for (text, events) in [
            ("data: a\n\n", vec!["a"]),
            ("data:a\r\n\r\ndata:  b\n\n", vec!["a", " b"]),
            ("data: a\ndata: b\ndata\n\n", vec!["a\nb\n"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            (": ping\n\nevent: x\nid: 1\nretry: 5\n\n\n", vec![]),
            ("event: x\ndata: {}\n\n", vec!["{}"]),
            // What is not ended is no event.
            ("data: a\n", vec![]),
            ("data: a", vec![]),
        ] {
            assert_eq!(read(&[text.as_bytes()]).unwrap(), events, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_refused() {
        let refused = read(&[b"data: \xff\xfe\n\n"]).unwrap_err();
        assert!(refused.contains("UTF-8"), "{refused}");
        let endless = vec![b'x'; LINE_BYTES_MAX + 1];
        let refused = read(&[&endless, &endless]).unwrap_err();
        assert!(refused.contains("4194304 bytes"), "{refused}");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_bytes_are_split(
            text in "((data|event|x|): ?[aä€😀]{0,3}(\r?\n){1,2}){0,6}",
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
