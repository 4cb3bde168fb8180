//! What is typed, line by line.

use std::io::{BufRead as _, Read as _};

use tokio::sync::mpsc;

use crate::runtime::PROMPT_BYTES_MAX;

/// Lines that were read and not taken yet. The next one is read when there is room.
const LINES_MAX: usize = 16;

/// Lines of standard input.
pub(super) struct Typed(mpsc::Receiver<String>);

impl Typed {
    /// Reads them by a thread that the end of the process ends.
    pub(super) fn new() -> Self {
        let (sender, lines) = mpsc::channel(LINES_MAX);
        std::thread::spawn(move || {
            while let Some(line) = read_line() {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// The next line; none when there are no more.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}

/// A line, or as much of it as a prompt may have and one byte more; none at the end.
fn read_line() -> Option<String> {
    let bytes_max = u64::try_from(PROMPT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    let mut stdin = std::io::stdin().lock().take(bytes_max.saturating_add(1));
    let read = stdin.read_until(b'\n', &mut line);
    if line.is_empty() || read.is_err() {
        return None;
    }
    let text = String::from_utf8_lossy(&line);
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}
