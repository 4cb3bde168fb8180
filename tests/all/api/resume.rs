//! Runs that were cut off: what becomes of them when the daemon starts, and when they are to go on.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::ledger::{Digest, RunQuery, RunState, RunStatus, Store, StoreOptions, Summary};
use skillrun_test_artifacts::GREET;

use super::approvals::{asking, decide, ended, home, run_id, until_open};
use super::daemon::{Answer, Daemon};
use crate::harness::{Home, Running, eventually};

/// Runs of the processes that are killed, and those of them that cannot go on by themselves.
const RUNS: u64 = 20;
const NOT_RESUMABLE: u64 = 6;

fn resume(daemon: &Daemon, run_id: &str, body: &Value) -> Answer {
    daemon.post(&format!("/api/agent/runs/{run_id}/resume"), body)
}

fn start(home: &Home, id: &str, more: &[&str]) -> Running {
    let input = asking(&["Go on?"]).to_string();
    home.start(&[&["run", "probe", "--run-id", id, "--input", &input], more].concat())
}

fn kill(mut running: Running) {
    running.signal(Signal::KILL);
    running.end();
}

/// A run that was killed when it had asked.
fn killed(home: &Home, id: &str) {
    let running = start(home, id, &[]);
    home.wait_for_event(id, "approval_request");
    kill(running);
}

fn runs(home: &Home) -> Vec<Summary> {
    let store = Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    });
    store.unwrap().list(&RunQuery::newest(100)).unwrap().runs
}

