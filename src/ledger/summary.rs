//! What a ledger says of its run at a glance: from its first and its last line only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::error::{Corruption, Damage};
use super::event::Event;
use super::line::{LINE_BYTES_MAX, Record};
use super::payload::{Head, RunCompleted, RunStarted, RunStatus};
use super::reader::{Lines, Position};
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::outcome::OutcomeCode;

/// Bytes that are read from the end at first; most last lines are shorter.
const TAIL_BYTES: usize = 16 * 1024;
/// Bytes that are read from the end at most: a whole line, and one that is being written after it.
const TAIL_BYTES_MAX: usize = 2 * LINE_BYTES_MAX;

/// A run's state as far as two lines tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// There is no end yet: it goes on, or its process is gone.
    Running,
    /// It ended so.
    Ended(RunStatus),
    /// The ledger has to be verified to know more.
    Corrupt,
}

impl RunState {
    /// The state as surfaces show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended(status) => status.as_str(),
            Self::Corrupt => "corrupt",
        }
    }
}

/// A run at a glance.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The run.
    pub run_id: RunId,
    /// What is known of its state.
    pub state: RunState,
    /// The skill, when the first line tells.
    pub skill: Option<String>,
    /// The language of its handler.
    pub flavor: Option<String>,
    /// The run that asked for this one.
    pub parent_run_id: Option<RunId>,
    /// The session that it serves, when it is the run of an agent.
    pub session_id: Option<String>,
    /// When the first event was recorded.
    pub started_at: Option<Timestamp>,
    /// When the last event was recorded, if that was the end.
    pub ended_at: Option<Timestamp>,
    /// Why the run ended as it did.
    pub code: Option<OutcomeCode>,
    /// What failed; the beginning only, if that text is long.
    pub error: Option<String>,
    /// What its calls of models cost, in US dollars, once it has ended.
    pub cost_usd: Option<f64>,
    /// The newest line. Its number is that of the events.
    pub head: Head,
    /// The size of the file.
    pub bytes: u64,
    /// Whether the lines are chained, which those of the original system are not.
    pub is_chained: bool,
    /// Bytes at the end that are no whole line.
    pub unfinished_bytes: u64,
    /// The process that writes the ledger now, where the operating system tells.
    pub writer_pid: Option<u32>,
    /// Why `state` is [`RunState::Corrupt`].
    pub corruption: Option<Corruption>,
}

/// Reads the first and the last line of `file`, the ledger of `run_id`.
pub(super) fn summarize(
    run_id: &RunId,
    file: &File,
    writer: impl FnOnce() -> Option<u32>,
) -> io::Result<Summary> {
    let mut summary = Summary::unknown(run_id);
    summary.bytes = file.metadata()?.len();
    match first(run_id, file)? {
        Ok(record) => summary.begin(&record),
        Err(corruption) => return Ok(summary.corrupt(corruption)),
    }
    let tail = Tail::read(file, summary.bytes)?;
    summary.unfinished_bytes = tail.unfinished_bytes;
    match tail.parse(run_id) {
        Ok(record) => summary.end(&record),
        Err(damage) => {
            return Ok(summary.corrupt(Corruption {
                line: 0,
                byte: tail.byte,
                damage,
            }));
        }
    }
    if summary.state == RunState::Running {
        summary.writer_pid = writer();
    }
    Ok(summary)
}

fn first(run_id: &RunId, file: &File) -> io::Result<Result<Record, Corruption>> {
    let mut lines = Lines::new(file.try_clone()?, Position::default());
    Ok(match lines.next_line()? {
        Some(line) => line
            .parse()
            .and_then(|record| of_run(run_id, record))
            .map_err(|damage| line.corrupt(damage)),
        None => Err(Corruption {
            line: 1,
            byte: 0,
            damage: nothing_whole(),
        }),
    })
}

fn of_run(run_id: &RunId, record: Record) -> Result<Record, Damage> {
    if record.run_id == *run_id {
        Ok(record)
    } else {
        Err(Damage::OtherRun {
            found: record.run_id,
        })
    }
}

fn nothing_whole() -> Damage {
    Damage::Unreadable {
        reason: "no whole line".to_owned(),
    }
}

impl Summary {
    fn unknown(run_id: &RunId) -> Self {
        Self {
            run_id: run_id.clone(),
            state: RunState::Running,
            skill: None,
            flavor: None,
            parent_run_id: None,
            session_id: None,
            started_at: None,
            ended_at: None,
            code: None,
            error: None,
            cost_usd: None,
            head: Head::default(),
            bytes: 0,
            is_chained: true,
            unfinished_bytes: 0,
            writer_pid: None,
            corruption: None,
        }
    }

