//! Requests that are sent again with the same key.

use std::fs;
use std::io::{BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Barrier;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;
use skillrun_test_artifacts::{GREET, PROBE};

use super::{RUNS, accepted, long, short};
use crate::api::daemon::{Answer, Daemon};
use crate::harness::{Home, eventually};

const KEY: &str = "Idempotency-Key: a-key-that-nobody-else-has";

#[track_caller]
fn ask(daemon: &Daemon, key: &str, body: &serde_json::Value) -> Answer {
    daemon.request("POST", RUNS, &[key], Some(&body.to_string()))
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}

/// Sends the same request over a hundred connections, of which each has all but its last byte by then.
fn at_once(daemon: &Daemon) -> Vec<Answer> {
    let body = short().to_string();
    let text = format!(
        "POST {RUNS} HTTP/1.1\r\nHost: {}\r\n{KEY}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        daemon.address,
        body.len()
    );
    let (last, most) = text.as_bytes().split_last().unwrap();
    let ready = Barrier::new(100);
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = daemon.connect();
                    stream.write_all(most).unwrap();
                    ready.wait();
                    stream.write_all(&[*last]).unwrap();
                    Answer::read(&mut BufReader::new(stream))
                })
            })
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    })
}

/// Case C34: a hundred times at once, after a restart, and with another body.
#[test]
fn c34_a_key_starts_one_run() {
    let home = Home::new(&[PROBE]);
    let mut daemon = Daemon::start(&home);
    let answers = at_once(&daemon);
    let run_id = accepted(&answers[0]);
    for answer in &answers {
        assert_eq!(accepted(answer), run_id);
        assert_eq!(answer.body, answers[0].body);
    }
    let first = answers.iter().filter(|answer| !is_replayed(answer));
    assert_eq!(first.count(), 1);
    assert_eq!(home.run_ids(), [run_id.as_str()]);

    daemon.signal(Signal::TERM);
    daemon.end();
    let daemon = Daemon::start(&home);
    let again = ask(&daemon, KEY, &short());
    assert_eq!(
        (again.body == answers[0].body, is_replayed(&again)),
        (true, true),
        "{again:?}"
    );
    let waited = daemon.request(
        "POST",
        &format!("{RUNS}?wait=true"),
        &[KEY],
        Some(&short().to_string()),
    );
    assert_eq!((waited.status, is_replayed(&waited)), (200, true));
    assert_eq!(waited.json()["run_id"], run_id.as_str());

    let other = ask(&daemon, KEY, &long());
    assert_eq!(
        (other.status, other.problem().as_str()),
        (422, "key_reused")
    );
    assert_eq!(home.run_ids(), [run_id.as_str()]);

    let second = ask(&daemon, "Idempotency-Key: another", &short());
    assert_ne!(accepted(&second), run_id);
    assert!(!is_replayed(&second));
}

#[test]
fn only_digests_are_kept_and_for_nobody_else_to_read() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    accepted(&daemon.post(RUNS, &short()));
    let file = home.path().join("requests.db");
    assert!(!file.exists(), "nobody brought a key");
    accepted(&ask(&daemon, KEY, &short()));
    for name in ["requests.db", "requests.db-wal"] {
        let file = home.path().join(name);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "{name}");
        let content = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        assert!(!content.contains("a-key-that"), "{name}");
        assert!(!content.contains("noop"), "{name}");
    }
}

/// The process died after the key was claimed: either the run is there, or it is begun with the id that was
/// claimed.
#[test]
fn a_key_that_was_claimed_leads_to_its_run() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let first = ask(&daemon, KEY, &short());
    let run_id = accepted(&first);
    home.wait_for_event(&run_id, "run_completed");
    drop(daemon);
    let forget = || {
        let database = Connection::open(home.path().join("requests.db")).unwrap();
        let changed = database.execute("UPDATE requests SET started_micros = NULL", ());
        assert_eq!(changed.unwrap(), 1);
    };
    forget();
    let daemon = Daemon::start(&home);
    let again = ask(&daemon, KEY, &short());
    assert_eq!(
        (again.body == first.body, is_replayed(&again)),
        (true, true),
        "{again:?}"
    );
    drop(daemon);
    forget();
    fs::remove_file(home.ledger(&run_id)).unwrap();
    let daemon = Daemon::start(&home);
    let begun = ask(&daemon, KEY, &short());
    assert_eq!(accepted(&begun), run_id);
    assert!(!is_replayed(&begun));
    home.wait_for_event(&run_id, "run_completed");
    assert!(is_replayed(&ask(&daemon, KEY, &short())));
    assert_eq!(home.run_ids(), [run_id.as_str()]);
}

/// A ledger may be gone before the key is: nothing is done twice for that.
#[test]
fn a_run_that_was_pruned_is_not_run_again() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let first = ask(&daemon, KEY, &short());
    let run_id = accepted(&first);
    home.wait_for_event(&run_id, "run_completed");
    fs::remove_file(home.ledger(&run_id)).unwrap();
    let again = ask(&daemon, KEY, &short());
    assert_eq!(
        (again.body == first.body, is_replayed(&again)),
        (true, true),
        "{again:?}"
    );
    assert_eq!(home.run_ids(), Vec::<String>::new());
}

#[test]
fn a_refusal_frees_the_key() {
    let home = Home::new(&[PROBE]);
    home.configure("[runs]\nat_once_max = 1\nqueue_max = 0\n");
    let daemon = Daemon::start(&home);
    let unknown = json!({ "skill_name": "greet", "input": { "name": "Ada" } });
    assert_eq!(ask(&daemon, KEY, &unknown).problem(), "not_found");
    assert_eq!(ask(&daemon, KEY, &json!({})).problem(), "bad_request");
    let going_on = accepted(&daemon.post(RUNS, &long()));
    assert_eq!(ask(&daemon, KEY, &short()).problem(), "busy");
    home.install(&GREET);
    assert_eq!(
        daemon
            .post(&format!("{RUNS}/{going_on}/cancel"), &json!({}))
            .status,
        202
    );
    let answer = eventually("room, and the skill", || {
        Some(ask(&daemon, KEY, &unknown)).filter(|answer| answer.status == 202)
    });
    assert!(!is_replayed(&answer), "{answer:?}");
    assert!(is_replayed(&ask(&daemon, KEY, &unknown)));
    assert_eq!(ask(&daemon, KEY, &short()).problem(), "key_reused");
}

#[test]
fn a_database_that_is_none_refuses_keys_and_nothing_else() {
    let home = Home::new(&[PROBE]);
    let file = home.path().join("requests.db");
    let daemon = Daemon::start(&home);
    let content = "no database, and longer than the head of one would be".repeat(40);
    fs::write(&file, &content).unwrap();
    let refused = ask(&daemon, KEY, &short());
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "unavailable")
    );
    assert!(refused.json()["hint"].is_string(), "{refused:?}");
    accepted(&daemon.post(RUNS, &short()));
    assert_eq!(fs::read_to_string(&file).unwrap(), content);
    assert!(daemon.log().contains("idempotency keys cannot be used"));
    fs::remove_file(&file).unwrap();
    accepted(&ask(&daemon, KEY, &short()));
}
