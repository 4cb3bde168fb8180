//! `/metrics`, as a scraper reads it.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::approvals;
use super::daemon::{Client, Daemon};
use crate::harness::{Home, eventually};

/// The samples by name and labels, after a look at every line.
#[track_caller]
pub(super) fn samples(client: &Client) -> BTreeMap<String, f64> {
    let answer = client.get("/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    let kind = answer.header("content-type").unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(answer.body).unwrap();
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("skillrun_"), "{line}");
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "twice: {line}");
    }
    samples
}

#[test]
fn runs_ledgers_and_requests_are_counted() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let body = json!({ "skill_name": "probe", "input": { "verb": "echo" } });
    for _ in 0..3 {
        let answer = daemon.post("/api/agent/runs?wait=true", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for n in 0..20 {
        let run_id = format!("run_000000000000700080000000000000{n:02}");
        assert_eq!(daemon.get(&format!("/api/agent/runs/{run_id}")).status, 404);
        assert_eq!(daemon.get(&format!("/nothing/{n}")).status, 404);
    }
    let samples = samples(&daemon);
    let sum = |prefix: &str| -> f64 {
        let found = samples.iter().filter(|(name, _)| name.starts_with(prefix));
        found.map(|(_, value)| value).sum()
    };
    assert_eq!(samples["skillrun_runs_started_total"], 3.0, "{samples:?}");
    assert_eq!(sum("skillrun_runs_ended_total"), 3.0);
    assert_eq!(samples["skillrun_run_duration_seconds_count"], 3.0);
    assert_eq!(samples["skillrun_runs_going_on"], 0.0);
    assert!(samples["skillrun_ledger_sync_seconds_count"] >= 3.0);
    assert_eq!(samples["skillrun_ledger_available"], 1.0);
    assert_eq!(samples["skillrun_engine_components"], 1.0);
    assert_eq!(samples["skillrun_engine_instances"], 0.0);
    assert_eq!(samples["skillrun_skills{state=\"enabled\"}"], 1.0);
    let of_route = |route: &str, method: &str, status: u16| {
        let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
        samples[&format!("skillrun_http_requests_total{{{labels}}}")]
    };
    assert_eq!(of_route("/api/agent/runs", "POST", 200), 3.0);
    assert_eq!(of_route("/api/agent/runs/{id}", "GET", 404), 20.0);
    assert_eq!(of_route("none", "GET", 404), 20.0);
    assert!(samples["skillrun_process_open_fds"] > 3.0);
    assert!(samples["skillrun_process_resident_memory_bytes"] > 1_000_000.0);
}

#[test]
fn questions_are_counted_until_they_are_answered_suspended_or_not() {
    for (more, suspended) in [("", 0.0), ("[approvals]\nsuspend_after_ms = 1\n", 1.0)] {
        let home = approvals::home(more);
        let daemon = Daemon::start(&home);
        assert_eq!(samples(&daemon)["skillrun_approvals_pending"], 0.0);
        let input = approvals::asking(&["Go on?"]);
        let body = json!({ "skill_name": "probe", "input": input });
        let started = daemon.post("/api/agent/runs", &body).json();
        let run_id = started["run_id"].as_str().unwrap();
        eventually("a question", || {
            let samples = samples(&daemon);
            let is_asked = samples["skillrun_approvals_pending"] == 1.0;
            (is_asked && samples["skillrun_runs_suspended"] == suspended).then_some(())
        });
        let answer = approvals::decide(&daemon, run_id, &json!({ "decision": "approve" }));
        assert_eq!(answer.status, 200, "{answer:?}");
        eventually("nothing that is asked", || {
            (samples(&daemon)["skillrun_approvals_pending"] == 0.0).then_some(())
        });
    }
}

#[test]
fn they_need_the_token_unless_they_are_opened() {
    let home = Home::new(&[]);
    fs::write(home.path().join("token"), "0123456789abcdef").unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let daemon = Daemon::start(&home);
    assert_eq!(daemon.get("/metrics").status, 401);
    drop(daemon);
    home.configure("[serve]\ntoken_file = \"token\"\nmetrics_open = true\n");
    let daemon = Daemon::start(&home);
    assert_eq!(daemon.get("/metrics").status, 200);
    assert_eq!(daemon.get("/api/skills").status, 401);
}