    /// For a ledger that cannot even be read.
    pub(super) fn unreadable(run_id: &RunId, error: &dyn std::error::Error) -> Self {
        Self::unknown(run_id).corrupt(Corruption {
            line: 0,
            byte: 0,
            damage: Damage::Unreadable {
                reason: error.to_string(),
            },
        })
    }

    /// Whether the ledger no longer ends as it is known to have ended, or later.
    pub(super) fn lost(&self, noted: Head) -> bool {
        self.state != RunState::Corrupt
            && (self.head.seq < noted.seq
                || (self.head.seq == noted.seq && self.head.sha256 != noted.sha256))
    }

    pub(super) fn corrupt(mut self, corruption: Corruption) -> Self {
        self.state = RunState::Corrupt;
        self.corruption = Some(corruption);
        self
    }

    fn begin(&mut self, record: &Record) {
        self.started_at = Some(record.time);
        self.is_chained = record.prev.is_some();
        if let Event::RunStarted(RunStarted {
            skill,
            flavor,
            parent_run_id,
            session,
            ..
        }) = record.event()
        {
            self.skill = Some(skill);
            self.flavor = flavor;
            self.parent_run_id = parent_run_id;
            self.session_id = session.map(|session| session.session_id);
        }
    }

    fn end(&mut self, record: &Record) {
        self.head = Head {
            seq: record.seq,
            sha256: record.digest(),
        };
        if let Event::RunCompleted(RunCompleted {
            status,
            code,
            error,
            cost_usd,
            ..
        }) = record.event()
        {
            self.cost_usd = cost_usd;
            self.state = RunState::Ended(status);
            self.ended_at = Some(record.time);
            self.code = code;
            self.error = error.map(|error| error.as_str().to_owned());
        }
    }
}

/// The last whole line of a file.
struct Tail {
    /// Without the line break; absent when it does not begin within the bytes that are read.
    text: Option<Vec<u8>>,
    /// Where the line begins.
    byte: u64,
    /// Bytes after it.
    unfinished_bytes: u64,
}

impl Tail {
    fn read(file: &File, len: u64) -> io::Result<Self> {
        let mut bytes = TAIL_BYTES;
        loop {
            let start = len.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
            let mut window = vec![0; usize::try_from(len - start).unwrap_or(bytes)];
            file.read_exact_at(&mut window, start)?;
            let end = window.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
            let after = window.split_off(end);
            let begin = window
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map(|at| at + 1);
            let begin = begin.or((start == 0).then_some(0));
            if begin.is_some() || bytes >= TAIL_BYTES_MAX {
                let begin = begin.unwrap_or(0);
                let text = window.split_off(begin);
                return Ok(Self {
                    text: (start == 0 || begin > 0).then_some(text),
                    byte: start.saturating_add(u64::try_from(begin).unwrap_or(0)),
                    unfinished_bytes: u64::try_from(after.len()).unwrap_or(0).saturating_sub(1),
                });
            }
            bytes *= 8;
        }
    }

    fn parse(&self, run_id: &RunId) -> Result<Record, Damage> {
        let text = self.text.as_deref().ok_or(Damage::TooLong)?;
        of_run(run_id, Record::parse(text)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::Tail;

    fn tail(content: &[u8]) -> (Option<String>, u64, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let tail = Tail::read(&file, u64::try_from(content.len()).unwrap()).unwrap();
        let text = tail.text.map(|text| String::from_utf8(text).unwrap());
        (text, tail.byte, tail.unfinished_bytes)
    }

    #[test]
    fn the_last_whole_line_is_found_from_the_end() {
        assert_eq!(tail(b"a\n"), (Some("a".to_owned()), 0, 0));
        assert_eq!(tail(b"a\nbc\n"), (Some("bc".to_owned()), 2, 0));
        assert_eq!(tail(b"a\nbc\nd"), (Some("bc".to_owned()), 2, 1));
        for long in [
            super::TAIL_BYTES - 1,
            super::TAIL_BYTES,
            3 * super::TAIL_BYTES,
        ] {
            let line = "x".repeat(long);
            let content = format!("first\n{line}\nrest");
            assert_eq!(tail(content.as_bytes()), (Some(line), 6, 4));
        }
    }
}
