//! Tickets, for clients that cannot send a token.

use super::super::daemon::Daemon;
use super::*;
use crate::harness::Home;

const BEARER: &str = "Authorization: Bearer 0123456789abcdef";

#[test]
fn a_ticket_opens_one_stream_and_nothing_else() {
    let home = Home::new(&[]);
    std::fs::write(home.path().join("token"), "0123456789abcdef\n").unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let daemon = Daemon::of(&home, command.env("SKILLRUN_LOG", "debug"));
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "watched");
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    let refused = |path: &str| {
        let answer = Watcher::open(daemon.address, path, &[]).err().unwrap();
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.problem(), "unauthorized", "{path}");
    };
    refused(&path);
    refused("/api/agent/runs/events");
    let answer = daemon.request("POST", "/api/stream-tickets", &[], None);
    assert_eq!(answer.status, 401);
    let answer = daemon.request("POST", "/api/stream-tickets", &[BEARER], None);
    assert_eq!(answer.status, 201);
    let ticket = answer.json()["ticket"].as_str().unwrap().to_owned();
    assert!(answer.json()["expires_at"].as_str().unwrap().ends_with('Z'));
    let with_ticket = |path: &str| format!("{path}?ticket={ticket}");

    refused(&with_ticket("/api/skills"));
    refused(&with_ticket(&format!(
        "/api/agent/runs/{}",
        recorder.run_id()
    )));
    refused(&format!(
        "{path}?ticket={}",
        ticket.replace(&ticket[..1], "-")
    ));
    // Twice, as a browser that lost its connection asks.
    for _ in 0..2 {
        let mut watcher = Watcher::open(daemon.address, &with_ticket(&path), &[]).unwrap();
        assert_eq!(watcher.next_event().unwrap().seq(), Some(1));
    }
    refused(&with_ticket("/api/agent/runs/events"));
    let posted = daemon.request("POST", &with_ticket("/api/stream-tickets"), &[], None);
    assert_eq!(posted.status, 401);
    // A token is enough, and is looked at first.
    Watcher::open(daemon.address, &path, &[BEARER]).unwrap();
    let wrong = ["Authorization: Bearer wrong"];
    let answer = Watcher::open(daemon.address, &with_ticket(&path), &wrong);
    assert_eq!(answer.err().unwrap().status, 401);
    assert!(!daemon.log().contains(&ticket));
}
