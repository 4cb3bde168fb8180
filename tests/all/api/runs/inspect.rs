//! One run and its events.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::{RUNS, outcome};
use crate::api::daemon::{Answer, Daemon};
use crate::harness::Home;

/// The events of an answer, as they are spelled there.
fn spelled(answer: &Answer) -> String {
    let text = String::from_utf8(answer.body.clone()).unwrap();
    text.split_once("\"events\":[").unwrap().1.to_owned()
}

#[test]
fn events_come_page_by_page_as_their_lines_stand_in_the_ledger() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let input = json!({ "verb": "log_flood", "lines": 30, "text": "x" });
    let ended = outcome(&daemon, &json!({ "skill_name": "probe", "input": input }));
    let run_id = ended["run_id"].as_str().unwrap();
    let path = format!("{RUNS}/{run_id}");
    let text = fs::read_to_string(home.ledger(run_id)).unwrap();
    let whole = daemon.get(&path);
    assert!(whole.json().get("next_after").is_none(), "{whole:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(spelled(&whole).starts_with(&lines.join(",")), "{whole:?}");
    let run = &whole.json()["run"];
    assert_eq!(
        (&run["run_id"], &run["status"], &run["code"]),
        (&json!(run_id), &json!("ok"), &json!("ok"))
    );
    assert_eq!(run["head"], ended["head"]);

    let (mut after, mut read) = (0, 0);
    loop {
        let page = daemon.get(&format!("{path}?after={after}&limit=7"));
        let document = page.json();
        let events = document["events"].as_array().unwrap();
        assert!(spelled(&page).starts_with(&lines[read..read + events.len()].join(",")));
        read += events.len();
        match document["next_after"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
        assert_eq!(events.len(), 7);
        assert_eq!(events[6]["seq"].as_u64(), Some(after));
    }
    assert_eq!(read, lines.len());
    let beyond = daemon.get(&format!("{path}?after=1000")).json();
    assert_eq!(beyond["events"], json!([]));
    assert!(beyond.get("next_after").is_none());
}

/// A page takes no further event when it is large.
#[test]
fn a_page_is_bounded_in_bytes() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let input = json!({ "verb": "log_flood", "lines": 60, "text": "y".repeat(60_000) });
    let ended = outcome(&daemon, &json!({ "skill_name": "probe", "input": input }));
    let path = format!("{RUNS}/{}", ended["run_id"].as_str().unwrap());
    let (mut after, mut read) = (0, 0);
    loop {
        let page = daemon.get(&format!("{path}?after={after}&limit=1000"));
        assert!(page.body.len() < 3 * 512 * 1024, "{}", page.body.len());
        read += page.json()["events"].as_array().unwrap().len();
        match page.json()["next_after"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(
        Some(u64::try_from(read).unwrap()),
        ended["head"]["seq"].as_u64()
    );
}

#[test]
fn what_is_damaged_is_shown_as_that() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let input = json!({ "verb": "log_flood", "lines": 4, "text": "x" });
    let ended = outcome(&daemon, &json!({ "skill_name": "probe", "input": input }));
    let run_id = ended["run_id"].as_str().unwrap();
    let text = fs::read_to_string(home.ledger(run_id)).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"no\":\"event\"}";
    lines[3] = "nothing";
    fs::write(home.ledger(run_id), lines.join("\n") + "\n").unwrap();
    let mut shown = Vec::new();
    let mut after = 0;
    loop {
        let page = daemon
            .get(&format!("{RUNS}/{run_id}?after={after}&limit=1"))
            .json();
        shown.extend(page["events"].as_array().unwrap().clone());
        match page["next_after"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(shown.len(), lines.len());
    let damaged: Vec<&Value> = shown
        .iter()
        .filter(|event| event.get("damaged").is_some())
        .collect();
    assert_eq!(damaged.len(), 2);
    assert_eq!(
        (&damaged[0]["line"], &damaged[1]["line"]),
        (&json!(3), &json!(4))
    );
    fs::write(home.ledger(run_id), "nothing\n").unwrap();
    let run = &daemon.get(&format!("{RUNS}/{run_id}")).json()["run"];
    assert_eq!(run["status"], "corrupt");
    assert!(run["corruption"].is_string());
}

#[test]
fn a_run_that_is_none_is_not_found() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    for id in [
        "run_0190a0a0a0a07000800000000000abcd",
        "7",
        "..%2F..%2Fetc%2Fpasswd",
        "%00",
        "run_",
        "events%20",
    ] {
        let answer = daemon.get(&format!("{RUNS}/{id}"));
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (404, "not_found"),
            "{id}"
        );
    }
    let answer = daemon.get(&format!("{RUNS}/%ff"));
    assert_eq!(answer.status, 400, "{answer:?}");
    for query in [
        "after=-1",
        "after=x",
        "limit=0",
        "limit=1001",
        "limit=",
        "other=1",
        "after=1&after=2",
    ] {
        let answer = daemon.get(&format!(
            "{RUNS}/run_0190a0a0a0a07000800000000000abcd?{query}"
        ));
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[test]
fn no_folder_of_the_machine_is_in_an_event() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"fs:ro:*=/in\"]\n");
    let folder = home.path().join("very-private");
    fs::create_dir(&folder).unwrap();
    let granted = format!("fs:ro:{}=/in", folder.display());
    home.configure(&format!("[skills.probe]\ngrant = [{granted:?}]\n"));
    let daemon = Daemon::start(&home);
    let body = json!({ "skill_name": "probe", "input": { "verb": "echo" } });
    let ended = outcome(&daemon, &body);
    let run_id = ended["run_id"].as_str().unwrap();
    let ledger = fs::read_to_string(home.ledger(run_id)).unwrap();
    assert!(ledger.contains("very-private"), "{ledger}");
    for path in ["", "/events"] {
        let answer = daemon.get(&format!("{RUNS}/{run_id}{path}"));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains("\"fs:ro:*=/in\""), "{text}");
        assert!(!text.contains("very-private"), "{text}");
        assert!(text.contains("run_completed"), "{text}");
    }
}
