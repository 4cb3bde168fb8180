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
    Phase, Position, RecordError, Recorder, RunCompleted, RunResumed, RunStarted, RunState,
    RunStatus, Store, StoreError, StoreOptions, TORN_TAIL, ToolCall, ToolResult, TornTailReport,
    Verdict, verify_file,
};
use skillrun::outcome::OutcomeCode;
use tempfile::TempDir;

const ORIGINAL: &str = include_str!("ledgers/original.jsonl");
const ORIGINAL_ID: &str = "run_20260513T170216042_9f86d081884c7d65";
/// What version 1 of the format looks like. It never changes; a later version gets a file of its own.
const GOLDEN: &str = include_str!("ledgers/v1.jsonl");
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

#[tokio::test]
async fn the_golden_ledger_is_written_and_read_as_ever() {
    let (dir, store) = relaxed();
    let head = write_golden(&store).await;
    let run_id = id(GOLDEN_ID);
    let written = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert_eq!(written, GOLDEN);
    assert_eq!(head, golden_head());
    let events: Vec<(Origin, Event)> = store
        .read(&run_id, 2, 5)
        .unwrap()
        .records()
        .map(|record| (record.origin, record.event()))
        .collect();
    assert_eq!(events, golden_middle());
    let report = verify_file(&store.path_of(&run_id), Some(head)).unwrap();
    assert_eq!(
        (report.verdict(), report.head, report.open),
        (Verdict::Ok, head, 0)
    );

    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.path_of(&run_id)), 0o600);
    let made = open(&dir.path().join("new/runs"), Durability::Sync);
    assert_eq!(mode(made.path_of(&run_id).parent().unwrap()), 0o700);
}

#[tokio::test]
async fn an_event_that_cannot_happen_is_refused_and_the_run_goes_on() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let again = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(again, Err(StoreError::Exists { .. })));
    for (origin, event) in [
        (Origin::Host, RunStarted::default().into()),
        (Origin::Host, ToolResult::default().into()),
        (Origin::Guest, end(RunStatus::Ok, OutcomeCode::Ok)),
        (Origin::Guest, skillrun::ledger::Denied::default().into()),
    ] {
        let refused = recorder.record(origin, &event);
        assert!(matches!(refused, Err(RecordError::Illegal(_))), "{event:?}");
    }
    let unknown = Event::Unknown {
        kind: "hologram".to_owned(),
        payload: Json::default(),
    };
    let refused = recorder.record(Origin::Host, &unknown);
    assert!(matches!(refused, Err(RecordError::NotWritable { .. })));
    assert_eq!(
        recorder.record(Origin::Guest, &log("goes on")).unwrap().seq,
        2
    );
}

