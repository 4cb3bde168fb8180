//! What is left of a run when the process or the client goes away.

use std::io::Write as _;

use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::{RUNS, accepted, count, long};
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

/// How often the process is killed.
const KILLS: usize = 30;

/// Case C24: what was answered is on record, whatever happens right after the answer.
#[test]
fn c24_a_run_that_was_answered_is_found_after_a_kill() {
    let home = Home::new(&[PROBE]);
    let mut answered = Vec::new();
    for _ in 0..KILLS {
        let daemon = Daemon::start(&home);
        let answer = daemon.post(RUNS, &long());
        // This is the kill: nothing of the process runs after it.
        drop(daemon);
        answered.push((accepted(&answer), answer.json()["started_at"].clone()));
    }
    let daemon = Daemon::start(&home);
    for (run_id, started_at) in &answered {
        let found = daemon.get(&format!("{RUNS}/{run_id}"));
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(&found.json()["run"]["started_at"], started_at, "{found:?}");
        assert_eq!(found.json()["events"][0]["type"], "run_started");
    }
    assert_eq!(home.run_ids().len(), KILLS);
}

/// Case C39: whoever asked goes away, and the run goes on.
#[test]
fn c39_a_run_goes_on_without_its_client() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let body =
        json!({ "skill_name": "probe", "input": { "verb": "sleep", "ms": 300 } }).to_string();
    let ask = |query: &str| {
        let mut stream = daemon.connect();
        let text = format!(
            "POST {RUNS}{query} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            daemon.address,
            body.len()
        );
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    for query in ["", "?wait=true"] {
        let before = home.run_ids().len();
        let stream = ask(query);
        eventually("a run on record", || {
            (home.run_ids().len() > before).then_some(())
        });
        drop(stream);
    }
    // Some of these go away before the run is on record, and some while it is written.
    for _ in 0..20 {
        drop(ask("?wait=true"));
    }
    assert_eq!(daemon.get(RUNS).status, 200);
    // Those of which the last is read late begin late.
    eventually("runs that all end well", || {
        let ended = count(&daemon, "ok");
        (ended >= 2 && ended == home.run_ids().len()).then_some(())
    });
}
