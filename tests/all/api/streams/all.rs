//! All runs.

use skillrun::ledger::RunStatus;

use super::*;

fn watch(surface: &Surface, query: &str, headers: &[&str]) -> Watcher {
    let path = format!("/api/agent/runs/events{query}");
    Watcher::open(surface.address, &path, headers).unwrap()
}

#[test]
fn what_happens_is_seen_and_a_client_that_comes_again_goes_on_where_it_was() {
    let surface = Surface::new("");
    let before = surface.begin("before");
    let mut all = watch(&surface, "", &[]);
    let one = surface.begin("one");
    let first = all.next_event().unwrap();
    assert_eq!(first.name, "run_started");
    assert_eq!(first.json()["run_id"], one.run_id().as_str());
    drop(all);
    log(&one, "while nobody watches");
    log(&before, "as well");
    complete(&one, RunStatus::Ok);
    let header = format!("Last-Event-ID: {}", first.id.unwrap());
    let mut again = watch(&surface, "", &[&header]);
    let seen: Vec<_> = (0..3).map(|_| again.next_event().unwrap()).collect();
    let mut told: Vec<_> = seen
        .iter()
        .map(|event| {
            (
                event.json()["run_id"].to_string(),
                event.json()["seq"].as_u64(),
            )
        })
        .collect();
    told.sort();
    let named = |recorder: &Recorder| format!("{:?}", recorder.run_id().as_str());
    let mut expected = [
        (named(&one), Some(2)),
        (named(&one), Some(3)),
        (named(&before), Some(2)),
    ];
    expected.sort();
    assert_eq!(told, expected);
    let mut ids: Vec<_> = seen.iter().map(|event| event.id.clone()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    log(&before, "live again");
    assert_eq!(again.next_event().unwrap().json()["seq"], 3);
}

#[test]
fn an_id_of_another_process_begins_anew_and_says_so() {
    let surface = Surface::new("");
    for id in ["3", "0123456789abcdef-0", "x-y"] {
        let mut all = watch(&surface, "", &[&format!("Last-Event-ID: {id}")]);
        assert_eq!(all.next_event().unwrap().name, "reset", "{id}");
        let run = surface.begin("next");
        let event = all.next_event().unwrap();
        assert_eq!(event.json()["run_id"], run.run_id().as_str());
    }
}

#[test]
fn a_client_sees_the_runs_and_the_types_that_it_asks_for() {
    let surface = Surface::new("");
    let known = surface.begin("known");
    let mut of_run = watch(&surface, &format!("?run={}", known.run_id()), &[]);
    let mut of_skill = watch(&surface, "?skill=wanted&types=log,run_completed", &[]);
    let (wanted, other) = (surface.begin("wanted"), surface.begin("other"));
    for recorder in [&other, &known, &wanted] {
        log(recorder, "hello");
        complete(recorder, RunStatus::Ok);
    }
    for (watcher, recorder) in [(&mut of_run, &known), (&mut of_skill, &wanted)] {
        for name in ["log", "run_completed"] {
            let event = watcher.next_event().unwrap();
            assert_eq!(event.name, name);
            assert_eq!(event.json()["run_id"], recorder.run_id().as_str());
        }
    }
    for query in ["?run=none", "?types=none", "?skil=none"] {
        let path = format!("/api/agent/runs/events{query}");
        let answer = Watcher::open(surface.address, &path, &[]).err().unwrap();
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[test]
fn whoever_does_not_read_is_told_that_events_are_missing() {
    let surface = Surface::new("");
    let path = "/api/agent/runs/events";
    let slow = ask(surface.address, path, &[], Some(4096));
    let mut slow = BufReader::new(slow);
    assert_eq!(Answer::read_head(&mut slow).status, 200);
    let mut quick = watch(&surface, "", &[]);
    let recorder = surface.begin("much");
    let run_id = recorder.run_id().to_string();
    // Some MiB more than are kept, while the other reads all of it.
    let (events, text) = (600, "x".repeat(16 * 1024));
    for seq in 1..=events {
        let event = quick.next_event().unwrap();
        assert_eq!(event.json()["seq"], seq, "{}", event.name);
        log(&recorder, &text);
    }
    let mut slow = Watcher::of(slow);
    let mut last = 0;
    let missing = loop {
        let frame = slow.next_frame().unwrap();
        if frame.name == "lagged" {
            break frame.json()["events"].as_u64().unwrap();
        }
        if frame.data.is_some() {
            last += 1;
            assert_eq!(frame.json()["seq"], last);
        }
    };
    let next = slow.next_event().unwrap();
    assert_eq!(next.json()["run_id"], run_id);
    assert_eq!(next.json()["seq"], last + missing + 1);
}
