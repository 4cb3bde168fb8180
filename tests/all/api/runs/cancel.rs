//! How a run is cancelled.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::{RUNS, accepted, count, long, outcome, short, status};
use crate::api::daemon::{Answer, Daemon};
use crate::api::metrics::samples;
use crate::harness::{Home, eventually};

#[track_caller]
fn cancel(daemon: &Daemon, run_id: &str) -> Answer {
    daemon.request("POST", &format!("{RUNS}/{run_id}/cancel"), &[], None)
}

/// A run that is in the middle of what it does once it has entered a step.
fn within_a_step(then: &Value) -> Value {
    json!({ "skill_name": "probe", "input": { "verb": "in_node", "name": "n", "then": then } })
}

/// Case C5: in a loop, and in a call of the host.
#[test]
fn c5_a_run_is_cancelled_in_the_middle_of_what_it_does() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    for verb in [
        json!({ "verb": "spin" }),
        json!({ "verb": "sleep", "ms": 600_000 }),
    ] {
        let run_id = accepted(&daemon.post(RUNS, &within_a_step(&verb)));
        home.wait_for_event(&run_id, "node_enter");
        let answer = cancel(&daemon, &run_id);
        assert_eq!(
            (answer.status, &answer.json()["run_id"]),
            (202, &json!(run_id)),
            "{answer:?}"
        );
        home.wait_for_event(&run_id, "run_completed");
        let events = home.events(&run_id);
        let end = &events.last().unwrap();
        assert_eq!(end["type"], "run_completed", "{verb}");
        assert_eq!(
            (&end["payload"]["status"], &end["payload"]["code"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
        // The process goes on with other runs, and nothing more comes of this one.
        assert_eq!(outcome(&daemon, &short())["code"], "ok");
        assert_eq!(home.events(&run_id).len(), events.len(), "{verb}");
        let late = eventually("a run that is over", || {
            Some(cancel(&daemon, &run_id)).filter(|answer| answer.status != 202)
        });
        assert_eq!((late.status, late.problem().as_str()), (409, "conflict"));
        assert!(
            late.json()["detail"]
                .as_str()
                .unwrap()
                .contains("cancelled"),
            "{late:?}"
        );
    }
}

/// Case C6, as far as it is the surface's: a bounded queue, a hundred cancelled in mid-call, and room afterwards.
#[test]
fn c6_two_hundred_runs_at_once_and_a_hundred_cancelled() {
    let home = Home::new(&[PROBE]);
    home.configure("[runs]\nat_once_max = 110\nqueue_max = 90\n");
    let daemon = Daemon::start(&home);
    let body = within_a_step(&json!({ "verb": "sleep", "ms": 600_000 }));
    let busy = AtomicUsize::new(0);
    let start = || {
        let answers = (0..21).map(|_| daemon.post(RUNS, &body));
        let (taken, sent_away): (Vec<_>, Vec<_>) = answers.partition(|answer| answer.status == 202);
        for answer in &sent_away {
            assert_eq!((answer.status, answer.problem().as_str()), (429, "busy"));
        }
        busy.fetch_add(sent_away.len(), Ordering::Relaxed);
        taken.iter().map(accepted).collect::<Vec<_>>()
    };
    let runs: Vec<String> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..10).map(|_| scope.spawn(start)).collect();
        starts
            .into_iter()
            .flat_map(|start| start.join().unwrap())
            .collect()
    });
    assert_eq!((runs.len(), busy.load(Ordering::Relaxed)), (200, 10));
    assert_eq!(count(&daemon, "running"), 200);

    let is_within = |run_id: &&String| !home.events_of(run_id, "node_enter").is_empty();
    let within = eventually("runs in mid-call", || {
        let within: Vec<&String> = runs.iter().filter(is_within).collect();
        (within.len() >= 110).then_some(within)
    });
    for run_id in &within[..100] {
        assert_eq!(cancel(&daemon, run_id).status, 202);
    }
    eventually("a hundred that are cancelled", || {
        (count(&daemon, "cancelled") == 100).then_some(())
    });
    assert_eq!(count(&daemon, "running"), 100);
    for run_id in runs.iter().filter(|run_id| !within[..100].contains(run_id)) {
        assert_eq!(cancel(&daemon, run_id).status, 202);
    }
    eventually("nothing that goes on", || {
        (count(&daemon, "running") == 0).then_some(())
    });
    assert_eq!(count(&daemon, "cancelled"), 200);
    // An end is on record a moment before the run is let go.
    eventually("gauges that are back at 0", || {
        let samples = samples(&daemon);
        let gauges = ["runs_going_on", "runs_queued", "engine_instances"];
        let is_back = |gauge: &&str| samples[&format!("skillrun_{gauge}")] == 0.0;
        gauges.iter().all(is_back).then_some(())
    });
    assert_eq!(outcome(&daemon, &short())["code"], "ok");
}

