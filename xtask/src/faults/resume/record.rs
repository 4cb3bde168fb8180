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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Growth, Record};

    fn event(kind: &str, payload: &Value) -> Value {
        json!({ "seq": 1, "type": kind, "payload": payload })
    }

    fn record(run_id: &str, events: &[(&str, Value)]) -> Record {
        let events = events.iter().map(|(kind, payload)| event(kind, payload));
        let mut record = Record::default();
        record.runs.insert(run_id.to_owned(), events.collect());
        record
    }

    #[test]
    fn lines_are_counted_once_they_are_whole() {
        let folder = std::env::temp_dir().join(format!("xtask-growth-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut growth = Growth::of(&folder);
        assert_eq!(growth.lines().unwrap(), 0);
        std::fs::write(folder.join("a.jsonl"), "{}\n{").unwrap();
        std::fs::write(folder.join("index.db"), "\n").unwrap();
        assert_eq!(growth.lines().unwrap(), 1);
        std::fs::write(folder.join("a.jsonl"), "{}\n{}\n").unwrap();
        std::fs::write(folder.join("b.jsonl"), "{}\n").unwrap();
        assert_eq!(growth.lines().unwrap(), 3);
        assert_eq!(Record::read(&folder).unwrap().lines(), 3);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_question_is_open_until_it_is_answered() {
        let asked = ("approval_request", json!({ "approval_id": "approval#1" }));
        let answered = ("approval_response", json!({ "approval_id": "approval#1" }));
        let other = ("approval_request", json!({ "approval_id": "approval#2" }));
        assert!(record("run_1", std::slice::from_ref(&asked)).is_asking("run_1"));
        assert!(!record("run_1", &[asked.clone(), answered.clone()]).is_asking("run_1"));
        assert!(record("run_1", &[asked, answered, other]).is_asking("run_1"));
    }

    #[test]
    fn a_call_is_over_with_its_result_and_those_of_skills_are_none() {
        let call = |id: &str, name: &str| {
            let payload = json!({
                "call_id": id, "name": name, "arguments": { "b": 1, "a": "x" }, "effect": "write",
            });
            ("tool_call", payload)
        };
        let result = ("tool_result", json!({ "call_id": "tool#1" }));
        let events = [
            call("tool#1", "tickets__write"),
            call("skill#1", "greet"),
            result,
            call("tool#2", "tickets__read"),
        ];
        let calls = record("run_1", &events).calls();
        let told: Vec<_> = calls
            .iter()
            .map(|call| (call.key.as_str(), call.is_over))
            .collect();
        assert_eq!(
            told,
            [(r#"write a="x" b=1"#, true), (r#"read a="x" b=1"#, false)]
        );
    }

    #[test]
    fn what_a_run_leaves_twice_is_seen() {
        let log = ("log", json!({ "message": "in run_1", "time": 1 }));
        let halt = (
            "error",
            json!({ "message": "stop", "code": "ambiguous_call" }),
        );
        let once = record("run_1", &[log.clone(), halt]).shape();
        assert_eq!(once, record("run_1", std::slice::from_ref(&log)).shape());
        assert_ne!(once, record("run_1", &[log.clone(), log]).shape());
        let elsewhere = ("log", json!({ "message": "in run_2", "time": 2 }));
        assert_eq!(once, record("run_2", &[elsewhere]).shape());
    }
}
