//! Runs that wait for people without an instance, and new runs that repeat the beginning of old ones.

use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::call::Effect;
use skillrun::config::{OnRestart, Recovery};
use skillrun::ledger::{ApprovalDecision, ApprovalSource, Store};
use skillrun::limits::LimitOverrides;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, NotRestarted, ResumeOptions, Started};
use skillrun::tools::Toolbox;

use super::{Bench, Parts, of_type, tool, types};
use crate::harness::eventually;

/// A bench on which whoever waits for a person is suspended at once, and runs inside others may ask.
fn bench() -> Bench {
    Bench::new(
        &[],
        Parts {
            suspend_after_ms: 1,
            granted_to_all: &["approval", "skill:probe"],
            ..Parts::default()
        },
    )
}

fn asking() -> String {
    let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": "{}" });
    json!({ "verb": "calls", "calls": [ask] }).to_string()
}

/// Runs the probe, which hands work to several of its kind at once.
async fn start(bench: &Bench, inside: &[String]) -> Started {
    let calls: Vec<_> = inside.iter().map(|input| json!(["probe", input])).collect();
    let calls = json!([{ "call": "skills", "calls": calls, "parallel_max": 4 }]);
    let verb = json!({ "verb": "calls", "calls": calls });
    let options = bench.options("probe", &verb);
    bench.runner.start(Caller::new(), options).await.unwrap()
}

/// The runs inside a run.
fn inside(bench: &Bench, run_id: &str) -> Vec<String> {
    let events = bench.events(run_id);
    let calls = of_type(&events, "tool_call").into_iter();
    let children = calls.map(|call| call["child_run_id"].as_str().unwrap().to_owned());
    children.collect()
}

/// How a run ended, the last time that it did.
fn status(bench: &Bench, run_id: &str) -> Option<String> {
    let last = bench.events(run_id).pop()?;
    Some(last["payload"]["status"].as_str()?.to_owned())
}

/// Waits until a run is in its ledger with that status.
async fn until(bench: &Arc<Bench>, run_id: &str, wanted: &'static str) {
    let (bench, run_id) = (Arc::clone(bench), run_id.to_owned());
    let look = move || status(&bench, &run_id).filter(|status| status == wanted);
    let waited = tokio::task::spawn_blocking(move || eventually(wanted, look));
    waited.await.unwrap();
}

/// Waits until the run has handed work on so often.
async fn children(bench: &Arc<Bench>, started: &Started, count: usize) -> Vec<String> {
    let (bench, run_id) = (Arc::clone(bench), started.run_id.to_string());
    let look = move || Some(inside(&bench, &run_id)).filter(|inside| inside.len() == count);
    let waited = tokio::task::spawn_blocking(move || eventually("runs inside", look));
    waited.await.unwrap()
}

fn approve(store: &Store, run_id: &str) {
    let decision = ApprovalDecision {
        approved: true,
        reason: String::new(),
        source: ApprovalSource::Api,
        option: None,
        answer: None,
    };
    store
        .decide(&run_id.parse().unwrap(), None, &decision)
        .unwrap();
}

#[tokio::test]
async fn who_cancels_a_suspended_run_cancels_those_that_wait_inside_it() {
    let bench = Arc::new(bench());
    let started = start(&bench, &[asking()]).await;
    let run_id = started.run_id.to_string();
    until(&bench, &run_id, "suspended").await;
    let child = inside(&bench, &run_id).remove(0);
    assert_eq!(status(&bench, &child).unwrap(), "suspended");
    started.handle.cancel();
    let ended = started.handle.wait().await.unwrap_err();
    assert_eq!(ended.code(), OutcomeCode::Cancelled);
    assert_eq!(status(&bench, &run_id).unwrap(), "cancelled");
    assert_eq!(status(&bench, &child).unwrap(), "cancelled");
}

#[tokio::test]
async fn a_run_that_waits_inside_one_that_works_ends_with_it() {
    let bench = Arc::new(bench());
    let sleep = json!({ "verb": "sleep", "ms": 3_600_000 }).to_string();
    let started = start(&bench, &[asking(), sleep]).await;
    let inside = children(&bench, &started, 2).await;
    until(&bench, &inside[0], "suspended").await;
    started.handle.cancel();
    let ended = started.handle.wait().await.unwrap_err();
    assert_eq!(ended.code(), OutcomeCode::Cancelled);
    bench.runner.shutdown().await;
    for child in &inside {
        assert_eq!(status(&bench, child).unwrap(), "cancelled");
    }
}

