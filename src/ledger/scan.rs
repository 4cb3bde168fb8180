//! Reads a whole ledger and checks every line against the ones before it.

use std::fs::File;
use std::io;

use super::blob::{self, Inlined};
use super::digest::Digest;
use super::error::{Corruption, Damage};
use super::event::Event;
use super::line::Record;
use super::payload::Head;
use super::reader::{Lines, Position};
use super::state::State;
use crate::id::RunId;

/// Bytes at the end of a file that may be taken for writes that were cut off. More than that is
/// something else, which nobody should cut off.
const TORN_TAIL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An end of a file that holds no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// The number that its first line would have.
    pub line: u64,
    /// Where it begins, in bytes from the beginning of the file.
    pub byte: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a ledger was found to be.
#[derive(Debug)]
pub(super) struct Scan {
    /// The newest good line.
    pub(super) head: Head,
    /// The run after it.
    pub(super) state: State,
    /// Whether the lines are chained; true when there are none.
    pub(super) is_chained: bool,
    /// The first bad line with good ones after it, or one that no cut could have made.
    pub(super) corruption: Option<Corruption>,
    pub(super) torn: Option<TornTail>,
    /// Large values are in their places, as an export has them.
    pub(super) is_export: bool,
}

/// What a file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A ledger.
    Ledger,
    /// A ledger, or an export of one: a line in which a large value was put is no longer the one that the
    /// next line names.
    LedgerOrExport,
}

/// Checks one line after the other.
struct Checker<'a> {
    run_id: &'a RunId,
    /// The line that has to be there, when it is known.
    noted: Option<Head>,
    head: Head,
    /// Where the line of `head` begins.
    head_byte: u64,
    state: State,
    is_chained: bool,
    form: Form,
    /// Whether the last line may be another one than it was.
    inlined: Inlined,
    is_export: bool,
}

/// Reads the file to its end or first damage, showing `visit` every good line with its event. An
/// error that `visit` returns is damage of that line. With `noted`, it is damage as well when the file
/// does not hold that line, which was its newest at some time.
pub(super) fn scan(
    run_id: &RunId,
    file: File,
    noted: Option<Head>,
    visit: &mut dyn FnMut(&Record, &Event) -> Result<(), Damage>,
) -> io::Result<Scan> {
    let lines = Lines::new(file, Position::default());
    scan_lines(lines, Checker::new(run_id, noted, Form::Ledger), visit)
}

/// As [`scan`], for lines that may be those of an export.
pub(super) fn scan_any(
    run_id: &RunId,
    lines: Lines,
    visit: &mut dyn FnMut(&Record, &Event) -> Result<(), Damage>,
) -> io::Result<Scan> {
    scan_lines(
        lines,
        Checker::new(run_id, None, Form::LedgerOrExport),
        visit,
    )
}

fn scan_lines(
    mut lines: Lines,
    mut checker: Checker<'_>,
    visit: &mut dyn FnMut(&Record, &Event) -> Result<(), Damage>,
) -> io::Result<Scan> {
    let mut corruption = None;
    // The first unreadable line: damage if a good one follows, else the beginning of a torn tail.
    let mut suspect: Option<Corruption> = None;
    while let Some(line) = lines.next_line()? {
        let parsed = line.parse();
        if suspect.is_some() {
            if parsed.is_ok() {
                corruption = suspect.take();
                break;
            }
            continue;
        }
        let checked = parsed.and_then(|record| {
            let event = record.event();
            checker.check(line.byte, &record, &event)?;
            visit(&record, &event)
        });
        match checked {
            Ok(()) => {}
            Err(damage) if damage.may_be_torn() => suspect = Some(line.corrupt(damage)),
            Err(Damage::Prev { expected, found }) => {
                let at = line.corrupt(Damage::Prev { expected, found });
                let digest = Digest::of(line.text);
                corruption = Some(checker.blame(at, digest, &mut lines)?);
                break;
            }
            Err(damage) => {
                corruption = Some(line.corrupt(damage));
                break;
            }
        }
    }
    let mut torn = match corruption {
        None => checker.torn(suspect, &lines)?,
        Some(_) => None,
    };
    if let Some(TornTail { line, byte, bytes }) = torn
        && bytes > TORN_TAIL_BYTES_MAX
    {
        let damage = Damage::TornTailTooLong { bytes };
        corruption = Some(Corruption { line, byte, damage });
        torn = None;
    }
    if let Some(noted) = checker.noted.filter(|noted| noted.seq > checker.head.seq) {
        corruption.get_or_insert(Corruption {
            line: checker.head.seq + 1,
            byte: torn.map_or(lines.byte(), |torn| torn.byte),
            damage: noted.into(),
        });
    }
    Ok(Scan {
        head: checker.head,
        state: checker.state,
        is_chained: checker.is_chained,
        corruption,
        torn,
        is_export: checker.is_export,
    })
}

