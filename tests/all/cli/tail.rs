//! `runs tail`: events as they come, from another process than the one that runs.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};

use rustix::process::Signal;
use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::run_id;
use crate::harness::{Home, Running};

/// A run that waits until it is told to end.
fn waiting_run(home: &Home, id: &str) -> Running {
    let verb = json!({ "verb": "sleep", "ms": 3_600_000 }).to_string();
    let running = home.start(&["run", "probe", "--run-id", id, "--input", &verb]);
    home.wait_for_event(id, "run_started");
    running
}

#[test]
fn a_run_that_goes_on_is_followed_to_its_end() {
    for options in [&["--json"][..], &[]] {
        let home = Home::new(&[PROBE]);
        let id = run_id(1);
        let mut running = waiting_run(&home, &id);
        let arguments = [options, &["runs", "tail", &id]].concat();
        let mut tail = home.start(&arguments);
        let mut stdout = BufReader::new(tail.child().stdout.take().unwrap());
        let mut seen = String::new();
        stdout.read_line(&mut seen).unwrap();
        assert!(seen.contains("run_started"), "{seen}");
        assert!(running.is_alive() && tail.is_alive());

        running.signal(Signal::INT);
        assert_eq!(running.end().exit, Some(130));
        stdout.read_to_string(&mut seen).unwrap();
        let ran = tail.end();
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        if options.is_empty() {
            assert_eq!(seen.lines().count(), 2);
            assert!(seen.lines().last().unwrap().contains("run_completed"));
        } else {
            assert_eq!(seen, fs::read_to_string(home.ledger(&id)).unwrap());
        }
    }
}

#[test]
fn a_run_that_was_cut_off_is_not_waited_for() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let mut running = waiting_run(&home, &id);
    running.signal(Signal::KILL);
    running.end();
    let ran = home.skillrun(&["runs", "tail", &id]);
    assert_eq!(ran.exit, Some(130), "{ran:?}");
    assert!(ran.stdout.contains("run_started"), "{ran:?}");
    assert!(ran.stderr.contains("it was cut off"), "{ran:?}");
}

#[test]
fn a_damaged_ledger_without_an_end_is_not_waited_for() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let mut running = waiting_run(&home, &id);
    running.signal(Signal::KILL);
    running.end();
    let mut ledger = fs::read(home.ledger(&id)).unwrap();
    ledger.extend_from_slice(b"no event\n");
    fs::write(home.ledger(&id), ledger).unwrap();
    let ran = home.skillrun(&["runs", "tail", &id]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("damaged and shows no end"), "{ran:?}");
}