#[tokio::test]
async fn what_a_suspended_run_waits_for_is_no_wall_time_of_those_above() {
    let bench = Arc::new(bench().limited("wall_time_ms", 5_000));
    let sleep = json!({ "verb": "sleep", "ms": 7_000 }).to_string();
    let started = start(&bench, &[asking(), sleep]).await;
    let inside = children(&bench, &started, 2).await;
    // Once nothing else goes on in it, it waits without an instance as well.
    until(&bench, started.run_id.as_str(), "suspended").await;
    assert_eq!(status(&bench, &inside[1]).unwrap(), "ok");
    approve(bench.runner.store(), &inside[0]);
    let outcome = started.handle.wait().await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::Ok);
}

#[tokio::test]
async fn a_run_inside_one_that_is_over_does_not_go_on_by_itself() {
    let bench = Arc::new(bench());
    let started = start(&bench, &[asking()]).await;
    let run_id = started.run_id.to_string();
    until(&bench, &run_id, "suspended").await;
    let child = inside(&bench, &run_id).remove(0);
    bench.runner.shutdown().await;
    // As a process leaves it that was killed while it recorded the cancellation.
    let recorder = bench.runner.store().recover(&started.run_id).await.unwrap();
    let end = json!({ "status": "cancelled", "code": "cancelled" });
    let end: skillrun::ledger::RunCompleted = serde_json::from_value(end).unwrap();
    let host = skillrun::ledger::Origin::Host;
    recorder.record_durable(host, &end.into()).await.unwrap();
    drop(recorder);
    let recovery = Recovery {
        on_restart: OnRestart::Resume,
        restarts_max: 3,
    };
    let (_, recovered) = bench.runner.recover(recovery).await.unwrap();
    let [left] = &recovered[..] else {
        panic!("{recovered:?}");
    };
    assert_eq!(left.run_id.as_str(), child);
    let Err(NotRestarted::Orphaned(parent)) = &left.outcome else {
        panic!("{left:?}");
    };
    assert_eq!(*parent, started.run_id);
}

/// A bench with a tool that is called three times, and the run that did.
async fn called_thrice() -> (Bench, Value, Arc<std::sync::Mutex<Vec<Value>>>) {
    let (scripted, called) = tool("a__b", Effect::Write, &json!({}), |_| Ok(json!(1)));
    let bench = Bench::new(
        &[],
        Parts {
            tools: Toolbox::new().with_host_tool(scripted).unwrap(),
            granted_to_all: &["tool:a__b"],
            ..Parts::default()
        },
    );
    let call = json!({ "call": "tool", "name": "a__b", "arguments": "{}" });
    let (_, events) = bench.calls(json!([call, call, call])).await;
    (bench, events[0]["run_id"].clone(), called)
}

fn from_third() -> ResumeOptions {
    ResumeOptions {
        from_node: Some("tool#3".to_owned()),
        ..ResumeOptions::default()
    }
}

#[tokio::test]
async fn a_copy_that_broke_off_is_not_gone_on_with() {
    let (bench, run_id, called) = called_thrice().await;
    let old = run_id.as_str().unwrap().parse().unwrap();
    let resumed = bench.runner.resume(Caller::new(), &old, from_third()).await;
    let new = resumed.unwrap().run_id;
    assert_eq!(called.lock().unwrap().len(), 4);
    let ledger = |bench: &Bench| bench.folder.path().join(format!("runs/{new}.jsonl"));
    let text = std::fs::read_to_string(ledger(&bench)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        types(&bench.events(new.as_str()))[..6],
        [
            "run_started",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "run_resumed"
        ]
    );
    for (kept, goes_on) in [(1, false), (4, false), (5, true)] {
        let (other, _, called) = called_thrice().await;
        std::fs::write(ledger(&other), lines[..kept].join("\n") + "\n").unwrap();
        let options = ResumeOptions::default();
        let resumed = other.runner.resume(Caller::new(), &new, options).await;
        assert_eq!(resumed.is_ok(), goes_on, "{kept}: {resumed:?}");
        let made = called.lock().unwrap().len() - 3;
        assert_eq!(made, usize::from(goes_on));
    }
}

#[tokio::test]
async fn a_copy_of_which_nothing_comes_has_an_end() {
    let (bench, run_id, _) = called_thrice().await;
    let old = run_id.as_str().unwrap().parse().unwrap();
    let mut options = from_third();
    options.terms.limits = LimitOverrides::from([("no_such_limit".to_owned(), 1)]);
    let refused = bench.runner.resume(Caller::new(), &old, options).await;
    assert!(refused.is_err(), "{refused:?}");
    bench.runner.shutdown().await;
    let ledgers = std::fs::read_dir(bench.folder.path().join("runs")).unwrap();
    let names = ledgers.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ledgers: Vec<_> = names.filter(|name| name.ends_with(".jsonl")).collect();
    assert_eq!(ledgers.len(), 2);
    for name in ledgers {
        let run_id = name.strip_suffix(".jsonl").unwrap();
        assert!(["ok", "cancelled"].contains(&&*status(&bench, run_id).unwrap()));
    }
}
