use std::time::Duration;

use serde_json::{Value, json};
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::{ApprovalPolicy, OnTimeout};
use skillrun::ledger::{
    ApprovalDecision, ApprovalSource, DecideError, Delivery, Entry, Gate, Retention, Store,
};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, Started};

use super::{Bench, Parts, of_type};

fn bench(parts: Parts) -> Bench {
    Bench::new(&["approval"], parts)
}

fn ask(timeout_ms: Option<u64>) -> Value {
    json!({
        "call": "ask", "prompt": "Go on?", "payload": r#"{"n": 1.0}"#, "timeout_ms": timeout_ms,
    })
}

fn asking(timeout_ms: Option<u64>) -> Value {
    json!({ "verb": "calls", "calls": [ask(timeout_ms)] })
}

fn decision(approved: bool) -> ApprovalDecision {
    ApprovalDecision {
        approved,
        reason: "because".to_owned(),
        source: ApprovalSource::Api,
        option: None,
        answer: None,
    }
}

/// Waits until the run has a question.
async fn gate(store: &Store, started: &Started) -> Gate {
    let mut events = store.subscribe(&started.run_id, 1).unwrap();
    loop {
        events.next().await.unwrap();
        if let Some(gate) = store.gates(&started.run_id).unwrap().into_iter().next() {
            return gate;
        }
    }
}

/// Waits until the host has logged something.
async fn logged(store: &Store, started: &Started) -> String {
    let mut events = store.subscribe(&started.run_id, 1).unwrap();
    loop {
        if let Some(Delivery::Entry(Entry::Record(record))) = events.next().await.unwrap()
            && record.kind == "log"
        {
            return record.line.to_string();
        }
    }
}

async fn start(bench: &Bench, verb: &Value) -> Started {
    let options = bench.options("probe", verb);
    bench.runner.start(Caller::new(), options).await.unwrap()
}

