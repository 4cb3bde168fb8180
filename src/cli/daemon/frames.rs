//! Server-sent events, as they are read.

/// Bytes of one event that are taken. Protects the memory from a stream that never ends one; what a daemon of this
/// version sends is far smaller.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// What kind of event.
    pub(crate) name: String,
    /// Its data, the lines of it with a break between them.
    pub(crate) data: String,
}

/// Puts events together from the bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// How much of `bytes` was taken.
    taken: usize,
    /// Up to where no further line ends.
    searched: usize,
    frame: Frame,
    has_data: bool,
}

/// An event has more bytes than are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream has more than {FRAME_BYTES_MAX} bytes")]
pub(super) struct FrameTooLong;

impl Frames {
    /// Takes what came.
    ///
    /// # Errors
    /// An event has more bytes than are taken.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), FrameTooLong> {
        self.bytes.drain(..self.taken);
        self.searched = self.searched.saturating_sub(self.taken);
        self.taken = 0;
        let held = self.bytes.len() + self.frame.data.len();
        if held.saturating_add(bytes.len()) > FRAME_BYTES_MAX {
            return Err(FrameTooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next event that is whole by now.
    pub(super) fn next(&mut self) -> Option<Frame> {
        loop {
            let from = self.searched.max(self.taken);
            let end = self
                .bytes
                .get(from..)?
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| from + end) else {
                self.searched = self.bytes.len();
                return None;
            };
            let line = self.bytes.get(self.taken..end)?;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = String::from_utf8_lossy(line).into_owned();
            self.taken = end + 1;
            if let Some(frame) = self.take(&line) {
                return Some(frame);
            }
        }
    }

    /// Takes a line, and gives the event that it ends.
    fn take(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FRAME_BYTES_MAX, Frame, FrameTooLong, Frames};

    fn all(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in pieces {
            frames.push(piece).unwrap();
            found.extend(std::iter::from_fn(|| frames.next()));
        }
        found
    }

    #[test]
    fn events_are_what_stands_between_empty_lines() {
        let stream = b"retry: 2000\n\n:\n\nid: 7\nevent: ready\ndata: {}\n\ndata:a\ndata: b\r\n\r\nevent: cut";
        let frame = |name: &str, data: &str| Frame {
            name: name.to_owned(),
            data: data.to_owned(),
        };
        assert_eq!(all(&[stream]), [frame("ready", "{}"), frame("", "a\nb")]);
    }

    #[test]
    fn an_event_without_end_is_not_held_for_ever() {
        let mut frames = Frames::default();
        let line = vec![b'a'; FRAME_BYTES_MAX];
        assert_eq!(frames.push(&line), Ok(()));
        assert_eq!(frames.next(), None);
        assert_eq!(frames.push(b"a"), Err(FrameTooLong));
    }

    proptest! {
        /// Also where it is no stream of events at all.
        #[test]
        fn any_bytes_are_the_same_events_in_whatever_pieces(
            stream in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(b'\n'), Just(b':'), Just(b'\r')],
                0..120,
            ),
            piece in 1..9_usize,
        ) {
            let pieces: Vec<&[u8]> = stream.chunks(piece).collect();
            prop_assert_eq!(all(&pieces), all(&[&stream]));
        }

        #[test]
        fn it_does_not_matter_in_which_pieces_they_come(
            data in prop::collection::vec("[ -~é]{0,20}", 1..5),
            cuts in prop::collection::vec(0..200_usize, 0..5),
        ) {
            let stream: String = data.iter().map(|data| format!("event: e\ndata: {data}\n\n")).collect();
            let stream = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(all(&pieces), all(&[stream]));
        }
    }
}