#[tokio::test]
async fn after_its_end_a_run_takes_no_event_unless_it_can_be_resumed() {
    let (_dir, store) = relaxed();
    for (status, code) in [
        (RunStatus::Ok, OutcomeCode::Ok),
        (RunStatus::Error, OutcomeCode::Trap),
        (RunStatus::Cancelled, OutcomeCode::Cancelled),
    ] {
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        recorder.record(Origin::Host, &end(status, code)).unwrap();
        for event in [log("late"), RunResumed::default().into()] {
            let refused = recorder.record(Origin::Host, &event);
            assert!(matches!(refused, Err(RecordError::Ended { .. })));
        }
        let refused = store.recover(&run_id).await;
        assert!(matches!(refused, Err(StoreError::Ended { .. })));
        let summary = store.summary(&run_id).unwrap();
        assert_eq!(
            (summary.state, summary.code),
            (RunState::Ended(status), Some(code))
        );
    }

    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    recorder
        .record(
            Origin::Host,
            &end(RunStatus::Interrupted, OutcomeCode::Interrupted),
        )
        .unwrap();
    assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
    let resumed = store.recover(&run_id).await.unwrap();
    let refused = resumed.record(Origin::Guest, &log("too early"));
    assert!(matches!(
        refused,
        Err(RecordError::Illegal(IllegalTransition::Ended { .. }))
    ));
    resumed
        .record(Origin::Host, &RunResumed::default().into())
        .unwrap();
    assert_eq!(store.summary(&run_id).unwrap().state, RunState::Running);
    resumed
        .record(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
        .unwrap();
    assert_eq!(
        store
            .verify(&run_id, Some(resumed.head()))
            .unwrap()
            .verdict(),
        Verdict::Ok
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_many_callers_are_numbered_in_the_order_of_the_file() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let recorder = recorder.clone();
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0..20 {
                        let message = format!("{task}-{n}");
                        let appended = if n % 4 == 0 {
                            recorder.record_durable(Origin::Guest, &log(&message)).await
                        } else {
                            recorder.record(Origin::Guest, &log(&message))
                        };
                        acknowledged.push((appended.unwrap().seq, message));
                    }
                    acknowledged
                })
            })
            .collect();
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.extend(task.await.unwrap());
        }
        acknowledged.sort();
        recorder
            .record_durable(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
            .await
            .unwrap();
        let page = store.read(&run_id, 2, acknowledged.len()).unwrap();
        let read: Vec<(u64, String)> = page
            .records()
            .map(|record| match record.event() {
                Event::Log(log) => (record.seq, log.message.as_str().to_owned()),
                event => panic!("{event:?}"),
            })
            .collect();
        assert_eq!(read, acknowledged);
        assert_eq!(
            store
                .verify(&run_id, Some(recorder.head()))
                .unwrap()
                .verdict(),
            Verdict::Ok
        );
    }
}

#[tokio::test]
async fn an_abandoned_durable_record_still_becomes_part_of_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Sync);
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    {
        let event = log("abandoned");
        let mut future = std::pin::pin!(recorder.record_durable(Origin::Guest, &event));
        let _pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await;
    }
    let appended = recorder
        .record_durable(Origin::Guest, &log("after"))
        .await
        .unwrap();
    assert_eq!(appended.seq, 3);
    drop(recorder);
    assert_eq!(store.recover(&run_id).await.unwrap().head().seq, 3);
}

#[tokio::test]
async fn c21_a_ledger_cut_at_any_byte_is_taken_up_after_its_last_whole_line() {
    let golden = GOLDEN.as_bytes();
    let first = GOLDEN.find('\n').unwrap() + 1;
    let run_id = id(GOLDEN_ID);
    for cut in 0..golden.len() {
        let (dir, store) = relaxed();
        put(&dir, &golden[..cut]);
        let recovered = store.recover(&run_id).await;
        let kept = golden[..cut]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        if cut < first {
            assert!(
                matches!(recovered, Err(StoreError::NeverStarted { .. })),
                "{cut}"
            );
            assert_eq!(fs::read(store.path_of(&run_id)).unwrap(), &golden[..cut]);
            continue;
        }
        let recorder = recovered.unwrap();
        let torn: Vec<Vec<u8>> = torn_files(dir.path())
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect();
        let told: Vec<Digest> = reports(&store, &run_id)
            .into_iter()
            .map(|report| report.sha256)
            .collect();
        if kept == cut {
            assert!(torn.is_empty() && told.is_empty(), "{cut}");
        } else {
            assert_eq!(torn, [&golden[kept..cut]], "{cut}");
            assert_eq!(told, [Digest::of(&torn[0])], "{cut}");
        }
        recorder.record(Origin::Guest, &log("goes on")).unwrap();
        let content = fs::read(store.path_of(&run_id)).unwrap();
        assert_eq!(content[..kept], golden[..kept]);
        let report = store.verify(&run_id, Some(recorder.head())).unwrap();
        assert_eq!(report.verdict(), Verdict::Running, "{cut}");
    }
}

