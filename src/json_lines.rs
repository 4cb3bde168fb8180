//! Messages of JSON as lines, to and from somebody who may be hostile: bounded before any of them is parsed.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

/// Bytes of one message: the largest input of a skill, each byte of it escaped. Protects the host's heap from a message
/// that does not end.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Values in one message. Protects the host's heap, where a value of two bytes takes a hundred.
pub(crate) const VALUES_MAX: usize = 500_000;

/// Reads lines.
pub(crate) struct LineReader<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The line was longer than one may be: its rest is not kept.
    is_discarding: bool,
}

/// What there was to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line of more than [`LINE_BYTES_MAX`], which may have no end.
    TooLong,
}

impl<R: AsyncRead> LineReader<R> {
    pub(crate) fn new(read: R) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            is_discarding: false,
        }
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// The next line; none when there is none any more. A future that is dropped loses nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = available.get(..end.unwrap_or(available.len()));
            let part = part.unwrap_or_default();
            let is_too_long = self.line.len().saturating_add(part.len()) > LINE_BYTES_MAX;
            if !self.is_discarding && !is_too_long {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.read.consume(consumed);
            // The buffer of a large line is not kept.
            match (self.is_discarding, is_too_long, end) {
                (true, _, _) => self.is_discarding = end.is_none(),
                (false, true, _) => {
                    self.is_discarding = end.is_none();
                    self.line = Vec::new();
                    return Ok(Some(Line::TooLong));
                }
                (false, false, Some(_)) => {
                    return Ok(Some(Line::Whole(std::mem::take(&mut self.line))));
                }
                (false, false, None) => {}
            }
        }
    }
}

/// Writes a line, its end included, unless the other side was closed.
///
/// # Errors
/// It was closed, or cannot be written.
pub(crate) async fn write_line<W: AsyncWrite + Unpin>(
    write: &Mutex<Option<W>>,
    line: &[u8],
) -> std::io::Result<()> {
    let mut write = write.lock().await;
    let Some(write) = &mut *write else {
        return Err(std::io::ErrorKind::NotConnected.into());
    };
    write.write_all(line).await?;
    write.flush().await
}

/// How many values a text of JSON has at most: each has a comma, a bracket or a brace before it.
pub(crate) fn json_values(line: &[u8]) -> usize {
    let mut count = 0_usize;
    let mut bytes = line.iter();
    let mut is_text = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => {
                bytes.next();
            }
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Line, LineReader, json_values};

    #[test]
    fn what_stands_in_a_text_is_no_value() {
        assert_eq!(json_values(br#"{"a,[{\",":[1,2,{"b":"\\"}]}"#), 5);
        assert_eq!(json_values(br#""\""#), 0);
    }

    #[tokio::test]
    async fn what_follows_a_line_that_is_too_long_is_read() {
        let mut text = b"a\n".to_vec();
        text.extend(vec![b'x'; LINE_BYTES_MAX + 1]);
        text.extend(b"yz\nb\n\nlast");
        let mut lines = LineReader::new(text.as_slice());
        let whole = |text: &[u8]| Some(Line::Whole(text.to_vec()));
        assert_eq!(lines.next().await.unwrap(), whole(b"a"));
        assert_eq!(lines.next().await.unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().await.unwrap(), whole(b"b"));
        assert_eq!(lines.next().await.unwrap(), whole(b""));
        // A line without an end is none.
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_line_without_an_end_takes_no_memory() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'));
        assert_eq!(lines.next().await.unwrap(), Some(Line::TooLong));
        assert_eq!(lines.line.capacity(), 0);
    }
}
