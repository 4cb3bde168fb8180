//! The only printer: data to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use super::display::wrapped;
use super::table::{fitted, table};

/// Columns by which what continues a line of a paragraph stands further right.
const INDENT: usize = 4;

/// Writes for people or for programs, as the caller asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
}

/// Standard output was closed by whoever read it. It is the end of the work and no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct OutputClosed;

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether output is for programs.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// Whether a person watches standard error, so that it may move.
    pub(crate) fn is_watched(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Whether there is a person who reads standard error and can answer on standard input.
    pub(crate) fn is_attended(self) -> bool {
        self.is_watched() && io::stdin().is_terminal()
    }

    /// Writes one line of data.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .map_err(unwritten)
    }

    /// Writes a piece of data as it comes, without ending its line.
    pub(crate) fn piece(self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(unwritten)
    }

    /// Whether data goes to a terminal.
    pub(crate) fn is_shown(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Whether a terminal may show colours: it is one, and the user did not turn them off.
    pub(crate) fn is_coloured(self) -> bool {
        let is_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.is_watched() && !is_off
    }

    /// Writes rows in columns, cut where the terminal ends, if it is one.
    pub(crate) fn table(self, header: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
        let width = width(io::stdout());
        for line in table(header, rows) {
            self.line(&fitted(&line, width))?;
        }
        Ok(())
    }

    /// Writes text for a person who decides by it, on lines that the terminal does not break.
    pub(crate) fn paragraph(self, text: &str) -> anyhow::Result<()> {
        self.line(&wrapped(text, width(io::stdout()), INDENT))
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn value(self, value: &impl Serialize) -> anyhow::Result<()> {
        self.line(&serde_json::to_string(value)?)
    }

    /// Writes what a person types behind, on the same line.
    pub(crate) fn ask(self, text: &str) {
        let mut out = io::stderr().lock();
        let _unread = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes one line for a person. Nobody may be there to read it, which is no failure.
    pub(crate) fn note(self, text: &str) {
        let _unread = writeln!(io::stderr().lock(), "{text}");
    }
}

fn unwritten(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    }
}

/// Columns of the terminal of standard output; without end, where there is none.
pub(crate) fn shown_width() -> usize {
    width(io::stdout())
}

/// Text on lines that the terminal of standard error does not break.
pub(crate) fn paragraph(text: &str) -> String {
    wrapped(text, width(io::stderr()), INDENT)
}

/// Columns of a terminal; without end, where there is none.
fn width(stream: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    // A terminal that does not know its width says 0.
    match size.map_or(0, |size| usize::from(size.ws_col)) {
        0 => usize::MAX,
        width => width,
    }
}