#[tokio::test]
async fn c21_recovery_can_be_killed_between_any_two_steps() {
    let lines = golden_lines();
    let good = format!("{}\n{}\n", lines[0], lines[1]);
    let half = &lines[2][..40];
    let torn = format!("{GOLDEN_ID}.torn-1");
    // The copy is half written; it is whole and the ledger not cut; it is cut and nothing reported.
    for (copy, content) in [
        (
            Some((format!("{GOLDEN_ID}.torn-new"), &half[..20])),
            format!("{good}{half}"),
        ),
        (Some((torn.clone(), half)), format!("{good}{half}")),
        (Some((torn.clone(), half)), good.clone()),
        (None, format!("{good}{half}")),
    ] {
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, content.as_bytes());
        if let Some((name, bytes)) = copy {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        for _ in 0..2 {
            drop(store.recover(&run_id).await.unwrap());
            assert_eq!(torn_files(dir.path()), [dir.path().join(&torn)]);
            let told = reports(&store, &run_id);
            assert_eq!(told.len(), 1);
            assert_eq!(
                (told[0].file.as_str(), told[0].sha256),
                (&*torn, Digest::of(half.as_bytes()))
            );
            assert_eq!(
                store.verify(&run_id, None).unwrap().verdict(),
                Verdict::Running
            );
        }
        // A second accident gets a copy of its own.
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(store.path_of(&run_id))
            .unwrap();
        file.write_all(half.as_bytes()).unwrap();
        drop(store.recover(&run_id).await.unwrap());
        assert_eq!(torn_files(dir.path()).len(), 2);
        assert_eq!(reports(&store, &run_id).len(), 2);
    }
}

#[tokio::test]
async fn c21_nul_bytes_and_garbage_at_the_end_are_set_aside() {
    let lines = golden_lines();
    let good = format!("{}\n{}\n", lines[0], lines[1]);
    let nuls = vec![0_u8; 5000];
    let lines_of_garbage = b"\x00\xff\n{\"v\":1}\n[]\n{\"half".to_vec();
    for tail in [nuls, lines_of_garbage, b"\n".to_vec(), b"\n\n\n".to_vec()] {
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, &[good.as_bytes(), &tail].concat());
        let report = store.verify(&run_id, None).unwrap();
        assert_eq!(report.verdict(), Verdict::Torn);
        assert_eq!(
            report.torn.map(|torn| torn.bytes),
            u64::try_from(tail.len()).ok()
        );
        drop(store.recover(&run_id).await.unwrap());
        assert_eq!(fs::read(&torn_files(dir.path())[0]).unwrap(), tail);
        assert_eq!(
            store.verify(&run_id, None).unwrap().verdict(),
            Verdict::Running
        );
    }
}

#[tokio::test]
async fn c21_a_torn_end_after_an_interruption_does_not_hinder_the_resumption() {
    let (dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    recorder
        .record(
            Origin::Host,
            &end(RunStatus::Suspended, OutcomeCode::Interrupted),
        )
        .unwrap();
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(store.path_of(&run_id))
        .unwrap();
    file.write_all(b"{\"v\":1,\"run_id").unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    assert_eq!(
        recorder.state().phase(),
        Phase::Paused(RunStatus::Suspended)
    );
    recorder
        .record(Origin::Host, &RunResumed::default().into())
        .unwrap();
    assert_eq!(
        (torn_files(dir.path()).len(), reports(&store, &run_id).len()),
        (1, 1)
    );
}

#[tokio::test]
async fn c22_a_last_line_of_another_version_is_kept_and_counted() {
    let lines = golden_lines();
    let start = format!("{}\n", lines[0]);
    let prev = Digest::of(lines[0].as_bytes());
    for strange in [
        r#""v":1,"type":"hologram","source":"host","payload":{"angle":1e400}"#,
        r#""v":7,"type":"log","source":"guest","color":"red","payload":{"text":"x"}"#,
        r#""v":1,"type":"tool_call","source":"host","payload":{"name":"x"}"#,
    ] {
        let strange = format!(
            r#"{{{strange},"run_id":"{GOLDEN_ID}","seq":2,"time":"2026-05-13T17:02:16Z","prev":"{prev}"}}"#
        );
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, format!("{start}{strange}\n").as_bytes());
        let recorder = store.recover(&run_id).await.unwrap();
        assert_eq!(recorder.record(Origin::Host, &log("next")).unwrap().seq, 3);
        let page = store.read(&run_id, 2, 1).unwrap();
        let kept: Vec<&str> = page.records().map(|record| &*record.line).collect();
        assert_eq!(kept, [strange.as_str()]);
        assert_eq!(
            store.verify(&run_id, None).unwrap().verdict(),
            Verdict::Running
        );
    }
}