/// The damage of a ledger that does not hold the line.
impl From<Head> for Damage {
    fn from(Head { seq, sha256 }: Head) -> Self {
        Self::Head { seq, sha256 }
    }
}

impl<'a> Checker<'a> {
    fn new(run_id: &'a RunId, noted: Option<Head>, form: Form) -> Self {
        Self {
            run_id,
            noted,
            head: Head {
                seq: 0,
                sha256: Digest::ZERO,
            },
            head_byte: 0,
            state: State::default(),
            is_chained: true,
            form,
            inlined: Inlined::No,
            is_export: false,
        }
    }

    fn check(&mut self, byte: u64, record: &Record, event: &Event) -> Result<(), Damage> {
        if record.run_id != *self.run_id {
            return Err(Damage::OtherRun {
                found: record.run_id.clone(),
            });
        }
        if self.head.seq == 0 {
            self.is_chained = record.prev.is_some();
        }
        let expected = self.head.seq + 1;
        if record.seq != expected {
            return Err(Damage::Seq {
                expected,
                found: record.seq,
            });
        }
        // Only the original system wrote unchained ledgers: one of today's that lost its chain is
        // not taken for one of those.
        if record.prev.is_some() != self.is_chained
            || self.is_chained == is_of_the_original_system(self.run_id)
        {
            return Err(Damage::Unchained);
        }
        if let Some(found) = record.prev
            && found != self.head.sha256
            && self.inlined == Inlined::No
        {
            return Err(Damage::Prev {
                expected: self.head.sha256,
                found,
            });
        }
        self.state
            .check(record.origin, event)
            .map_err(Damage::Illegal)?;
        self.state = std::mem::take(&mut self.state).after(record.origin, event);
        self.is_export |= record.prev.is_some_and(|found| found != self.head.sha256);
        if self.form == Form::LedgerOrExport {
            self.inlined = blob::inlined(event);
            self.is_export |= self.inlined == Inlined::Yes;
        }
        self.head = Head {
            seq: record.seq,
            sha256: record.digest(),
        };
        self.head_byte = byte;
        match self.noted {
            Some(noted) if noted.seq == record.seq && noted != self.head => Err(noted.into()),
            _ => Ok(()),
        }
    }

    /// The end of the file from its first unreadable line on, or from where `lines` came to.
    fn torn(&self, suspect: Option<Corruption>, lines: &Lines) -> io::Result<Option<TornTail>> {
        let end = lines.byte();
        let byte = suspect.map_or(end, |suspect| suspect.byte);
        let torn = TornTail {
            line: self.head.seq + 1,
            byte,
            bytes: (end - byte).saturating_add(lines.bytes_left()?),
        };
        Ok(Some(torn).filter(|torn| torn.bytes > 0))
    }

    /// Finds out which of two lines was altered when the second does not name the first: if the line
    /// after them names the second as it is, the second is as it was written, so the first is not.
    fn blame(
        &self,
        second: Corruption,
        digest: Digest,
        lines: &mut Lines,
    ) -> io::Result<Corruption> {
        let (Damage::Prev { expected, found }, true) = (&second.damage, self.head.seq > 0) else {
            return Ok(second);
        };
        let third = lines.next_line()?.and_then(|line| line.parse().ok());
        if third.is_some_and(|third| third.prev != Some(digest)) {
            return Ok(second);
        }
        Ok(Corruption {
            line: self.head.seq,
            byte: self.head_byte,
            damage: Damage::Altered {
                expected: *found,
                found: *expected,
            },
        })
    }
}

/// Ids of the original system name their time of day, which those of today do not.
pub(super) fn is_of_the_original_system(run_id: &RunId) -> bool {
    run_id.as_str().contains('T')
}