#[tokio::test]
async fn c33_of_two_who_decide_one_is_first_and_the_other_is_told_what_was_decided() {
    let bench = bench(Parts::default());
    let store = bench.runner.store().clone();
    let started = start(&bench, &asking(None)).await;
    let asked = gate(&store, &started).await;
    assert_eq!(asked.approval_id, "approval#1");
    assert_eq!(asked.payload.as_ref().unwrap().as_str(), r#"{"n":1.0}"#);
    let run_id = started.run_id.clone();
    let decide = |approved| {
        let (store, run_id) = (store.clone(), run_id.clone());
        tokio::task::spawn_blocking(move || store.decide(&run_id, None, &decision(approved)))
    };
    let (yes, no) = tokio::join!(decide(true), decide(false));
    let (yes, no) = (yes.unwrap(), no.unwrap());
    assert!(yes.is_ok() != no.is_ok(), "{yes:?} {no:?}");
    let approved = yes.is_ok();
    let Err(DecideError::Decided { first, .. }) = (if approved { no } else { yes }) else {
        panic!("the second was not told that it is one");
    };
    assert_eq!(first, decision(approved));

    let outcome = started.handle.wait().await.unwrap();
    let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
    let expected = json!({ "approved": approved, "reason": "because", "automatic": false });
    assert_eq!(said[0]["ok"], expected);
    let again = store.decide(&run_id, Some("approval#1"), &decision(true));
    let Err(DecideError::Decided { first, .. }) = again else {
        panic!("{again:?}");
    };
    assert_eq!(first.approved, approved);

    let events = bench.events(run_id.as_str());
    let (request, response) = (
        of_type(&events, "approval_request")[0],
        of_type(&events, "approval_response")[0],
    );
    assert_eq!(request["timeout_seconds"], 86_400);
    assert_eq!(request["warn_at_seconds"], 69_120);
    assert_eq!(request["binding"].as_str().unwrap(), asked.binding);
    assert_eq!(
        (&response["approved"], &response["source"]),
        (&json!(approved), &json!("api"))
    );
    // Whoever was about to decide while the decision was recorded finds the place taken.
    let beside = || -> Vec<String> {
        let entries = std::fs::read_dir(bench.folder.path().join("runs")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.contains(run_id.as_str()))
            .collect()
    };
    assert!(
        beside().contains(&format!("{run_id}.decision-1")),
        "{:?}",
        beside()
    );
    let nothing_is_kept = Retention {
        max_runs: Some(0),
        ..Retention::default()
    };
    store.prune(nothing_is_kept, false).unwrap();
    assert!(beside().is_empty(), "{:?}", beside());
}

#[tokio::test]
async fn a_decision_is_for_one_question_of_a_run_that_waits() {
    let bench = bench(Parts::default());
    let store = bench.runner.store().clone();
    let started = start(&bench, &asking(None)).await;
    gate(&store, &started).await;
    let unknown = store.decide(&started.run_id, Some("approval#2"), &decision(true));
    assert!(matches!(unknown, Err(DecideError::NoSuchApproval { .. })));
    let long = ApprovalDecision {
        reason: "x".repeat(5000),
        ..decision(true)
    };
    let long = store.decide(&started.run_id, None, &long);
    assert!(matches!(
        long,
        Err(DecideError::ReasonTooLong { bytes: 5000 })
    ));
    started.handle.cancel();
    let run_id = started.run_id.clone();
    let ended = started.handle.wait().await.unwrap_err();
    assert_eq!(ended.code(), OutcomeCode::Cancelled);
    let over = store.decide(&run_id, None, &decision(true));
    assert!(matches!(over, Err(DecideError::Over { .. })), "{over:?}");
    let silent = bench
        .run("probe", &json!({ "verb": "noop" }))
        .await
        .unwrap();
    let none = store.decide(&silent.run_id, None, &decision(true));
    assert!(
        matches!(none, Err(DecideError::NonePending { .. })),
        "{none:?}"
    );
}

/// A value that begins as the reference to a large one is stored beside the ledger as well.
#[tokio::test]
async fn whoever_decides_is_shown_all_of_what_they_decide_about() {
    let bench = bench(Parts::default());
    let store = bench.runner.store().clone();
    let long = format!(r#"{{"blob":"{}","then":"delete"}}"#, "x".repeat(5_000));
    for payload in [&long, &format!("[{long}]")] {
        let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": payload });
        let started = start(&bench, &json!({ "verb": "calls", "calls": [ask] })).await;
        let asked = gate(&store, &started).await;
        assert_eq!(asked.payload.as_ref().unwrap().as_str(), payload);
        store
            .decide(&started.run_id, None, &decision(true))
            .unwrap();
        started.handle.wait().await.unwrap();
    }
    let large = format!(r#""{}""#, "x".repeat(64 * 1024));
    let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": large });
    let verb = json!({ "verb": "calls", "calls": [ask] });
    let outcome = bench.run("probe", &verb).await.unwrap();
    let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
    assert_eq!(said[0]["error"]["kind"], "invalid", "{said}");
    assert!(
        said.to_string().contains("expected at most 65536"),
        "{said}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_decision_about_the_question_is_no_yes_and_its_path_stays_with_the_host()
{
    let bench = bench(Parts::default());
    let store = bench.runner.store().clone();
    let runs = bench.folder.path().join("runs");
    for reason in ["x".repeat(5_000), String::new()] {
        let started = start(&bench, &asking(None)).await;
        let asked = gate(&store, &started).await;
        let is_long = !reason.is_empty();
        let filed = json!({
            "approval_id": "approval#1",
            "binding": if is_long { asked.binding } else { "of another".to_owned() },
            "approved": true,
            "reason": reason,
            "source": "cli",
        });
        let file = runs.join(format!("{}.decision-1", started.run_id));
        std::fs::write(runs.join("half"), filed.to_string()).unwrap();
        std::fs::rename(runs.join("half"), file).unwrap();
        let outcome = started.handle.wait().await.unwrap();
        let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
        let expected = json!({
            "approved": false, "reason": "cannot tell what was decided", "automatic": true,
        });
        assert_eq!(said[0]["ok"], expected);
    }
}

#[tokio::test]
async fn a_question_waits_longer_than_the_wall_time_and_is_rejected_when_its_time_is_over() {
    let clock = Clock::manual(Timestamp::from_unix_micros(0));
    let bench = bench(Parts {
        clock: clock.clone(),
        ..Parts::default()
    });
    let store = bench.runner.store().clone();
    let started = start(&bench, &asking(Some(1_000_000))).await;
    gate(&store, &started).await;
    clock.advance(Duration::from_secs(800));
    let warning = logged(&store, &started).await;
    assert!(warning.contains("waits for 800 of 1000 s"), "{warning}");
    clock.advance(Duration::from_secs(200));
    let run_id = started.run_id.clone();
    let outcome = started.handle.wait().await.unwrap();
    let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
    assert_eq!(said[0]["ok"]["approved"], false);
    assert_eq!(said[0]["ok"]["automatic"], true);
    let events = bench.events(run_id.as_str());
    let response = of_type(&events, "approval_response")[0];
    assert_eq!(response["source"], "timeout");
    assert_eq!(response["duration_micros"], 1_000_000_000);
}

#[tokio::test]
async fn a_question_that_blocks_is_open_after_its_time() {
    let clock = Clock::manual(Timestamp::from_unix_micros(0));
    let bench = bench(Parts {
        clock: clock.clone(),
        on_timeout: OnTimeout::Block,
        ..Parts::default()
    });
    let store = bench.runner.store().clone();
    let started = start(&bench, &asking(Some(1_000))).await;
    gate(&store, &started).await;
    clock.advance(Duration::from_secs(3_600));
    // It has been looked at after its time once the warning is there.
    logged(&store, &started).await;
    store
        .decide(&started.run_id, None, &decision(true))
        .unwrap();
    let outcome = started.handle.wait().await.unwrap();
    let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
    assert_eq!(said[0]["ok"]["approved"], true);
}

#[tokio::test]
async fn a_policy_answers_for_a_run_and_for_those_inside_it() {
    for (policy, approved) in [(ApprovalPolicy::Yes, true), (ApprovalPolicy::No, false)] {
        let bench = bench(Parts::default());
        let mut options = bench.options("probe", &asking(None));
        options.terms.approvals = Some(policy);
        let outcome = bench.runner.run(Caller::new(), options).await.unwrap();
        let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
        assert_eq!(said[0]["ok"]["approved"], approved);
        assert_eq!(said[0]["ok"]["automatic"], true);
        let events = bench.events(outcome.run_id.as_str());
        assert_eq!(of_type(&events, "approval_response")[0]["source"], "auto");
    }
}

#[tokio::test]
async fn a_skill_that_goes_no_further_after_a_no_ends_as_denied() {
    let bench = bench(Parts::default());
    let verb = json!({ "verb": "insist", "on": ask(None) });
    let mut options = bench.options("probe", &verb);
    options.terms.approvals = Some(ApprovalPolicy::No);
    let error = bench.runner.run(Caller::new(), options).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Denied);
    let explanation = bench
        .runner
        .store()
        .explain(error.run_id().unwrap())
        .unwrap();
    let cause = serde_json::to_value(explanation.cause).unwrap();
    assert_eq!(
        (&cause["kind"], &cause["source"]),
        (&json!("approval"), &json!("auto"))
    );

    // Saying so is not enough: nobody said no here.
    let lie = json!({ "verb": "fail", "message": "x", "code": "rejected" });
    let outcome = bench.run("probe", &lie).await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::SkillError);
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_not_asked() {
    let bench = bench(Parts::default());
    let calls = json!([
        { "call": "ask", "prompt": "x".repeat(5000), "payload": "{}", "timeout_ms": null },
        { "call": "ask", "prompt": "x", "payload": "{", "timeout_ms": null },
        { "call": "ask", "prompt": "x", "payload": "{}", "timeout_ms": 0 },
    ]);
    let (said, events) = bench.calls(calls).await;
    assert!(
        said.iter().all(|one| one["error"]["kind"] == "invalid"),
        "{said:?}"
    );
    assert!(of_type(&events, "approval_request").is_empty());
}

#[tokio::test]
async fn a_decision_that_cannot_be_read_is_a_no_that_is_on_record() {
    let bench = bench(Parts::default());
    let store = bench.runner.store().clone();
    let started = start(&bench, &asking(None)).await;
    gate(&store, &started).await;
    let name = format!("runs/{}.decision-1", started.run_id);
    std::fs::write(bench.folder.path().join(&name), "{\"approved\":true}").unwrap();
    let run_id = started.run_id.clone();
    let outcome = started.handle.wait().await.unwrap();
    let said: Value = serde_json::from_str(outcome.result.output().as_str()).unwrap();
    assert_eq!(said[0]["ok"]["approved"], false, "{said}");
    let events = bench.events(run_id.as_str());
    let response = of_type(&events, "approval_response")[0];
    assert_eq!(response["source"], "auto");
    let reason = response["reason"].as_str().unwrap();
    assert_eq!(reason, "cannot tell what was decided");
    assert_eq!(said[0]["ok"]["reason"], reason);
    assert!(bench.folder.path().join(&name).exists());
}