#[tokio::test]
async fn c23_the_rest_of_a_damaged_ledger_is_shown_and_nothing_is_cut() {
    let mut lines = golden_lines();
    let damaged = lines[3].replace(':', ";");
    lines[3] = &damaged;
    let content = lines.join("\n") + "\n";
    let (dir, store) = relaxed();
    let run_id = id(GOLDEN_ID);
    put(&dir, content.as_bytes());
    let page = store.read(&run_id, 1, usize::MAX).unwrap();
    assert_eq!(
        (page.entries.len(), page.records().count()),
        (lines.len(), lines.len() - 1)
    );
    let byte = lines[..3].iter().map(|line| line.len() + 1).sum::<usize>();
    let named = |line: u64, at: u64| line == 4 && at == u64::try_from(byte).unwrap();
    assert!(matches!(&page.entries[3], Entry::Damaged(corruption)
        if named(corruption.line, corruption.byte)));
    let corruption = store.verify(&run_id, None).unwrap().corruption.unwrap();
    assert!(named(corruption.line, corruption.byte), "{corruption}");
    let refused = store.recover(&run_id).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt { corruption, .. })
        if named(corruption.line, corruption.byte))
    );
    assert_eq!(fs::read_to_string(store.path_of(&run_id)).unwrap(), content);
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let (dir, store) = relaxed();
    let run_id = id(GOLDEN_ID);
    let lines = golden_lines();
    let start_of = |n: usize| lines[..n].iter().map(|line| line.len() + 1).sum::<usize>();
    for line in [0, 3, lines.len() - 1] {
        for at in start_of(line)..start_of(line + 1) {
            for bit in 0..8 {
                let mut bytes = GOLDEN.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                put(&dir, &bytes);
                let report = store.verify(&run_id, Some(golden_head())).unwrap();
                let verdict = report.verdict();
                assert!(
                    matches!(verdict, Verdict::Corrupt | Verdict::Torn),
                    "{at} {bit} {verdict}"
                );
            }
        }
    }
}

