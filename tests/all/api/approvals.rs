//! What runs wait for, and the answers.

use std::io::Write as _;

use rustix::process::Signal;
use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::ledger::{ApprovalRequest, Origin, Recorder, RunStarted, Store, StoreOptions};
use skillrun_test_artifacts::PROBE;

use super::daemon::{Answer, Daemon};
use crate::harness::{Home, eventually};

/// A home whose probe may ask, and call itself; `more` is the rest of its configuration.
pub(super) fn home(more: &str) -> Home {
    let home = Home::new(&[PROBE]);
    let asked = r#"["approval", "skill:probe"]"#;
    home.write_manifest("probe", &format!("[capabilities]\nrequest = {asked}\n"));
    home.configure(&format!("[capabilities]\ngrant = {asked}\n{more}"));
    home
}

fn ask(prompt: &str) -> Value {
    json!({ "call": "ask", "prompt": prompt, "payload": r#"{"n": 1.0}"# })
}

/// Asks these questions, one after the other.
pub(super) fn asking(prompts: &[&str]) -> Value {
    let calls: Vec<Value> = prompts.iter().map(|prompt| ask(prompt)).collect();
    json!({ "verb": "calls", "calls": calls })
}

/// All that runs wait for, by a query.
pub(super) fn open(daemon: &Daemon, more: &str) -> Vec<Value> {
    let answer = daemon.get(&format!("/api/approvals{more}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["approvals"].as_array().unwrap().clone()
}

/// Waits until a run waits for so many answers.
#[track_caller]
pub(super) fn until_open(daemon: &Daemon, run_id: &str, count: usize) -> Vec<Value> {
    eventually("questions", || {
        let found = daemon.get(&format!("/api/approvals?run_id={run_id}"));
        let found = match found.status {
            200 => found.json()["approvals"].as_array()?.clone(),
            _ => return None,
        };
        (found.len() == count).then_some(found)
    })
}

pub(super) fn decide(daemon: &Daemon, run_id: &str, body: &Value) -> Answer {
    daemon.post(&format!("/api/agent/runs/{run_id}/approve"), body)
}

/// How a run ended, once it has.
#[track_caller]
pub(super) fn ended(home: &Home, run_id: &str) -> Value {
    eventually("the end of a run", || {
        let last = home.events(run_id).pop()?;
        let is_over = last["type"] == "run_completed" && last["payload"]["status"] != "suspended";
        is_over.then(|| last["payload"].clone())
    })
}

pub(super) fn run_id(number: u64) -> String {
    format!("run_0190a0a0a0a07000800{number:013}")
}

/// Starts the probe in a process of its own and waits for its question.
fn start_elsewhere(home: &Home, id: &str, verb: &Value) -> crate::harness::Running {
    let running = home.start(&["run", "probe", "--run-id", id, "--input", &verb.to_string()]);
    home.wait_for_event(id, "approval_request");
    running
}

#[test]
fn c33_of_two_who_decide_one_gets_200_and_the_other_409_with_the_first_decision() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = run_id(1);
    let _running = start_elsewhere(&home, &id, &asking(&["Go on?"]));
    let gate = until_open(&daemon, &id, 1).remove(0);
    assert_eq!(gate["approval_id"], "approval#1");
    assert_eq!(gate["prompt"], "Go on?");
    assert_eq!(gate["run_id"], id.as_str());
    assert!(gate.get("decision").is_none(), "{gate}");
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let deciders: Vec<_> = (0..8)
            .map(|number| {
                let word = ["approve", "reject"][number % 2];
                let body = json!({ "decision": word, "reason": format!("by {number}") });
                let (daemon, id) = (&daemon, &id);
                scope.spawn(move || decide(daemon, id, &body))
            })
            .collect();
        deciders.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let (first, late): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.status == 200);
    let [first] = first[..] else {
        panic!("{answers:?}");
    };
    let decision = &first.json()["decision"];
    assert_eq!(decision["source"], "api");
    for answer in late {
        assert_eq!(answer.status, 409, "{answer:?}");
        assert_eq!(answer.problem(), "conflict");
        assert_eq!(&answer.json()["decision"], decision);
        assert_eq!(answer.json()["run_id"], id.as_str());
    }
    let end = ended(&home, &id);
    let told = &end["output"][0]["ok"];
    assert_eq!(told["approved"], decision["decision"] == "approve");
    assert_eq!(told["reason"], decision["reason"]);
    // Twice, and after the end.
    let again = decide(&daemon, &id, &json!({ "decision": "approve" }));
    assert_eq!(again.status, 409, "{again:?}");
    assert_eq!(&again.json()["decision"], decision);
    assert!(open(&daemon, "").is_empty());
}

#[test]
fn c33_a_question_is_the_same_after_a_restart_and_its_run_goes_on_when_it_is_answered() {
    for on_restart in ["resume", "interrupt"] {
        let more = format!(
            "[approvals]\nsuspend_after_ms = 1\n[recovery]\non_restart = \"{on_restart}\"\n"
        );
        let more = more.replace("[recovery]", "[runs]");
        let home = home(&more);
        let id = run_id(1);
        let mut running = start_elsewhere(&home, &id, &asking(&["Go on?"]));
        let before = {
            let daemon = Daemon::start(&home);
            let before = until_open(&daemon, &id, 1);
            home.wait_for_event(&id, "run_completed");
            running.signal(Signal::KILL);
            running.child().wait().unwrap();
            before
        };
        let daemon = Daemon::start(&home);
        assert_eq!(until_open(&daemon, &id, 1), before, "{on_restart}");
        let answer = decide(
            &daemon,
            &id,
            &json!({ "decision": "approve", "reason": "yes" }),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        let end = ended(&home, &id);
        assert_eq!(end["status"], "ok", "{on_restart}: {end}");
        assert_eq!(end["output"][0]["ok"]["approved"], true, "{end}");
        assert!(open(&daemon, "").is_empty());
    }
}

#[test]
fn a_run_goes_on_for_which_somebody_decided_who_is_gone() {
    const RUNS: u64 = 8;
    let home = home("[approvals]\nsuspend_after_ms = 1\n");
    let ids: Vec<String> = (0..RUNS).map(run_id).collect();
    // They are suspended, and whoever waited for them is gone.
    let started: Vec<_> = ids
        .iter()
        .map(|id| start_elsewhere(&home, id, &asking(&["Go on?"])))
        .collect();
    for (mut running, id) in started.into_iter().zip(&ids) {
        home.wait_for_event(id, "run_completed");
        running.signal(Signal::KILL);
        running.child().wait().unwrap();
    }
    home.configure(
        "[capabilities]\ngrant = [\"approval\", \"skill:probe\"]\n[runs]\non_restart = \"interrupt\"\n",
    );
    let daemon = Daemon::start(&home);
    for id in &ids {
        let send_and_go = || {
            let body = r#"{"decision":"approve"}"#;
            let mut stream = daemon.connect();
            let request = format!(
                "POST /api/agent/runs/{id}/approve HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                daemon.address,
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
        };
        // Whoever goes away too early has decided nothing.
        eventually("a decision", || {
            send_and_go();
            open(&daemon, &format!("?run_id={id}"))
                .is_empty()
                .then_some(())
        });
    }
    for id in &ids {
        let end = ended(&home, id);
        assert_eq!(end["status"], "ok", "{end}");
    }
}

/// A run that waits for two answers at once, with the recorder that keeps it from being over.
fn ask_twice(home: &Home, id: &str) -> Recorder {
    let store = Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    });
    let store = store.unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let started = store.create(id.parse().unwrap(), RunStarted::default());
        let (recorder, _) = started.await.unwrap();
        for number in 1..=2 {
            let request = ApprovalRequest {
                approval_id: format!("approval#{number}"),
                timeout_seconds: 60,
                ..ApprovalRequest::default()
            };
            let recorded = recorder.record_durable(Origin::Host, &request.into());
            recorded.await.unwrap();
        }
        recorder
    })
}

