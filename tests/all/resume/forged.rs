//! Ledgers that somebody changed or made up, and runs that are resumed from them.

use std::fs;

use serde_json::{Value, json};
use skillrun::ledger::Digest;
use skillrun_test_artifacts::{GREET, PROBE};

use super::killable::Killable;
use crate::harness::{Home, Ran};

const RUN_ID: &str = "run_0190a0a0a0a070008000000000000001";
const FOREIGN_ID: &str = "run_0190a0a0a0a070008000000000000002";
const MANIFEST: &str = "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"skill:probe\", \"tool:tickets__*\"]\n";

/// A home whose `probe` may hand work to itself.
fn home() -> Home {
    let home = Home::new(&[PROBE, GREET]);
    home.write_manifest("probe", MANIFEST);
    home.configure("[capabilities]\ngrant = [\"skill:probe\"]\n");
    home
}

fn run(home: &Home, skill: &str, run_id: &str, input: &Value) {
    let input = input.to_string();
    let words = [
        "run", skill, "--json", "--run-id", run_id, "--input", &input,
    ];
    let ran = home.skillrun(&words);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

/// Puts these events in place of a run's ledger, with a chain that holds.
fn forge(home: &Home, run_id: &str, events: &[Value]) {
    let (mut text, mut prev) = (String::new(), "0".repeat(64));
    for (event, number) in events.iter().zip(1..) {
        let mut event = event.clone();
        event["seq"] = json!(number);
        event["prev"] = json!(prev);
        let line = event.to_string();
        prev = Digest::of(line.as_bytes()).to_string();
        text.push_str(&line);
        text.push('\n');
    }
    fs::write(home.ledger(run_id), text).unwrap();
}

/// The first events of a run that hands work to `probe`, up to that call.
fn handing_over(home: &Home) -> Vec<Value> {
    let input = json!({ "verb": "echo", "value": "inside" }).to_string();
    let call = json!({ "call": "skill", "skill": "probe", "input": input });
    let input = json!({ "verb": "calls", "calls": [call] });
    run(home, "probe", RUN_ID, &input);
    let mut events = home.events(RUN_ID);
    events.truncate(2);
    assert_eq!(events[1]["type"], "tool_call");
    events
}

fn resume(home: &Home, more: &[&str]) -> Ran {
    let resume = ["runs", "resume", RUN_ID, "--json"];
    home.skillrun(&[&resume[..], more].concat())
}

/// A run that is named as one inside another, and is not, is neither read nor taken up.
#[test]
fn a_run_of_somebody_else_gives_no_answer() {
    let home = home();
    run(&home, "greet", FOREIGN_ID, &json!({ "name": "Ada" }));
    let mut events = handing_over(&home);
    events[1]["payload"]["child_run_id"] = json!(FOREIGN_ID);
    let whole = home.events(FOREIGN_ID);
    for foreign in [&whole[..], &whole[..1]] {
        forge(&home, FOREIGN_ID, foreign);
        forge(&home, RUN_ID, &events);
        let before = fs::read(home.ledger(FOREIGN_ID)).unwrap();
        let ran = resume(&home, &[]);
        assert_eq!(ran.json()["code"], "ambiguous_call", "{ran:?}");
        let ran = resume(&home, &["--retry-ambiguous"]);
        assert_eq!(
            ran.json()["output"],
            json!([{ "ok": "\"inside\"" }]),
            "{ran:?}"
        );
        assert_eq!(fs::read(home.ledger(FOREIGN_ID)).unwrap(), before);

        // The run that was begun instead is on record.
        let calls = home.events_of(RUN_ID, "tool_call");
        let begun = calls.last().unwrap()["payload"]["child_run_id"].clone();
        assert_eq!(calls.len(), 2);
        assert_ne!(begun, FOREIGN_ID);
        assert_eq!(
            home.events(begun.as_str().unwrap())[0]["payload"]["parent_run_id"],
            RUN_ID
        );
    }
}

/// Each is looked into once.
#[test]
fn runs_that_name_each_other_are_recovered_at_once() {
    let home = home();
    let mut events = handing_over(&home);
    let mut call = events.remove(1);
    call["payload"]["child_run_id"] = json!(RUN_ID);
    for number in 1..=8 {
        call["payload"]["call_id"] = json!(format!("skill#{number}"));
        events.push(call.clone());
    }
    let mut end = call.clone();
    end["type"] = json!("run_completed");
    end["payload"] = json!({ "status": "suspended", "code": "interrupted" });
    events.push(end);
    forge(&home, RUN_ID, &events);
    let ran = home.skillrun(&["runs", "recover", "--resume", "--json"]);
    assert_eq!(ran.json()["runs"][0]["run_id"], RUN_ID, "{ran:?}");
}

/// Which file of this machine is run, a record does not say.
#[test]
fn a_skill_on_record_is_one_that_is_installed() {
    let home = home();
    run(&home, "probe", RUN_ID, &json!({ "verb": "noop" }));
    let mut events = home.events(RUN_ID);
    events.truncate(1);
    let elsewhere = home.path().join("elsewhere").join("probe");
    fs::create_dir(elsewhere.parent().unwrap()).unwrap();
    fs::rename(home.skill("probe"), &elsewhere).unwrap();
    events[0]["payload"]["skill"] = json!(elsewhere);
    forge(&home, RUN_ID, &events);
    for command in ["resume", "replay"] {
        let ran = home.skillrun(&["runs", command, RUN_ID]);
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("which now is absent"), "{ran:?}");
    }
}

/// What such a ledger lacks was done by the run that it repeats, and would be done again.
#[test]
fn a_new_run_from_an_old_one_that_was_cut_off_in_the_making_does_not_go_on() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", MANIFEST);
    let killable = Killable::of(home, "probe", "");
    let calls: Value = (0..4)
        .map(|number| {
            let arguments = json!({ "number": number }).to_string();
            json!({ "call": "tool", "name": "tickets__write", "arguments": arguments })
        })
        .collect();
    let ran = killable.run(RUN_ID, &json!({ "verb": "calls", "calls": calls }));
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let ran = killable.resume(RUN_ID, &["--from-node", "tool#4"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let run_id = ran.json()["run_id"].as_str().unwrap().to_owned();
    let home = &killable.home;
    let whole = home.events(&run_id);
    let resumed = whole
        .iter()
        .position(|event| event["type"] == "run_resumed");
    let resumed = resumed.unwrap();
    assert_eq!(whole[0]["payload"]["repeated_events"], resumed - 1);

    let ledger = fs::read_to_string(home.ledger(&run_id)).unwrap();
    let lines: Vec<&str> = ledger.lines().collect();
    let effects = killable.effects_in_order();
    let effects: Vec<&str> = effects.iter().map(String::as_str).collect();
    for cut in 1..resumed {
        killable.cut(&run_id, &lines[..cut], &effects);
        let recovered = home.skillrun(&["runs", "recover", "--resume", "--json"]);
        let left = &recovered.json()["runs"][0];
        assert_eq!(left["status"], "left", "{recovered:?}");
        let refused = killable.resume(&run_id, &["--retry-ambiguous"]);
        assert_eq!(refused.exit, Some(1), "{refused:?}");
        assert!(refused.stdout.contains("does not hold all"), "{refused:?}");
    }
    assert_eq!(killable.effects_in_order(), effects);

    // With all of it, it goes on from where it was asked to.
    killable.cut(&run_id, &lines[..resumed], &effects);
    let ran = killable.resume(&run_id, &[]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let counts: Vec<usize> = killable.effects().into_values().collect();
    assert_eq!(counts, [1, 1, 1, 3]);
}
