//! One run, from its first event to its last.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use skillrun::id::RunId;
use skillrun::ledger::{Origin, RunResumed, RunStatus};

use super::super::daemon::Daemon;
use super::*;
use crate::harness::{Home, eventually};

#[test]
fn c36_clients_that_are_cut_off_after_every_event_miss_none_and_see_none_twice() {
    let surface = Surface::new("");
    let recorder = surface.begin("long");
    let run_id = recorder.run_id().clone();
    let path = format!("/api/agent/runs/{run_id}/events");
    let (clients, last) = (50, 30);
    let furthest = AtomicU64::new(0);
    let file = surface.host.store().path_of(&run_id);
    thread::scope(|scope| {
        let watching: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let mut lines = Vec::new();
                    for seq in 0..last {
                        let header = format!("Last-Event-ID: {seq}");
                        let headers = [header.as_str()];
                        let headers = if seq == 0 { &[] } else { &headers[..] };
                        let mut watcher = Watcher::open(surface.address, &path, headers).unwrap();
                        let event = watcher.next_event().unwrap();
                        assert_eq!(event.seq(), Some(seq + 1));
                        furthest.fetch_max(seq + 1, Ordering::SeqCst);
                        lines.push(event.data.unwrap());
                    }
                    lines
                })
            })
            .collect();
        // Each event happens when somebody waits for it.
        for seq in 1..last - 1 {
            eventually("a client that waits", || {
                (furthest.load(Ordering::SeqCst) >= seq).then_some(())
            });
            log(&recorder, &format!("event {seq}\r\nof many"));
        }
        complete(&recorder, RunStatus::Ok);
        for lines in watching {
            let lines = lines.join().unwrap();
            let ledger = fs::read_to_string(&file).unwrap();
            assert_eq!(lines, ledger.lines().collect::<Vec<_>>());
        }
    });
    // Whoever has everything is told not to come again.
    let header = format!("Last-Event-ID: {last}");
    let answer = Watcher::open(surface.address, &path, &[&header]);
    assert_eq!(answer.err().unwrap().status, 204);
    let rest = surface
        .watch(&run_id, &format!("?after={}", last - 1))
        .rest();
    assert_eq!(names(&rest), ["run_completed", "end"]);
    assert_eq!(
        (rest[1].json()["status"].as_str(), &rest[1].id),
        (Some("ok"), &None)
    );
    assert_eq!(rest[1].json()["code"], "ok");
}

#[test]
fn c36_an_id_that_the_run_cannot_have_had_begins_anew_and_says_so() {
    let surface = Surface::new("");
    let recorder = surface.begin("short");
    complete(&recorder, RunStatus::Ok);
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    for (query, headers, expected) in [
        ("", vec!["Last-Event-ID: 3"], "reset 1 2"),
        ("", vec!["Last-Event-ID: first"], "reset 1 2"),
        ("", vec!["Last-Event-ID: 0123456789abcdef-1"], "reset 1 2"),
        ("?after=-1", vec![], "reset 1 2"),
        ("?after=0", vec![], "1 2"),
        ("?after=1", vec![], "2"),
        ("?after=7", vec!["Last-Event-ID: 1"], "2"),
        ("?after=2", vec!["Last-Event-ID: 0"], "1 2"),
    ] {
        let watcher = Watcher::open(surface.address, &format!("{path}{query}"), &headers);
        let frames = watcher.unwrap().rest();
        let seen: Vec<String> = frames
            .iter()
            .map(|frame| frame.id.clone().unwrap_or(frame.name.clone()))
            .collect();
        assert_eq!(
            seen.join(" "),
            format!("{expected} end"),
            "{query} {headers:?}"
        );
    }
    let unknown = RunId::generate();
    let answer = Watcher::open(
        surface.address,
        &format!("/api/agent/runs/{unknown}/events"),
        &[],
    );
    assert_eq!(answer.err().unwrap().problem(), "not_found");
}

#[test]
fn only_types_that_are_asked_for_come_and_a_client_still_knows_where_it_is() {
    let surface = Surface::new("");
    let recorder = surface.begin("some");
    let run_id = recorder.run_id();
    for _ in 0..3 {
        log(&recorder, "one");
    }
    complete(&recorder, RunStatus::Ok);
    let logs = surface.watch(run_id, "?types=log,tool_call");
    let frames = logs.rest();
    assert_eq!(seqs(&frames), [2, 3, 4]);
    assert_eq!(names(&frames), ["log", "log", "log", "end"]);
    let mut others = surface.watch(run_id, "?types=denied");
    let place = others.next_frame().unwrap();
    assert_eq!((place.id.as_deref(), place.data), (Some("5"), None));
    assert_eq!(names(&others.rest()), ["end"]);
    let path = format!("/api/agent/runs/{run_id}/events");
    let ask = |query: &str| {
        let answer = Watcher::open(surface.address, &format!("{path}{query}"), &[]);
        answer.err().unwrap()
    };
    // All that would come is of other types.
    assert_eq!(ask("?types=log&after=4").status, 204);
    let answer = ask("?types=log,hologram");
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (400, "invalid_input")
    );
    let detail = answer.json()["detail"].to_string();
    assert!(
        detail.contains("hologram") && detail.contains("tool_call"),
        "{detail}"
    );
    assert_eq!(ask("?tpyes=log").problem(), "bad_request");
}

