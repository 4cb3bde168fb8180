//! Runs whose process is gone, as the next one finds them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::{OnRestart, Recovery};
use skillrun::id::RunId;
use skillrun::ledger::{RunState, RunStatus, Store};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, NotRestarted, ResumeOptions};
use tokio::sync::Semaphore;

use super::library::{
    LATER, Library, Parts, ask, call_tool, calls, eventually, gated, hand_over, options, runner_in,
    said, start, yes,
};

const CHILD_HOME: &str = "SKILLRUN_TEST_RESUME_HOME";
/// Runs of the process that is killed that are inside no other, and those of them that have one inside.
const RUNS: usize = 20;
const WITH_ONE_INSIDE: usize = 5;
const ROOM: &str = "[runs]\nat_once_max = 24\nnested_max = 16\n";

fn with_one_inside(n: usize) -> bool {
    n < WITH_ONE_INSIDE
}

fn verb(n: usize) -> Value {
    let noted = json!({ "call": "noted", "verb": { "verb": "ambient" } });
    match with_one_inside(n) {
        true => calls(&[noted.clone(), hand_over(&calls(&[noted, ask(None)]))]),
        false => calls(&[noted, ask(None)]),
    }
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn child() {
    let Ok(home) = std::env::var(CHILD_HOME) else {
        return;
    };
    let runner = runner_in(Path::new(&home), Parts::default());
    for n in 0..RUNS {
        let started = start(&runner, &verb(n)).await;
        eprintln!("{}", started.run_id);
    }
    std::future::pending().await
}

/// The runs of a process that was killed when each of them had asked its question.
fn killed(library: &Library) -> Vec<RunId> {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::child")])
        .env(CHILD_HOME, library.home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let lines = lines.take(RUNS).map(|line| line.unwrap().parse().unwrap());
    let runs: Vec<RunId> = lines.collect();
    assert_eq!(runs.len(), RUNS);
    crate::harness::eventually("all questions", || {
        let ids = library.home.run_ids();
        let asked = |id: &&String| !library.payloads(id, "approval_request").is_empty();
        (ids.iter().filter(asked).count() == RUNS).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    runs
}

fn recovery(on_restart: OnRestart, restarts_max: u64) -> Recovery {
    Recovery {
        on_restart,
        restarts_max,
    }
}

fn state(store: &Store, run_id: &RunId) -> (RunState, Option<u32>) {
    let summary = store.summary(run_id).unwrap();
    (summary.state, summary.writer_pid)
}

#[tokio::test]
async fn c25_no_run_of_a_process_that_is_gone_seems_to_go_on() {
    let library = Library::new(ROOM);
    let runs = killed(&library);
    let all: Vec<RunId> = library
        .home
        .run_ids()
        .iter()
        .map(|id| id.parse().unwrap())
        .collect();
    assert_eq!(all.len(), RUNS + WITH_ONE_INSIDE);
    let runner = library.runner(Parts::default());

    let (closed, left) = runner
        .recover(recovery(OnRestart::Interrupt, 3))
        .await
        .unwrap();
    assert_eq!(closed.len(), all.len());
    assert!(closed.iter().all(|run| run.closed.is_ok()), "{closed:?}");
    for run_id in &all {
        let interrupted = RunState::Ended(RunStatus::Interrupted);
        assert_eq!(state(runner.store(), run_id), (interrupted, None));
    }
    for one in &left {
        let is_inside = !runs.contains(&one.run_id);
        let is_said = match &one.outcome {
            Err(NotRestarted::Configured) => !is_inside,
            Err(NotRestarted::Inside(_)) => is_inside,
            _ => false,
        };
        assert!(is_said, "{one:?}");
    }
    assert_eq!(left.len(), all.len());

    let (closed, recovered) = runner
        .recover(recovery(OnRestart::Resume, 3))
        .await
        .unwrap();
    assert!(closed.is_empty(), "{closed:?}");
    let mut handles = Vec::new();
    for one in recovered {
        match one.outcome {
            Ok(started) => handles.push(started),
            Err(NotRestarted::Inside(parent)) => assert!(runs.contains(&parent)),
            Err(other) => panic!("{other:?}"),
        }
    }
    let gone_on: BTreeSet<_> = handles.iter().map(|started| &started.run_id).collect();
    assert_eq!(gone_on, runs.iter().collect());
    for run_id in &runs {
        let ours = Some(std::process::id());
        assert_eq!(state(runner.store(), run_id), (RunState::Running, ours));
    }
    for run_id in &all {
        if !library.payloads(run_id, "approval_request").is_empty() {
            runner.store().decide(run_id, None, &yes()).unwrap();
        }
    }
    for started in handles {
        let outcome = started.handle.wait().await.unwrap();
        assert_eq!(outcome.code, OutcomeCode::Ok, "{outcome:?}");
    }
    for run_id in &all {
        assert_eq!(library.ends(run_id), ["interrupted", "ok"]);
        assert_eq!(library.payloads(run_id, "log").len(), 1);
        let reason = &library.payloads(run_id, "run_resumed")[0]["reason"];
        let is_inside = !runs.contains(run_id);
        assert_eq!(reason, if is_inside { "parent" } else { "restart" });
        library.verifies(run_id);
    }
}

#[test]
fn c25_the_command_line_goes_on_with_every_run_of_a_process_that_is_gone() {
    let library = Library::new(ROOM);
    let runs = killed(&library);
    library.configure(&format!("{ROOM}[approvals]\npolicy = \"yes\""));
    let ran = library
        .home
        .skillrun(&["runs", "recover", "--resume", "--json"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let told = ran.json();
    let told = told["runs"].as_array().unwrap();
    for run in told {
        let is_inside = !runs.iter().any(|id| run["run_id"] == id.as_str());
        let expected = match is_inside {
            true => (json!("left"), Value::Null),
            false => (json!("ended"), json!("ok")),
        };
        assert_eq!((run["status"].clone(), run["code"].clone()), expected);
    }
    assert_eq!(told.len(), RUNS + WITH_ONE_INSIDE);
    let store = library.store(&Clock::system());
    for run_id in library.home.run_ids() {
        let run_id = run_id.parse().unwrap();
        let ok = RunState::Ended(RunStatus::Ok);
        assert_eq!(state(&store, &run_id), (ok, None));
    }
}

#[tokio::test]
async fn a_run_goes_on_by_itself_no_more_often_than_the_cap() {
    let library = Library::new(LATER);
    let run_id = library
        .interrupted(Parts::default(), options(&calls(&[ask(None)])))
        .await;
    for restarts in 0..3 {
        let runner = library.runner(Parts::default());
        let recovered = runner
            .recover(recovery(OnRestart::Resume, 2))
            .await
            .unwrap()
            .1;
        let [one] = <[_; 1]>::try_from(recovered).unwrap();
        assert_eq!(one.run_id, run_id);
        match one.outcome {
            Ok(_) => assert!(restarts < 2),
            Err(NotRestarted::TooOften {
                restarts: 2,
                restarts_max: 2,
            }) => assert_eq!(restarts, 2),
            Err(other) => panic!("{other:?}"),
        }
        runner.shutdown().await;
    }
    assert_eq!(library.payloads(&run_id, "run_resumed").len(), 2);
    // Whoever asks for it can have it once more.
    let outcome = library.resumed(Parts::default(), &run_id).await;
    assert_eq!(said(&outcome)[0]["ok"]["approved"], true);
}

/// Two runs, of which one stops before a call that may have had its effect, and the other does something
/// else than what is on record.
async fn stopped(library: &Library, file: &Path) -> [(RunId, OutcomeCode); 2] {
    let read = json!({ "verb": "read_file", "path": "/data/a.txt" });
    let verb = calls(&[json!({ "call": "noted", "verb": read }), ask(None)]);
    fs::write(file, "one").unwrap();
    let diverged = library.interrupted(Parts::default(), options(&verb)).await;
    fs::write(file, "two").unwrap();
    let ambiguous = cut_in_a_call(library).await;
    let runs = [
        (ambiguous, OutcomeCode::AmbiguousCall),
        (diverged, OutcomeCode::Diverged),
    ];
    let runner = library.runner(Parts::default());
    for (run_id, code) in &runs {
        let stopped = runner.resume(Caller::new(), run_id, ResumeOptions::default());
        assert_eq!(stopped.await.unwrap_err().code(), *code);
    }
    runs
}

/// A run that was interrupted in a call that may have had its effect.
async fn cut_in_a_call(library: &Library) -> RunId {
    let runner = library.runner(gated(&Arc::new(Semaphore::new(0))));
    let started = start(&runner, &calls(&[call_tool("a__wait", &json!({}))])).await;
    let called = || library.payloads(&started.run_id, "tool_call").pop();
    eventually("the call", called).await;
    runner.shutdown().await;
    started.run_id
}

#[tokio::test]
async fn a_run_that_stopped_for_a_reason_is_left_with_it() {
    let data = tempfile::tempdir().unwrap();
    let grant = format!(
        "[skills.probe]\ngrant = [\"fs:ro:{}=/data\"]",
        data.path().display()
    );
    let library = Library::new(&format!("{LATER}{grant}"));
    let runs = stopped(&library, &data.path().join("a.txt")).await;
    let ledgers = || runs.each_ref().map(|(run_id, _)| library.ledger(run_id));
    let before = ledgers();
    let runner = library.runner(Parts::default());
    let left = runner
        .recover(recovery(OnRestart::Resume, 3))
        .await
        .unwrap()
        .1;
    assert_eq!(left.len(), 2);
    for one in left {
        let Err(NotRestarted::Stopped(code)) = one.outcome else {
            panic!("{one:?}");
        };
        assert!(runs.contains(&(one.run_id, code)));
    }
    assert_eq!(ledgers(), before);
}
