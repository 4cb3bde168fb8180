//! What takes a whole ledger: why a run ended, whether its record is in order, doing it again, and large values.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::{RUNS, accepted, long, outcome};
use crate::api::daemon::Daemon;
use crate::harness::Home;

/// A run of the probe that does so, by its id.
#[track_caller]
fn ended(daemon: &Daemon, input: &Value) -> String {
    let ended = outcome(daemon, &json!({ "skill_name": "probe", "input": input }));
    ended["run_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn refused(daemon: &Daemon, path: &str) -> (u16, String) {
    let answer = daemon.get(path);
    (answer.status, answer.problem())
}

#[test]
fn a_value_that_is_stored_beside_its_ledger_comes_whole() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let value = "<script>ü</script>".repeat(50_000);
    let run_id = ended(&daemon, &json!({ "verb": "echo", "value": value }));
    let end = &home.events_of(&run_id, "run_completed")[0]["payload"];
    let digest = end["output"]["blob"].as_str().unwrap();
    let path = format!("{RUNS}/{run_id}/blobs/{digest}");
    let answer = daemon.get(&path);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), json!(value));
    assert_eq!(
        answer.header("content-length").unwrap(),
        end["output"]["bytes"].to_string()
    );
    // A skill made it: no browser is to take it for a page of this origin.
    for (name, part) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment"),
        ("content-security-policy", "sandbox"),
        ("x-content-type-options", "nosniff"),
    ] {
        let found = answer.header(name).unwrap();
        assert!(found.contains(part), "{name}: {found}");
    }

    let other = ended(&daemon, &json!({ "verb": "noop" }));
    let nowhere = (404, "not_found".to_owned());
    assert_eq!(
        refused(&daemon, &format!("{RUNS}/{other}/blobs/{digest}")),
        nowhere
    );
    let none = "0".repeat(64);
    assert_eq!(
        refused(&daemon, &format!("{RUNS}/{run_id}/blobs/{none}")),
        nowhere
    );
    for malformed in ["7", ".new", "..%2F..%2Fconfig.toml", &"g".repeat(64)] {
        assert_eq!(
            refused(&daemon, &format!("{RUNS}/{run_id}/blobs/{malformed}")),
            nowhere
        );
    }
    let blobs = home.ledger(&run_id).with_extension("blobs");
    fs::write(blobs.join(digest), "another value").unwrap();
    assert_eq!(refused(&daemon, &path), nowhere);
}

/// As the command line does.
#[test]
fn a_run_is_explained() {
    let home = Home::new(&[PROBE]);
    home.configure("[skills.probe.limits]\nwall_time_ms = 100\n");
    let daemon = Daemon::start(&home);
    let live = accepted(&daemon.post(RUNS, &long()));
    for (run_id, cause, decided) in [
        (
            ended(&daemon, &json!({ "verb": "spin" })),
            "limit",
            "limit wall_time_ms = 100, set by skill",
        ),
        (
            ended(&daemon, &json!({ "verb": "noop" })),
            "done",
            "nothing: the run has a result",
        ),
        (
            ended(&daemon, &json!({ "verb": "trap" })),
            "guest",
            "the guest broke down; no setting changes that",
        ),
    ] {
        let told = home
            .skillrun(&["--json", "runs", "explain", &run_id])
            .json();
        let mut explanation = daemon.get(&format!("{RUNS}/{run_id}/explain")).json();
        let members = explanation.as_object_mut().unwrap();
        assert_eq!(members.remove("decided"), Some(json!(decided)));
        assert_eq!(members["cause"], cause);
        members.insert("cause".to_owned(), told["cause"].clone());
        for setting in members["settings"].as_array_mut().unwrap() {
            let change = setting.as_object_mut().unwrap().remove("change").unwrap();
            assert_eq!(
                change,
                "set skills.probe.limits.wall_time_ms to a larger value"
            );
        }
        assert_eq!(explanation, told);
    }
    let waits = daemon.get(&format!("{RUNS}/{live}/explain")).json();
    assert!(waits["status"].is_string(), "{waits}");
}

#[test]
fn a_ledger_is_verified() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let live = accepted(&daemon.post(RUNS, &long()));
    let value = "x".repeat(100_000);
    let run_id = ended(&daemon, &json!({ "verb": "echo", "value": value }));
    let verdict = |run_id: &str| daemon.get(&format!("{RUNS}/{run_id}/verify")).json();
    let good = verdict(&run_id);
    assert_eq!(
        (&good["verdict"], &good["problem"]),
        (&json!("ok"), &Value::Null)
    );
    assert_eq!(
        (&good["chained"], &good["blobs"]),
        (&json!(true), &json!(2))
    );
    assert_eq!(verdict(&live)["verdict"], "running");

    let text = fs::read_to_string(home.ledger(&run_id)).unwrap();
    fs::write(home.ledger(&run_id), text.replacen("xxx", "xyx", 1)).unwrap();
    let bad = verdict(&run_id);
    assert_eq!(
        (&bad["verdict"], &bad["line"]),
        (&json!("corrupt"), &json!(1)),
        "{bad}"
    );
    assert!(bad["problem"].as_str().unwrap().contains("line 1"), "{bad}");
    fs::write(home.ledger(&run_id), format!("{text}half a li")).unwrap();
    assert_eq!(verdict(&run_id)["verdict"], "torn");
}

#[test]
fn a_run_is_done_again_from_its_record() {
    let home = Home::new(&[PROBE]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("here.txt"), "text").unwrap();
    let folder_grant = format!("fs:ro:{}=/data", folder.path().display());
    home.write_manifest("probe", "[capabilities]\nrequest = [\"fs:ro:*=/data\"]\n");
    home.configure(&format!("[skills.probe]\ngrant = [\"{folder_grant}\"]\n"));
    let daemon = Daemon::start(&home);
    let again = |run_id: &str| daemon.post(&format!("{RUNS}/{run_id}/replay"), &json!({}));

    let run_id = ended(&daemon, &json!({ "verb": "echo", "value": [1.0] }));
    let runs = home.run_ids();
    let same = again(&run_id).json();
    assert_eq!(
        (&same["verdict"], &same["output"]),
        (&json!("same"), &json!([1.0]))
    );
    assert_eq!(same["folders_missing"], json!(["fs:ro:*=/data"]));
    assert_eq!(home.run_ids(), runs);

    // Without its folder it does something else.
    let read = json!({ "verb": "read_file", "path": "/data/here.txt" });
    let run_id = ended(&daemon, &read);
    let other = again(&run_id).json();
    assert_eq!(other["verdict"], "diverged", "{other}");
    assert!(
        other["event"].is_u64() && other["recorded"] != other["now"],
        "{other}"
    );

    let live = accepted(&daemon.post(RUNS, &long()));
    home.wait_for_event(&live, "run_started");
    let so_far = again(&live);
    assert_eq!(so_far.json()["verdict"], "same_so_far", "{so_far:?}");

    let nobody = again("run_0190a0a0a0a07000800000000000abcd");
    assert_eq!(
        (nobody.status, nobody.problem().as_str()),
        (404, "not_found")
    );
    let text = fs::read_to_string(home.ledger(&run_id)).unwrap();
    fs::write(home.ledger(&run_id), text.replacen("seed", "seeD", 1)).unwrap();
    let damaged = again(&run_id);
    assert_eq!(
        (damaged.status, damaged.problem().as_str()),
        (409, "conflict")
    );
    assert!(!String::from_utf8_lossy(&damaged.body).contains(&*home.path().to_string_lossy()));
}