#[test]
fn a_run_that_waits_for_its_turn_is_cancelled() {
    let home = Home::new(&[PROBE]);
    home.configure("[runs]\nat_once_max = 1\n");
    let daemon = Daemon::start(&home);
    let first = accepted(&daemon.post(RUNS, &long()));
    let queued = accepted(&daemon.post(RUNS, &long()));
    assert_eq!(cancel(&daemon, &queued).status, 202);
    home.wait_for_event(&queued, "run_completed");
    let end = &home.events_of(&queued, "run_completed")[0];
    assert_eq!(end["payload"]["code"], "cancelled");
    assert_eq!(home.events(&queued).len(), 2);
    assert_eq!(status(&daemon, &first), "running");
}

#[test]
fn a_run_that_waits_for_people_is_cancelled() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"approval\"]\n");
    home.configure("[capabilities]\ngrant = [\"approval\"]\n[approvals]\nsuspend_after_ms = 1\n");
    let daemon = Daemon::start(&home);
    let ask = json!({ "verb": "calls", "calls": [{ "call": "ask", "prompt": "go on?", "payload": "{}" }] });
    let run_id = accepted(&daemon.post(RUNS, &json!({ "skill_name": "probe", "input": ask })));
    eventually("a run that is suspended", || {
        (status(&daemon, &run_id) == "suspended").then_some(())
    });
    assert_eq!(cancel(&daemon, &run_id).status, 202);
    eventually("a run that is cancelled", || {
        (status(&daemon, &run_id) == "cancelled").then_some(())
    });
    let late = eventually("a run that is over", || {
        Some(cancel(&daemon, &run_id)).filter(|answer| answer.status != 202)
    });
    assert_eq!((late.status, late.problem().as_str()), (409, "conflict"));
}

#[test]
fn a_run_that_is_not_carried_out_here_is_not_cancelled() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    for id in ["run_0190a0a0a0a07000800000000000abcd", "7", "%20"] {
        let answer = cancel(&daemon, id);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (404, "not_found"),
            "{id}"
        );
    }
    let ended = outcome(&daemon, &short());
    let over = eventually("a run that is over", || {
        let answer = cancel(&daemon, ended["run_id"].as_str().unwrap());
        (answer.status != 202).then_some(answer)
    });
    assert_eq!((over.status, over.problem().as_str()), (409, "conflict"));
    assert!(
        over.json()["detail"]
            .as_str()
            .unwrap()
            .ends_with("its status is ok"),
        "{over:?}"
    );

    let input = long()["input"].to_string();
    let id = "run_0190a0a0a0a07000800000000000abce";
    let elsewhere = home.start(&["run", "probe", "--run-id", id, "--input", &input]);
    home.wait_for_event(id, "run_started");
    let answer = cancel(&daemon, id);
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (409, "conflict"),
        "{answer:?}"
    );
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.ends_with("is carried out by another process"),
        "{detail}"
    );
    drop(elsewhere);
    let gone = eventually("nobody", || {
        let detail = cancel(&daemon, id).json()["detail"]
            .as_str()
            .unwrap()
            .to_owned();
        detail.contains("cut off").then_some(detail)
    });
    assert!(gone.contains(id));
}
