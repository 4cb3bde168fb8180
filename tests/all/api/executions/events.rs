//! The events of an execution, as a client gets them.

use serde_json::json;

use super::*;
use crate::api::streams::{Frame, Watcher};

fn watch(client: &Client, id: &str, query: &str, headers: &[&str]) -> Result<Watcher, Answer> {
    let path = format!("{EXECUTIONS}/{id}/events{query}");
    Watcher::open(client.address, &path, headers)
}

/// The next events up to the one of that name.
#[track_caller]
fn up_to(watcher: &mut Watcher, name: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let frame = watcher.next_event().unwrap();
        let is_it = frame.name == name;
        frames.push(frame);
        if is_it {
            return frames;
        }
    }
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.name.as_str()).collect()
}

#[test]
fn a_client_is_told_everything_in_order_until_the_execution_has_ended() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = launch(&daemon, &plain());
    let mut watcher = watch(&daemon, &id, "", &[]).unwrap();
    let booted = up_to(&mut watcher, "boot_ready");
    assert_eq!(names(&booted), ["session_status", "boot_ready"]);
    begin(
        &daemon,
        &id,
        "echo a\nreason why\nchunks 3\nplan\nwindow 3 9\nsleep 600000",
    );
    let told = up_to(&mut watcher, "context_window");
    assert_eq!(told[0].json()["prompt_generation"], 1, "{:?}", told[0]);
    let chunks = told.iter().filter(|frame| frame.name == "message_chunk");
    let text: String = chunks
        .map(|frame| frame.json()["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(text, "a0;1;2;");
    assert_eq!(
        ask(&daemon, &id, "stop", &json!({ "reason": "enough" })).status,
        200
    );
    let rest = watcher.rest();
    let last = rest.last().unwrap();
    assert_eq!(last.name, "stopped", "{rest:?}");
    assert_eq!(last.json()["reason"], "enough");
    assert_eq!(last.json()["status"], "stopped");
    assert_eq!(last.json()["execution_id"], id);

    // Once more from the ledger: the same, each with the number of its line.
    let all = watch(&daemon, &id, "", &[]).unwrap().rest();
    let live = booted.iter().chain(&told).chain(&rest);
    assert!(all.iter().eq(live), "{all:?}");
    let seqs: Vec<u64> = all.iter().filter_map(Frame::seq).collect();
    assert_eq!(seqs.len(), all.len());
    assert!(seqs.windows(2).all(|two| two[0] < two[1]), "{seqs:?}");
    for frame in &all {
        let event = frame.json();
        assert_eq!(event["type"], frame.name.as_str());
        assert_eq!(event["seq"].as_u64(), frame.seq());
    }
}

#[test]
fn a_client_goes_on_where_it_was_or_is_told_why_not() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    turn(&daemon, &id, "echo a");
    until(&daemon, &id, "ready");
    let mut now = watch(&daemon, &id, "?after=newest", &[]).unwrap();
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    assert_eq!(now.next_event().unwrap().name, "stopped");
    assert_eq!(now.next_event(), None);
    let all = watch(&daemon, &id, "", &[]).unwrap().rest();
    for (at, frame) in all.iter().enumerate() {
        let header = format!("Last-Event-ID: {}", frame.seq().unwrap());
        let rest = watch(&daemon, &id, "?after=1", &[&header]);
        match rest {
            Ok(rest) => assert_eq!(rest.rest(), all[at + 1..], "{header}"),
            // Whoever has everything is told not to come again.
            Err(answer) => assert_eq!((answer.status, at + 1), (204, all.len())),
        }
    }
    for query in ["?after=100000", "?after=first"] {
        let frames = watch(&daemon, &id, query, &[]).unwrap().rest();
        assert_eq!(frames[0].name, "reset", "{query}");
        assert_eq!(frames[1..], all, "{query}");
    }
}

