//! Commands that reach the daemon of their home.

use rustix::process::Signal;
use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::daemon::Daemon;
use crate::harness::{Home, eventually};

const SLEEP: &str = r#"{"verb":"sleep","ms":3600000}"#;

#[test]
fn a_run_of_the_daemon_is_cancelled_from_the_command_line() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let input: serde_json::Value = serde_json::from_str(SLEEP).unwrap();
    let body = json!({ "skill_name": "probe", "input": input });
    let answer = daemon.post("/api/agent/runs", &body);
    let run_id = answer.json()["run_id"].as_str().unwrap().to_owned();
    let ran = home.skillrun(&["runs", "cancel", &run_id, "--json"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(ran.json()["status"], "cancelling");
    let end = eventually("the end", || home.events_of(&run_id, "run_completed").pop());
    assert_eq!(end["payload"]["status"], "cancelled", "{end}");
    // It is off the list of those that go on a moment after its end is on record.
    let ran = eventually("a run that is over", || {
        let ran = home.skillrun(&["runs", "cancel", &run_id, "--json"]);
        (ran.exit != Some(0)).then_some(ran)
    });
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert_eq!(ran.json()["code"], "conflict");
    let tail = home.skillrun(&["runs", "tail", &run_id]);
    assert_eq!(tail.exit, Some(0), "{tail:?}");
}

#[test]
fn without_a_daemon_it_is_said_who_has_the_run() {
    let home = Home::new(&[PROBE]);
    let mut running = home.start(&["run", "probe", "--input", SLEEP, "--quiet"]);
    let run_id = eventually("the run", || home.run_ids().pop());
    home.wait_for_event(&run_id, "run_started");
    let pid = running.child().id();
    // A daemon that crashed is asked for nothing.
    let daemon = Daemon::start(&home);
    daemon.signal(Signal::KILL);
    drop(daemon);
    assert!(home.path().join("daemon.json").exists());
    let ran = home.skillrun(&["runs", "cancel", &run_id]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains(&format!("process {pid} carries out")),
        "{ran:?}"
    );
    assert!(ran.stderr.contains(&format!("kill -INT {pid}")), "{ran:?}");
    let daemon = Daemon::start(&home);
    let ran = home.skillrun(&["runs", "cancel", &run_id]);
    assert!(
        ran.stderr.contains(&format!("process {pid} carries out")),
        "{ran:?}"
    );
    drop(daemon);
    running.signal(Signal::KILL);
    running.end();
    let ran = home.skillrun(&["runs", "cancel", &run_id]);
    assert!(ran.stderr.contains("was cut off"), "{ran:?}");
    let absent = "run_00000000000070008000000000000000";
    assert_eq!(home.skillrun(&["runs", "cancel", absent]).exit, Some(5));
}