#[test]
fn which_question_is_meant_has_to_be_said_when_there_are_several() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = run_id(1);
    let _writer = ask_twice(&home, &id);
    let gates = until_open(&daemon, &id, 2);
    let yes = json!({ "decision": "approve" });
    let unclear = decide(&daemon, &id, &yes);
    assert_eq!(
        (unclear.status, unclear.problem().as_str()),
        (422, "several_pending")
    );
    let named = unclear.json()["approval_ids"].clone();
    assert_eq!(
        named,
        json!([gates[0]["approval_id"], gates[1]["approval_id"]])
    );
    for approval in named.as_array().unwrap() {
        let body = json!({ "decision": "approve", "approval_id": approval });
        assert_eq!(decide(&daemon, &id, &body).status, 200);
    }
    assert!(open(&daemon, "").is_empty());
}

#[test]
fn what_cannot_be_decided_is_refused_with_the_reason() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let (waiting, silent, absent) = (run_id(1), run_id(2), run_id(3));
    let _running = start_elsewhere(&home, &waiting, &asking(&["Go on?"]));
    let ran = home.skillrun(&[
        "run",
        "probe",
        "--run-id",
        &silent,
        "--input",
        r#"{"verb":"noop"}"#,
    ]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let yes = json!({ "decision": "approve" });
    for (run, body, status, code) in [
        (absent.as_str(), yes.clone(), 404, "not_found"),
        ("no-run", yes.clone(), 404, "not_found"),
        (&silent, yes.clone(), 404, "not_found"),
        (
            &waiting,
            json!({ "decision": "approve", "approval_id": "approval#9" }),
            404,
            "not_found",
        ),
        (&waiting, json!({ "decision": "maybe" }), 400, "bad_request"),
        (
            &waiting,
            json!({ "decision": "approve", "reson": "x" }),
            400,
            "bad_request",
        ),
        (&waiting, json!({}), 400, "bad_request"),
        (
            &waiting,
            json!({ "decision": "approve", "reason": "x".repeat(1_025) }),
            400,
            "invalid_input",
        ),
    ] {
        let answer = decide(&daemon, run, &body);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (status, code),
            "{run} {body}"
        );
    }
    for (query, status) in [
        ("?limit=0", 400),
        ("?limit=201", 400),
        ("?limit=x", 400),
        ("?cursor=x", 400),
        ("?colour=red", 400),
        ("?run_id=no-run", 404),
        (&format!("?run_id={absent}"), 404),
    ] {
        let answer = daemon.get(&format!("/api/approvals{query}"));
        assert_eq!(answer.status, status, "{query}");
        answer.problem();
    }
    assert!(open(&daemon, &format!("?run_id={silent}")).is_empty());
}

#[test]
fn all_that_runs_wait_for_is_found_page_by_page() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let ids: Vec<String> = (1..=5).map(run_id).collect();
    let _running: Vec<_> = ids
        .iter()
        .map(|id| start_elsewhere(&home, id, &asking(&["Go on?"])))
        .collect();
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = daemon
            .get(&format!("/api/approvals?limit=2{cursor}"))
            .json();
        let gates = page["approvals"].as_array().unwrap();
        assert!(gates.len() <= 2, "{page}");
        found.extend(
            gates
                .iter()
                .map(|gate| gate["run_id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    found.reverse();
    assert_eq!(found, ids);
}
