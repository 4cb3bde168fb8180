//! Health and readiness.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::daemon::Daemon;
use crate::harness::{Home, eventually};

#[test]
fn it_is_not_ready_when_the_disk_is_short() {
    let home = Home::new(&[]);
    home.configure("[serve]\ndisk_free_bytes_min = 1_000_000_000_000_000\n");
    let daemon = Daemon::start(&home);
    let answer = daemon.get("/readyz");
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "unavailable")
    );
    let checks = &answer.json()["checks"];
    assert_eq!(
        *checks,
        json!({ "accepting": "ok", "ledgers": "ok", "disk": "failed" })
    );
    assert_eq!(daemon.get("/healthz").status, 200);
    home.configure("[serve]\ndisk_free_bytes_min = 0\n");
    daemon.signal(rustix::process::Signal::HUP);
    let answer = eventually("readiness", || {
        Some(daemon.get("/readyz")).filter(|answer| answer.status == 200)
    });
    assert_eq!(answer.json()["checks"]["disk"], "ok");
}

#[test]
fn health_is_told_while_more_guests_spin_than_there_are_threads() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let threads = std::thread::available_parallelism().unwrap().get();
    let body = json!({ "skill_name": "probe", "input": { "verb": "spin" } });
    for _ in 0..threads * 2 + 1 {
        assert_eq!(daemon.post("/api/agent/runs", &body).status, 202);
    }
    for _ in 0..20 {
        assert_eq!(daemon.get("/healthz").status, 200);
        assert_eq!(daemon.get("/readyz").status, 200);
    }
    let running = daemon.get("/api/agent/runs?status=running").json();
    assert_eq!(
        running["runs"].as_array().unwrap().len(),
        threads * 2 + 1,
        "{running}"
    );
}

#[test]
fn a_token_that_others_can_read_is_warned_of() {
    let home = Home::new(&[]);
    let token = home.path().join("token");
    fs::write(&token, "0123456789abcdef").unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\nlisten = \"0.0.0.0:1\"\n");
    let check = |bits| {
        fs::set_permissions(&token, fs::Permissions::from_mode(bits)).unwrap();
        home.skillrun(&["config", "check"])
    };
    assert!(check(0o644).stdout.contains("others than its owner"));
    assert!(!check(0o600).stdout.contains("serve."));
    let shown = home.skillrun(&["config", "show"]).stdout;
    assert!(
        shown.contains("serve.token_file") && shown.contains("serve.drain_ms"),
        "{shown}"
    );
    home.configure("[serve]\nlisten = \"0.0.0.0:1\"\n");
    let checked = home.skillrun(&["config", "check"]);
    assert_eq!(checked.exit, Some(1), "{checked:?}");
    assert!(checked.stdout.contains("there is no token"), "{checked:?}");
}