#[test]
fn c25_at_readiness_no_run_goes_on_that_nobody_carries_out() {
    for on_restart in ["resume", "interrupt"] {
        let home = home(&format!(
            "[runs]\non_restart = \"{on_restart}\"\nat_once_max = 20\n"
        ));
        let ids: Vec<String> = (0..RUNS).map(run_id).collect();
        let started: Vec<Running> = ids
            .iter()
            .zip(0..)
            .map(|(id, number)| match number < NOT_RESUMABLE {
                true => start(&home, id, &["--grant", "approval"]),
                false => start(&home, id, &[]),
            })
            .collect();
        for id in &ids {
            home.wait_for_event(id, "approval_request");
        }
        started.into_iter().for_each(kill);
        let before = runs(&home);
        assert!(before.iter().all(|run| run.state == RunState::Running));

        let daemon = Daemon::start(&home);
        eventually("readiness", || {
            (daemon.get("/readyz").status == 200).then_some(())
        });
        let found = runs(&home);
        assert_eq!(found.len(), ids.len());
        let (going_on, closed): (Vec<_>, Vec<_>) =
            found.iter().partition(|run| run.state == RunState::Running);
        for run in &going_on {
            assert!(run.writer_pid.is_some(), "{on_restart}: {run:?}");
        }
        for run in &closed {
            assert_eq!(
                run.state,
                RunState::Ended(RunStatus::Interrupted),
                "{run:?}"
            );
        }
        let expected = match on_restart {
            "resume" => RUNS - NOT_RESUMABLE,
            _ => 0,
        };
        assert_eq!(going_on.len() as u64, expected, "{on_restart}");
        // Whichever of them: it is answered, and those that go on come to their end.
        for id in &ids {
            let answer = decide(&daemon, id, &json!({ "decision": "approve" }));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        for run in going_on {
            assert_eq!(ended(&home, run.run_id.as_str())["status"], "ok");
        }
    }
}

#[test]
fn a_run_that_was_cut_off_goes_on_and_one_that_has_ended_does_not() {
    let home = home("[runs]\non_restart = \"interrupt\"\n");
    let id = run_id(1);
    killed(&home, &id);
    let daemon = Daemon::start(&home);
    let resumed = resume(&daemon, &id, &json!({}));
    assert_eq!(resumed.status, 202, "{resumed:?}");
    let document = resumed.json();
    assert_eq!(document["run_id"], id.as_str());
    assert!(document.get("resumed_from").is_none(), "{document}");
    assert_eq!(
        resumed.header("location"),
        Some(&*format!("/api/agent/runs/{id}"))
    );
    let live = resume(&daemon, &id, &json!({}));
    assert_eq!((live.status, live.problem().as_str()), (409, "conflict"));
    assert_eq!(
        decide(&daemon, &id, &json!({ "decision": "approve" })).status,
        200
    );
    assert_eq!(ended(&home, &id)["status"], "ok");

    let path = format!("/api/agent/runs/{id}/resume");
    // It is off the list of those that go on a moment after its end is on record.
    let over = eventually("that it is over", || {
        let over = daemon.request("POST", &path, &["Content-Length: 0"], None);
        over.json()["detail"]
            .as_str()?
            .contains("ended")
            .then_some(over)
    });
    assert_eq!((over.status, over.problem().as_str()), (409, "conflict"));
    let told = home.skillrun(&["runs", "resume", &id, "--json"]);
    assert_eq!(
        (told.exit, &told.json()["code"]),
        (Some(1), &json!("conflict"))
    );

    let absent = resume(&daemon, &id, &json!({ "from_node": "approval#9" }));
    assert_eq!(
        (absent.status, absent.problem().as_str()),
        (404, "not_found")
    );
    let again = resume(&daemon, &id, &json!({ "from_node": "approval#1" }));
    assert_eq!(again.status, 202, "{again:?}");
    let document = again.json();
    assert_eq!(document["resumed_from"], id.as_str());
    let new = document["run_id"].as_str().unwrap();
    assert_ne!(new, id);
    until_open(&daemon, new, 1);
    assert_eq!(
        decide(&daemon, new, &json!({ "decision": "reject" })).status,
        200
    );
    let told = &ended(&home, new)["output"][0]["ok"];
    assert_eq!(told["approved"], false);
}

#[test]
fn a_refusal_names_the_grants_that_are_missing_without_their_folders() {
    let home = home("[runs]\non_restart = \"interrupt\"\n");
    let letters = home.path().join("letters");
    fs::create_dir(&letters).unwrap();
    let id = run_id(1);
    let grant = format!("fs:ro:{}=/in", letters.display());
    let running = start(&home, &id, &["--grant", &grant]);
    home.wait_for_event(&id, "approval_request");
    kill(running);
    let daemon = Daemon::start(&home);
    let denied = resume(&daemon, &id, &json!({}));
    assert_eq!((denied.status, denied.problem().as_str()), (403, "denied"));
    let text = denied.json().to_string();
    assert!(text.contains("fs:ro:*=/in"), "{text}");
    assert!(!text.contains(letters.to_str().unwrap()), "{text}");
}

#[test]
fn what_cannot_go_on_is_refused_with_the_reason() {
    let home = home("[runs]\non_restart = \"interrupt\"\n");
    let daemon = Daemon::start(&home);
    let (elsewhere, cut_off) = (run_id(1), run_id(2));
    let running = start(&home, &elsewhere, &[]);
    home.wait_for_event(&elsewhere, "approval_request");
    for (run, body, status, code) in [
        (elsewhere.as_str(), json!({}), 409, "conflict"),
        (&run_id(3), json!({}), 404, "not_found"),
        ("no-run", json!({}), 404, "not_found"),
        (&elsewhere, json!({ "from": 1 }), 400, "bad_request"),
        (&elsewhere, json!([]), 400, "bad_request"),
    ] {
        let answer = resume(&daemon, run, &body);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (status, code),
            "{run} {body}"
        );
    }
    kill(running);
    killed(&home, &cut_off);
    fs::copy(GREET.wasm, home.skill("probe").join("skill.wasm")).unwrap();
    let accepted = home.skillrun(&["skills", "pin", "probe", "--accept"]);
    assert_eq!(accepted.exit, Some(0), "{accepted:?}");
    let new = Digest::of(&fs::read(GREET.wasm).unwrap()).to_string();
    eventually("the new component", || {
        let shown = daemon.get("/api/skills/probe").json();
        (shown["skill"]["component_digest"] == new.as_str()).then_some(())
    });
    let diverged = resume(&daemon, &cut_off, &json!({}));
    assert_eq!(diverged.problem(), "diverged");
    assert_eq!(diverged.status, 422, "{diverged:?}");
    assert_eq!(diverged.json()["run_id"], cut_off.as_str());
}