#[test]
fn a_client_is_sent_the_types_that_it_asks_for_and_the_end() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let mut watcher = watch(&daemon, &id, "?types=complete,message_chunk", &[]).unwrap();
    turn(&daemon, &id, "echo a\nreason why\necho b");
    let told = up_to(&mut watcher, "complete");
    assert_eq!(names(&told), ["message_chunk", "message_chunk", "complete"]);
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    assert_eq!(names(&watcher.rest()), ["stopped"]);
    let seq = told[2].seq().unwrap();
    for (query, expected) in [
        (
            "?types=boot_ready".to_owned(),
            vec!["boot_ready", "stopped"],
        ),
        (format!("?types=running&after={seq}"), vec!["stopped"]),
        ("?types=stopped".to_owned(), vec!["stopped"]),
    ] {
        let rest = watch(&daemon, &id, &query, &[]).unwrap().rest();
        assert_eq!(names(&rest), expected, "{query}");
    }
    for query in ["?types=", "?types=run_started", "?types=ready,lagged"] {
        let refused = watch(&daemon, &id, query, &[]).err().unwrap();
        assert_eq!(refused.status, 400, "{query}");
        assert_eq!(refused.problem(), "invalid_input", "{query}");
    }
}

/// Nobody waits for a client, and nothing is kept for it.
fn a_slow_client_is_told_and_gets_everything(backend: &str) {
    const CHUNKS: usize = 30_000;
    let home = home(&format!("[runtime]\ndefault_backend = {backend:?}\n"));
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let path = format!("{EXECUTIONS}/{id}/events");
    let mut slow = Watcher::slow(daemon.address, &path);
    up_to(&mut slow, "boot_ready");
    turn(&daemon, &id, &format!("chunks {CHUNKS}"));
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    let frames = slow.rest();
    let lagged: Vec<_> = frames
        .iter()
        .filter(|frame| frame.name == "lagged")
        .collect();
    assert!(!lagged.is_empty());
    assert!(lagged[0].json()["lines"].as_u64().unwrap() > 1_000);
    assert_eq!(lagged[0].seq(), None);
    let chunks = frames.iter().filter(|frame| frame.name == "message_chunk");
    assert_eq!(chunks.count(), CHUNKS);
    assert_eq!(frames.last().unwrap().name, "stopped");
}

#[test]
fn a_slow_client_of_an_execution_in_the_daemon_is_told_and_gets_everything() {
    a_slow_client_is_told_and_gets_everything("in-process");
}

#[test]
fn a_slow_client_of_an_execution_in_a_worker_is_told_and_gets_everything() {
    a_slow_client_is_told_and_gets_everything("subprocess");
}

#[test]
fn a_ticket_opens_the_stream_of_an_execution() {
    let home = home("[serve]\ntoken_file = \"token\"\n");
    std::fs::write(home.path().join("token"), "0123456789abcdef\n").unwrap();
    let daemon = Daemon::start(&home);
    let bearer = "Authorization: Bearer 0123456789abcdef";
    let body = plain().to_string();
    assert_eq!(daemon.post(EXECUTIONS, &plain()).status, 401);
    let launched = daemon.request("POST", EXECUTIONS, &[bearer], Some(&body));
    let id = launched.json()["id"].as_str().unwrap().to_owned();
    let refused = watch(&daemon, &id, "", &[]).err().unwrap();
    assert_eq!(refused.status, 401);
    let ticket = daemon.request("POST", "/api/stream-tickets", &[bearer], None);
    let query = format!("?ticket={}", ticket.json()["ticket"].as_str().unwrap());
    let mut watcher = watch(&daemon, &id, &query, &[]).unwrap();
    assert_eq!(watcher.next_event().unwrap().name, "session_status");
    let path = format!("{EXECUTIONS}/{id}/stop{query}");
    assert_eq!(daemon.request("POST", &path, &[], None).status, 401);
}

#[test]
fn a_quiet_stream_says_that_it_is_there() {
    let home = home("[serve]\nheartbeat_ms = 100\n");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let mut watcher = watch(&daemon, &id, "?after=newest", &[]).unwrap();
    assert_eq!(watcher.next_frame(), Some(Frame::default()));
    turn(&daemon, &id, "echo a");
    assert_eq!(up_to(&mut watcher, "complete").len(), 3);
}
