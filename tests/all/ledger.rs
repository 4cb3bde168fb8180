//! Ledgers as files in a real folder, through the public interface of the library.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Damage, Digest, Entry, Event, Head, IllegalTransition, Json, Log, NodeEnter, NodeExit, Origin,
    Phase, Position, RecordError, Recorder, RunCompleted, RunQuery, RunResumed, RunStarted,
    RunState, RunStatus, Store, StoreError, StoreOptions, TORN_TAIL, ToolCall, ToolResult,
    TornTailReport, Verdict, verify_file,
};
use skillrun::outcome::OutcomeCode;
use tempfile::TempDir;

mod faults;
mod index;
mod integrity;
mod live;
mod reading;
mod recording;
mod recovery;
mod upkeep;

const ORIGINAL: &str = include_str!("ledger/original.jsonl");
const ORIGINAL_ID: &str = "run_20260513T170216042_9f86d081884c7d65";
/// What version 1 of the format looks like. It never changes; a later version gets a file of its own.
const GOLDEN: &str = include_str!("ledger/v1.jsonl");
const GOLDEN_ID: &str = "run_019e2236ae01700080000000000000a1";

fn open(dir: &Path, durability: Durability) -> Store {
    Store::open(StoreOptions {
        runs_dir: dir.to_owned(),
        durability,
        clock: Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000)),
    })
    .unwrap()
}

/// A store in memory where there is such a folder: recovery syncs whatever the durability, and some
/// tests recover a thousand times.
fn relaxed() -> (TempDir, Store) {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .unwrap();
    let store = open(dir.path(), Durability::Relaxed);
    (dir, store)
}

fn id(text: &str) -> RunId {
    text.parse().unwrap()
}

fn log(message: &str) -> Event {
    Log {
        message: message.into(),
        ..Log::default()
    }
    .into()
}

fn end(status: RunStatus, code: OutcomeCode) -> Event {
    RunCompleted::new(status, code).into()
}

async fn start(store: &Store, run_id: &RunId) -> Recorder {
    let input = Json::parse(r#"{"title": "disk full", "severity": 2}"#).unwrap();
    let started = RunStarted {
        skill: "triage".to_owned(),
        input,
        ..RunStarted::default()
    };
    store.create(run_id.clone(), started).await.unwrap().0
}

/// The events of the golden ledger between its first and its last.
fn golden_middle() -> Vec<(Origin, Event)> {
    let node_id = "tool:github__search#1".to_owned();
    let call_id = "call_1".to_owned();
    let enter = NodeEnter {
        node_id: node_id.clone(),
        node_name: "tool".to_owned(),
        span_id: None,
    };
    let call = ToolCall {
        call_id: call_id.clone(),
        node_id: node_id.clone(),
        name: "github__search".to_owned(),
        arguments: Json::parse(r#"{"q":"disk full","n":1e400}"#).unwrap(),
        ..ToolCall::default()
    };
    let result = ToolResult {
        call_id,
        node_id: node_id.clone(),
        output: Some(Json::parse(r#"[{"id":7}]"#).unwrap()),
        duration_micros: Some(8_123),
        ..ToolResult::default()
    };
    let exit = NodeExit {
        node_id,
        duration_micros: 8_200,
        success: true,
    };
    vec![
        (Origin::Host, enter.into()),
        (Origin::Host, call.into()),
        (Origin::Guest, log("fünf\n\u{1b}[2J\u{2028}")),
        (Origin::Host, result.into()),
        (Origin::Host, exit.into()),
    ]
}

async fn write_golden(store: &Store) -> Head {
    let recorder = start(store, &id(GOLDEN_ID)).await;
    for (origin, event) in golden_middle() {
        recorder.record(origin, &event).unwrap();
    }
    recorder
        .record_durable(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
        .await
        .unwrap();
    recorder.head()
}

/// Puts `content` where the ledger of the golden run is looked for.
fn put(dir: &TempDir, content: &[u8]) {
    fs::write(dir.path().join(format!("{GOLDEN_ID}.jsonl")), content).unwrap();
}

fn golden_lines() -> Vec<&'static str> {
    GOLDEN.lines().collect()
}

fn golden_head() -> Head {
    let lines = golden_lines();
    Head {
        seq: u64::try_from(lines.len()).unwrap(),
        sha256: Digest::of(lines[lines.len() - 1].as_bytes()),
    }
}

fn torn_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".torn-"))
        .collect();
    files.sort();
    files
}

/// What the events of a ledger report as cut off.
fn reports(store: &Store, run_id: &RunId) -> Vec<TornTailReport> {
    let page = store.read(run_id, 1, usize::MAX).unwrap();
    page.records()
        .filter(|record| record.origin == Origin::Host)
        .filter_map(|record| match record.event() {
            Event::Custom(custom) if custom.name == TORN_TAIL => {
                Some(serde_json::from_str(custom.data.unwrap().as_str()).unwrap())
            }
            _ => None,
        })
        .collect()
}

/// Names this process's part when it is a child of the test process.
const CHILD_PART: &str = "SKILLRUN_TEST_LEDGER_CHILD";
const CHILD_DIR: &str = "SKILLRUN_TEST_LEDGER_DIR";

fn spawn_child(part: &str, dir: &Path) -> (Child, BufReader<ChildStderr>) {
    let (_, module) = module_path!().split_once("::").unwrap();
    // The shell lets a write beyond the limit fail instead of ending the process.
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::child")])
        .env(CHILD_PART, part)
        .env(CHILD_DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let answers = BufReader::new(child.stderr.take().unwrap());
    (child, answers)
}

fn next_answer(answers: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Not a test of its own: what the process does that [`spawn_child`] starts.
#[tokio::test]
async fn child() {
    let Ok(part) = std::env::var(CHILD_PART) else {
        return;
    };
    let dir = PathBuf::from(std::env::var(CHILD_DIR).unwrap());
    let durability = if part == "create" {
        Durability::Sync
    } else {
        Durability::Relaxed
    };
    let store = open(&dir, durability);
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    eprintln!("{run_id}");
    match part.as_str() {
        // Waits to be killed.
        "create" => std::future::pending::<()>().await,
        "fill" => {
            let acknowledged = loop {
                let seq = recorder.head().seq;
                if recorder
                    .record(Origin::Guest, &log(&"x".repeat(700)))
                    .is_err()
                {
                    break seq;
                }
            };
            for _ in 0..2 {
                let refused = recorder.record(Origin::Guest, &log("small"));
                assert!(matches!(refused, Err(RecordError::Poisoned(failure))
                    if failure.source.kind() == std::io::ErrorKind::WriteZero));
            }
            assert!(matches!(store.healthy(), Err(StoreError::Unavailable(_))));
            let refused = store.create(RunId::generate(), RunStarted::default()).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))));
            eprintln!("{acknowledged}");
        }
        part => panic!("{part}"),
    }
}