#[tokio::test]
async fn c24_a_run_whose_id_was_answered_is_found_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Sync);
    let mut answered = Vec::new();
    for _ in 0..30 {
        let (mut child, mut answers) = spawn_child("create", dir.path());
        answered.push(id(&next_answer(&mut answers)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let listed = store.list(usize::MAX).unwrap();
    for run_id in answered {
        assert!(listed.runs.iter().any(|summary| summary.run_id == run_id));
        let recorder = store.recover(&run_id).await.unwrap();
        recorder
            .record_durable(
                Origin::Host,
                &end(RunStatus::Interrupted, OutcomeCode::Interrupted),
            )
            .await
            .unwrap();
        assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
    }
}

#[tokio::test]
async fn c27_a_second_writer_is_refused_and_told_which_process_is_the_first() {
    let (dir, store) = relaxed();
    let (mut child, mut answers) = spawn_child("create", dir.path());
    let run_id = id(&next_answer(&mut answers));
    let refused = store.recover(&run_id).await;
    assert!(matches!(refused, Err(StoreError::Locked { pid, .. }) if pid == Some(child.id())));
    assert_eq!(store.summary(&run_id).unwrap().writer_pid, Some(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.summary(&run_id).unwrap().writer_pid, None);
    let recorder = store.recover(&run_id).await.unwrap();
    assert!(matches!(
        store.recover(&run_id).await,
        Err(StoreError::Locked { .. })
    ));
    drop(recorder);
    assert!(store.recover(&run_id).await.is_ok());
}

/// The limit on the size of files makes the kernel write the first part of a line, as a full disk
/// does.
#[tokio::test]
async fn a_short_write_is_the_end_of_the_recorder_and_loses_nothing_acknowledged() {
    let (dir, store) = relaxed();
    let (mut child, mut answers) = spawn_child("fill", dir.path());
    let run_id = id(&next_answer(&mut answers));
    let acknowledged: u64 = next_answer(&mut answers).parse().unwrap();
    assert!(child.wait().unwrap().success());
    let report = store.verify(&run_id, None).unwrap();
    assert_eq!(
        (report.verdict(), report.head.seq),
        (Verdict::Torn, acknowledged)
    );
    let recorder = store.recover(&run_id).await.unwrap();
    assert_eq!(
        recorder
            .record(Origin::Guest, &log("room again"))
            .unwrap()
            .seq,
        acknowledged + 2
    );
    assert_eq!(
        store.verify(&run_id, None).unwrap().verdict(),
        Verdict::Running
    );
}

#[tokio::test]
async fn c28_text_that_looks_like_an_event_stays_text() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let forged = format!(
        "x\"}}}}\n{}\n{{\"v\":1,\"source\":\"host\"",
        golden_lines()[5]
    );
    let forged = forged.replace(GOLDEN_ID, run_id.as_str());
    recorder.record(Origin::Guest, &log(&forged)).unwrap();
    let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert_eq!(content.lines().count(), 2);
    let page = store.read(&run_id, 1, usize::MAX).unwrap();
    let records: Vec<_> = page.records().collect();
    assert_eq!((records.len(), records[1].origin), (2, Origin::Guest));
    assert_eq!(records[1].event(), log(&forged));
}

#[test]
fn c29_every_change_to_a_chained_ledger_is_found_at_its_line() {
    let lines: Vec<String> = golden_lines()
        .iter()
        .map(|line| (*line).to_owned())
        .collect();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        lines
    };
    let edit = |line: &mut String, from: &str, to: &str| {
        assert!(line.contains(from));
        *line = line.replace(from, to);
    };
    let (dir, store) = relaxed();
    let bad_line = |content: &[String]| {
        put(&dir, (content.join("\n") + "\n").as_bytes());
        let report = store.verify(&id(GOLDEN_ID), Some(golden_head())).unwrap();
        report.corruption.map(|corruption| corruption.line)
    };
    assert_eq!(bad_line(&lines), None);
    for (name, content, expected) in [
        (
            "edit a payload",
            changed(&|l| edit(&mut l[2], "disk full", "disk fool")),
            3,
        ),
        (
            "edit the first line",
            changed(&|l| edit(&mut l[0], "triage", "triaje")),
            1,
        ),
        (
            "edit the last line",
            changed(&|l| edit(&mut l[6], "\"ok\"", "\"error\"")),
            7,
        ),
        (
            "edit an origin",
            changed(&|l| edit(&mut l[3], "\"guest\"", "\"host\"")),
            4,
        ),
        (
            "edit a link",
            changed(&|l| {
                l[3] = l[3]
                    .replace("\"prev\":\"", "\"prev\":\"0")
                    .replace("0\"}", "\"}")
            }),
            4,
        ),
        ("delete", changed(&|l| drop(l.remove(3))), 4),
        ("delete the first", changed(&|l| drop(l.remove(0))), 1),
        ("swap", changed(&|l| l.swap(2, 3)), 3),
        ("insert a copy", changed(&|l| l.insert(3, l[2].clone())), 4),
        ("append a copy", changed(&|l| l.push(l[6].clone())), 8),
        ("cut the last", changed(&|l| l.truncate(6)), 7),
        ("cut the last five", changed(&|l| l.truncate(2)), 3),
    ] {
        let found = bad_line(&content);
        // A link that no longer has 64 digits makes its line unreadable; that is its own line too.
        assert_eq!(found, Some(expected), "{name}");
    }
}

#[tokio::test]
async fn c51_a_ledger_of_the_original_system_is_read_and_never_written() {
    let (dir, store) = relaxed();
    let run_id = id(ORIGINAL_ID);
    let path = store.path_of(&run_id);
    fs::write(&path, ORIGINAL).unwrap();
    let newer = start(&store, &RunId::generate()).await;
    let listing = store.list(10).unwrap();
    let ids: Vec<&RunId> = listing.runs.iter().map(|summary| &summary.run_id).collect();
    assert_eq!(ids, [newer.run_id(), &run_id]);
    let summary = &listing.runs[1];
    assert_eq!(summary.state, RunState::Ended(RunStatus::Error));
    assert_eq!(
        (summary.skill.as_deref(), summary.is_chained),
        (Some("triage"), false)
    );
    assert_eq!(
        summary.error.as_deref(),
        Some("skill rejected: not approved")
    );
    let page = store.read(&run_id, 1, 100).unwrap();
    assert_eq!(page.records().count(), 14);
    let known = page
        .records()
        .all(|record| !matches!(record.event(), Event::Unknown { .. }));
    assert!(known);
    let report = store.verify(&run_id, None).unwrap();
    assert_eq!(
        (report.verdict(), report.head.seq, report.open),
        (Verdict::Unchained, 14, 0)
    );
    assert!(matches!(
        store.recover(&run_id).await,
        Err(StoreError::ReadOnly { .. })
    ));
    let created = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(created, Err(StoreError::ReadOnly { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), ORIGINAL);
    assert!(torn_files(dir.path()).is_empty());

    // Pairing and numbering are checked all the same, and a chain that was taken off is not excused.
    let lines: Vec<&str> = ORIGINAL.lines().collect();
    let without_call = [&lines[..2], &lines[3..]].concat().join("\n") + "\n";
    fs::write(&path, without_call).unwrap();
    assert_eq!(
        store
            .verify(&run_id, None)
            .unwrap()
            .corruption
            .unwrap()
            .line,
        3
    );
    put(&dir, ORIGINAL.replace(ORIGINAL_ID, GOLDEN_ID).as_bytes());
    let corruption = store
        .verify(&id(GOLDEN_ID), None)
        .unwrap()
        .corruption
        .unwrap();
    assert_eq!((corruption.line, corruption.damage), (1, Damage::Unchained));
}

#[tokio::test]
async fn c52_an_input_is_kept_as_it_was_spelled_on_one_line() {
    let spelled = concat!(
        r#"{"a":1e400,"b":0.10,"c":123456789012345678901234567890,"a":2,"#,
        r#""d":"\u2028\ud800\/","#,
        "\"e\":\"\u{2028}\"}"
    );
    let came = spelled.replace(',', ",\r\n\t");
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let started = RunStarted {
        skill: "echo".to_owned(),
        input: Json::from_slice(came.as_bytes()).unwrap(),
        input_digest: Some(Digest::of(came.as_bytes()).to_string()),
        ..RunStarted::default()
    };
    store.create(run_id.clone(), started.clone()).await.unwrap();
    let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert!(content.ends_with('\n') && content.matches('\n').count() == 1);
    assert!(content.contains(spelled));
    let page = store.read(&run_id, 1, 1).unwrap();
    let durability = Some(Durability::Relaxed);
    let expected = RunStarted {
        durability,
        ..started
    };
    assert_eq!(page.records().next().unwrap().event(), expected.into());
}

#[tokio::test]
async fn large_values_are_stored_beside_the_ledger_and_come_back_whole() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        let output = Json::string(&"ü".repeat(100_000));
        let (text, hostile) = ("ß\n".repeat(50_000), r#"{"blob":"0000","bytes":1}"#);
        let arguments = Json::parse(hostile).unwrap();
        let call_id = "call_1".to_owned();
        let events: [Event; 3] = [
            ToolCall {
                call_id: call_id.clone(),
                arguments,
                ..ToolCall::default()
            }
            .into(),
            ToolResult {
                call_id,
                output: Some(output),
                ..ToolResult::default()
            }
            .into(),
            log(&text),
        ];
        for event in &events {
            recorder.record(Origin::Host, event).unwrap();
        }
        let last = end(RunStatus::Ok, OutcomeCode::Ok);
        recorder.record_durable(Origin::Host, &last).await.unwrap();
        let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
        assert!(content.lines().all(|line| line.len() < 4096));
        let page = store.read(&run_id, 2, 3).unwrap();
        let stored: Vec<Event> = page.records().map(|record| record.event()).collect();
        assert_ne!(stored, events);
        let again = recorder.record(Origin::Host, &stored[2]);
        assert!(matches!(again, Err(RecordError::NotWritable { .. })));
        let whole: Vec<Event> = stored
            .into_iter()
            .map(|event| store.whole(&run_id, event).unwrap())
            .collect();
        assert_eq!(whole, events);

        let report = store.verify(&run_id, None).unwrap();
        assert_eq!((report.verdict(), report.blobs), (Verdict::Ok, 3));
        let blob = dir
            .path()
            .join(format!("{run_id}.blobs"))
            .join(Digest::of(text.as_bytes()).to_string());
        fs::write(&blob, "something else").unwrap();
        let corruption = store.verify(&run_id, None).unwrap().corruption.unwrap();
        assert_eq!(corruption.line, 4);
        fs::remove_file(&blob).unwrap();
        let report = store.verify(&run_id, None).unwrap();
        assert_eq!(
            (report.verdict(), report.blobs_missing),
            (Verdict::BlobsMissing, 1)
        );
    }
}

#[tokio::test]
async fn a_list_shows_the_newest_runs_and_whatever_is_wrong_with_them() {
    let (dir, store) = relaxed();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let run_id = RunId::generate();
        start(&store, &run_id).await;
        ids.insert(0, run_id);
    }
    fs::write(store.path_of(&ids[0]), "").unwrap();
    fs::write(
        store.path_of(&ids[1]),
        fs::read(store.path_of(&ids[2])).unwrap(),
    )
    .unwrap();
    fs::write(dir.path().join("notes.jsonl"), "{}").unwrap();
    fs::create_dir(
        dir.path()
            .join(format!("{}.jsonl", "run_00000000000070008000000000000000")),
    )
    .unwrap();
    let listing = store.list(4).unwrap();
    let shown: Vec<(&RunId, RunState)> = listing
        .runs
        .iter()
        .map(|summary| (&summary.run_id, summary.state))
        .collect();
    let expected: Vec<(&RunId, RunState)> = ids[..4]
        .iter()
        .zip([
            RunState::Corrupt,
            RunState::Corrupt,
            RunState::Running,
            RunState::Running,
        ])
        .collect();
    assert_eq!(shown, expected);
    assert!(listing.has_more);
    assert_eq!(listing.foreign, ["notes.jsonl"]);
    let all = store.list(100).unwrap();
    assert_eq!((all.runs.len(), all.has_more), (6, false));
    assert_eq!(all.runs[5].state, RunState::Corrupt);
    let unknown = RunId::generate();
    assert!(matches!(
        store.summary(&unknown),
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.recover(&unknown).await,
        Err(StoreError::NotFound { .. })
    ));
}

#[tokio::test]
async fn pages_join_without_gap_or_repeat_and_a_follower_sees_what_is_added() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    for n in 2..=10 {
        recorder
            .record(Origin::Guest, &log(&n.to_string()))
            .unwrap();
    }
    let mut page = store.read(&run_id, 3, 3).unwrap();
    let mut seqs: Vec<u64> = page.records().map(|record| record.seq).collect();
    while let Some(next) = page.next {
        page = store.follow(&run_id, next).unwrap().page(3).unwrap();
        seqs.extend(page.records().map(|record| record.seq));
    }
    assert_eq!(seqs, (3..=10).collect::<Vec<u64>>());
    let mut follower = store.follow(&run_id, Position::default()).unwrap();
    follower.skip_to(11).unwrap();
    assert!(follower.next_entry().unwrap().is_none());
    recorder.record(Origin::Guest, &log("new")).unwrap();
    assert!(
        matches!(follower.next_entry().unwrap(), Some(Entry::Record(record)) if record.seq == 11)
    );
    assert!(follower.next_entry().unwrap().is_none());
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
