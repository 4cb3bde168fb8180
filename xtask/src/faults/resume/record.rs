//! The ledgers of a run and of those inside it, as they are on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::place::key;

/// Events that a run leaves once, however often it is killed.
const ONCE: [&str; 10] = [
    "approval_request",
    "approval_response",
    "custom",
    "denied",
    "error",
    "log",
    "node_enter",
    "node_exit",
    "structured_output",
    "tool_result",
];
/// Members of an event that tell it from others and are the same in every run.
const MEMBERS: [&str; 12] = [
    "approval_id",
    "approved",
    "call_id",
    "error",
    "fields",
    "is_error",
    "message",
    "name",
    "node_id",
    "output",
    "prompt",
    "success",
];

/// A member of an object; null where there is none.
pub(super) fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// The code of a run that met a call of which nobody knows whether it had its effect.
pub(super) const AMBIGUOUS: &str = "ambiguous_call";

/// Counts lines while ledgers grow, and reads no byte twice.
pub(super) struct Growth {
    folder: PathBuf,
    /// Bytes read and lines found, by file.
    seen: BTreeMap<PathBuf, (u64, usize)>,
}

impl Growth {
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            seen: BTreeMap::new(),
        }
    }

    /// How many whole lines all ledgers have together.
    pub(super) fn lines(&mut self) -> Result<usize> {
        for path in ledgers(&self.folder)? {
            let (bytes, lines) = self.seen.entry(path.clone()).or_default();
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            if metadata.len() > *bytes {
                let mut file = File::open(&path).context("cannot open a ledger")?;
                file.seek(SeekFrom::Start(*bytes))?;
                let mut more = Vec::new();
                file.read_to_end(&mut more)
                    .context("cannot read a ledger")?;
                *bytes += more.len() as u64;
                *lines += more.iter().filter(|byte| **byte == b'\n').count();
            }
        }
        Ok(self.seen.values().map(|(_, lines)| lines).sum())
    }
}

fn ledgers(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.context("cannot list the ledgers")?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// What all ledgers of a home say.
#[derive(Default)]
pub(super) struct Record {
    /// The events of each run.
    runs: BTreeMap<String, Vec<Value>>,
    /// What a writer was told is there: one line for each event, as `ledger_faults check` reads it.
    pub(super) promises: String,
}

/// A call of a tool.
pub(super) struct Called {
    /// The tool and its arguments.
    pub(super) key: String,
    /// What a repetition would do: `write`, `idempotent` or `read`.
    pub(super) effect: String,
    /// Its result is on record.
    pub(super) is_over: bool,
}

impl Record {
    /// Reads every whole line.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut record = Self::default();
        for path in ledgers(folder)? {
            let run_id = path
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned());
            let run_id = run_id.unwrap_or_default();
            let text = fs::read_to_string(&path).context("cannot read a ledger")?;
            let whole = text
                .rfind('\n')
                .map_or("", |end| text.get(..end).unwrap_or_default());
            let mut events = Vec::new();
            for line in whole.lines() {
                let event: Value = serde_json::from_str(line).context("a line is no JSON")?;
                let digest = Sha256::digest(line);
                writeln!(
                    record.promises,
                    "{run_id} {} {digest:x} written",
                    member(&event, "seq")
                )?;
                events.push(event);
            }
            if !events.is_empty() {
                record.runs.insert(run_id, events);
            }
        }
        Ok(record)
    }

    pub(super) fn run_ids(&self) -> impl Iterator<Item = &String> {
        self.runs.keys()
    }

    pub(super) fn lines(&self) -> usize {
        self.runs.values().map(Vec::len).sum()
    }

    /// The newest event of a run; none if the run never began.
    pub(super) fn last(&self, run_id: &str) -> Option<&Value> {
        self.runs.get(run_id)?.last()
    }

    /// The events of one type in one run.
    pub(super) fn of<'a>(&'a self, run_id: &str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let events = self.runs.get(run_id).into_iter().flatten();
        events
            .filter(move |event| member(event, "type") == kind)
            .map(|event| member(event, "payload"))
    }

    /// Whether the run waits for somebody's decision.
    pub(super) fn is_asking(&self, run_id: &str) -> bool {
        let answered: BTreeSet<String> = self
            .of(run_id, "approval_response")
            .map(|answer| member(answer, "approval_id").to_string())
            .collect();
        self.of(run_id, "approval_request")
            .any(|request| !answered.contains(&member(request, "approval_id").to_string()))
    }

    /// All calls of tools that reach the tool server.
    pub(super) fn calls(&self) -> Vec<Called> {
        let mut calls = Vec::new();
        for run_id in self.run_ids() {
            let over: BTreeSet<String> = self
                .of(run_id, "tool_result")
                .map(|result| member(result, "call_id").to_string())
                .collect();
            for call in self.of(run_id, "tool_call") {
                let name = member(call, "name").as_str().unwrap_or_default();
                let Some(tool) = name.strip_prefix("tickets__") else {
                    continue;
                };
                calls.push(Called {
                    key: key(tool, member(call, "arguments")),
                    effect: member(call, "effect")
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    is_over: over.contains(&member(call, "call_id").to_string()),
                });
            }
        }
        calls
    }

    /// A text without the ids of these runs, most of which are other ones each time.
    pub(super) fn nameless(&self, text: &str) -> String {
        let ids = self.run_ids();
        ids.fold(text.to_owned(), |text, run_id| {
            text.replace(run_id, "this run")
        })
    }

    /// How often each event is there of which a run leaves one, without what differs from run to run.
    pub(super) fn shape(&self) -> BTreeMap<String, usize> {
        let mut shape = BTreeMap::new();
        for (run_id, events) in &self.runs {
            let started = self.of(run_id, "run_started").next();
            let skill = started.map(|started| member(started, "skill").to_string());
            let input = started.map(|started| member(started, "input").to_string());
            for event in events {
                let kind = member(event, "type").as_str().unwrap_or_default();
                let payload = member(event, "payload");
                // That a run cannot go on by itself is said each time, and is no part of what it does.
                let is_halt = member(payload, "code") == AMBIGUOUS;
                if !ONCE.contains(&kind) || is_halt {
                    continue;
                }
                let said = MEMBERS
                    .iter()
                    .filter_map(|member| Some(format!("{member}={}", payload.get(member)?)));
                let mut words = vec![kind.to_owned()];
                words.extend(skill.iter().chain(&input).cloned());
                words.extend(said);
                *shape.entry(self.nameless(&words.join(" "))).or_default() += 1;
            }
        }
        shape
    }
}