#[test]
fn a_suspended_run_is_not_over() {
    let surface = Surface::new("");
    let recorder = surface.begin("patient");
    let run_id = recorder.run_id().clone();
    complete(&recorder, RunStatus::Suspended);
    drop(recorder);
    let mut early = surface.watch(&run_id, "");
    assert_eq!(early.next_event().unwrap().seq(), Some(1));
    assert_eq!(early.next_event().unwrap().seq(), Some(2));
    // Whoever has everything so far waits as well.
    let late = surface.watch(&run_id, "?after=2");
    let store = surface.host.store();
    let recorder = surface.runtime.block_on(store.recover(&run_id)).unwrap();
    let resumed = RunResumed::default().into();
    recorder.record(Origin::Host, &resumed).unwrap();
    complete(&recorder, RunStatus::Ok);
    for watcher in [early, late] {
        assert_eq!(
            names(&watcher.rest()),
            ["run_resumed", "run_completed", "end"]
        );
    }
}

#[test]
fn what_is_no_event_is_shown_and_long_lines_come_whole() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let run_id = RunId::generate();
    let line = |seq: u64, kind: &str, payload: &str| {
        format!(
            r#"{{"v":1,"run_id":"{run_id}","seq":{seq},"time":"2026-05-13T17:02:16.049000Z",{} "type":"{kind}","source":"host","payload":{payload},"prev":"{}"}}"#,
            '\r',
            "0".repeat(64)
        )
    };
    let long = format!(r#"{{"name":"{}"}}"#, "é".repeat(700_000));
    let lines = [
        line(1, "run_started", r#"{"skill":"forged"}"#),
        line(2, "custom", &long),
        "no event".to_owned(),
        line(3, "reset", "{}"),
        line(4, "a\\nid: 7", "{}"),
        line(5, "run_completed", r#"{"status":"ok","code":"ok"}"#),
    ];
    fs::create_dir_all(home.path().join("runs")).unwrap();
    fs::write(home.ledger(run_id.as_str()), lines.join("\n") + "\n").unwrap();
    let path = format!("/api/agent/runs/{run_id}/events");
    let frames = Watcher::open(daemon.address, &path, &[]).unwrap().rest();
    let expected = [
        "run_started",
        "custom",
        "damaged",
        "unknown",
        "unknown",
        "run_completed",
        "end",
    ];
    assert_eq!(names(&frames), expected);
    assert_eq!(seqs(&frames), [1, 2, 3, 4, 5]);
    assert_eq!(frames[2].json()["line"], 3);
    for (frame, line) in frames
        .iter()
        .zip(&lines)
        .filter(|(frame, _)| frame.id.is_some())
    {
        assert_eq!(frame.data.as_ref().unwrap(), &line.replace('\r', "\n"));
    }
}

#[test]
fn a_run_of_another_process_is_watched_and_silence_is_no_end() {
    let home = Home::new(&[]);
    home.configure("[serve]\nheartbeat_ms = 100\n");
    let mut daemon = Daemon::start(&home);
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "elsewhere");
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    let open = |query: &str| Watcher::open(daemon.address, &format!("{path}{query}"), &[]).unwrap();
    let mut all = open("");
    let mut none = open("?types=denied");
    assert_eq!(all.next_event().unwrap().seq(), Some(1));
    assert_eq!(all.next_frame(), Some(Frame::default()), "a heartbeat");
    // What does not pass the filter leaves its number; the file may be read more slowly than a heart beats.
    let mut frames = std::iter::from_fn(|| none.next_frame());
    let place = frames.find(|frame| *frame != Frame::default()).unwrap();
    assert_eq!((place.id.as_deref(), place.data), (Some("1"), None));
    assert_eq!(none.next_frame(), Some(Frame::default()), "a heartbeat");
    log(&recorder, "after the silence");
    assert_eq!(all.next_event().unwrap().seq(), Some(2));
    // C38: streams end when the process does, and say why.
    daemon.signal(Signal::TERM);
    assert_eq!(names(&all.rest()), ["shutdown"]);
    assert_eq!(names(&none.rest()), ["shutdown"]);
    assert_eq!(daemon.end(), Some(0));
}
