//! Runs that are killed and resumed. A thousand kills at random moments are what `cargo xtask faults resume`
//! does; here are those that can be had exactly.

use serde_json::{Value, json};
use skillrun_test_artifacts::{PROBE, TRIAGE};

use super::killable::{Killable, Moment};
use crate::harness::Home;
use crate::wit::examples::{TRIAGE_PY, TRIAGE_TS};
use crate::wit::foreign_skill::ForeignSkill;
use crate::wit::triage;

pub(super) const RUN_ID: &str = "run_0190a0a0a0a070008000000000000001";
/// No person is asked.
const YES: &str = "[approvals]\npolicy = \"yes\"";
/// What the probe asks for.
const MANIFEST: &str =
    "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"tool:tickets__*\", \"approval\"]\n";
/// The tool server kills nobody.
const NEVER: Option<(Moment, usize)> = None;

fn ticket() -> Value {
    json!({ "id": "T-1", "text": "Checkout is down" })
}

pub(super) fn probe(more: &str) -> Killable {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", MANIFEST);
    Killable::of(home, "probe", more)
}

pub(super) fn calls(tools: &[&str]) -> Value {
    let calls = tools.iter().enumerate().map(|(number, tool)| {
        let arguments = json!({ "number": number }).to_string();
        json!({ "call": "tool", "name": format!("tickets__{tool}"), "arguments": arguments })
    });
    json!({ "verb": "calls", "calls": calls.collect::<Value>() })
}

/// What a run leaves that nobody killed: its output, its ledger, its effects.
struct Whole {
    output: Value,
    ledger: String,
    effects: Vec<String>,
}

impl Whole {
    #[track_caller]
    fn of(killable: &Killable, input: &Value) -> Self {
        let ran = killable.run(RUN_ID, input);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let effects = killable.effects();
        assert!(effects.values().all(|&count| count == 1), "{effects:?}");
        Self {
            output: ran.json()["output"].clone(),
            ledger: std::fs::read_to_string(killable.home.ledger(RUN_ID)).unwrap(),
            effects: killable.effects_in_order(),
        }
    }
}

fn killable_triage() -> Killable {
    Killable::of(Home::new(&[TRIAGE]), "triage", YES)
}

/// The effects of those tools whose call is among the lines; the last of them only if `with_last`.
fn effects_by<'a>(whole: &'a Whole, lines: &[&str], with_last: bool) -> Vec<&'a str> {
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |kind: &str| lines.iter().filter(|event| event["type"] == kind).count();
    let (called, over) = (count("tool_call"), count("tool_result"));
    let happened = if with_last { called } else { over };
    let effects = whole.effects.iter().take(happened);
    effects.map(String::as_str).collect()
}

#[test]
fn killed_at_any_boundary_of_events_a_run_ends_as_if_nothing_had_been() {
    let killable = killable_triage();
    let whole = Whole::of(&killable, &ticket());
    let lines: Vec<&str> = whole.ledger.lines().collect();
    assert_eq!(whole.effects.len(), 2);
    let mut ambiguous = 0;
    for cut in 1..lines.len() {
        for with_last in [false, true] {
            let kept = &lines[..cut];
            let effects = effects_by(&whole, kept, with_last);
            if with_last && effects == effects_by(&whole, kept, false) {
                continue;
            }
            killable.cut(RUN_ID, kept, &effects);
            let (document, is_ambiguous) = killable.resume_to_the_end(RUN_ID);
            assert_eq!(document["output"], whole.output, "{cut}");
            ambiguous += usize::from(is_ambiguous);
            killable.verifies(RUN_ID);
            let again = std::fs::read_to_string(killable.home.ledger(RUN_ID)).unwrap();
            assert!(again.lines().take(cut).eq(kept.iter().copied()), "{cut}");
            for (effect, count) in killable.effects() {
                let is_read = effect.contains("\"search\"");
                let once_or_twice = 1..=1 + usize::from(with_last && (is_read || is_ambiguous));
                assert!(once_or_twice.contains(&count), "{cut}: {count} of {effect}");
            }
            assert_eq!(killable.effects().len(), 2, "{cut}");
        }
    }
    // The one write, which either had its effect or had not.
    assert_eq!(ambiguous, 2);
}

/// Case C30, for each effect that a call can have, killed on either side of it.
#[test]
fn c30_a_call_that_was_cut_off_is_made_again_where_that_does_no_harm() {
    for (tool, is_safe) in [("write", false), ("idempotent", true), ("read", true)] {
        for (moment, before) in [(Moment::Before, 0), (Moment::After, 1)] {
            let killable = probe("");
            killable.configure(Some((moment, 2)));
            let input = calls(&["write", tool, "write"]);
            assert_eq!(killable.run(RUN_ID, &input).exit, None);
            let cut_off = format!("{{\"arguments\": {{\"number\": 1}}, \"tool\": \"{tool}\"}}");
            let count = || killable.effects().get(&cut_off).copied().unwrap_or(0);
            assert_eq!(count(), before, "{tool} {moment:?}");

            killable.configure(NEVER);
            let mut ran = killable.resume(RUN_ID, &[]);
            if !is_safe {
                // As often as one likes: nothing happens.
                for _ in 0..2 {
                    let code = &ran.json()["code"];
                    assert_eq!((ran.exit, code), (Some(1), &json!("ambiguous_call")));
                    assert!(ran.stdout.contains("tool#2"), "{ran:?}");
                    assert_eq!(count(), before);
                    let end = (json!("interrupted"), json!("ambiguous_call"));
                    assert_eq!(killable.end(RUN_ID), end);
                    ran = killable.resume(RUN_ID, &[]);
                }
                ran = killable.resume(RUN_ID, &["--retry-ambiguous"]);
            }
            assert_eq!(ran.exit, Some(0), "{tool} {moment:?}: {ran:?}");
            assert_eq!(count(), before + 1, "{tool} {moment:?}");
            let effects = killable.effects();
            let others = effects.iter().filter(|(effect, _)| **effect != cut_off);
            assert!(others.clone().all(|(_, &count)| count == 1), "{effects:?}");
            assert_eq!(others.count(), 2);
            killable.verifies(RUN_ID);
        }
    }
}

/// A process that resumes can be killed like any other.
#[test]
fn a_run_that_is_killed_while_it_is_resumed_goes_on_all_the_same() {
    let killable = probe("");
    killable.configure(Some((Moment::After, 2)));
    let input = calls(&["idempotent", "idempotent", "idempotent", "idempotent"]);
    assert_eq!(killable.run(RUN_ID, &input).exit, None);
    let mut processes = 1;
    loop {
        let ran = killable.resume(RUN_ID, &[]);
        processes += 1;
        match ran.exit {
            None => assert!(processes < 9, "{ran:?}"),
            exit => {
                assert_eq!(exit, Some(0), "{ran:?}");
                break;
            }
        }
    }
    // Each but the last is killed in its second call, the first of which is that of the process before.
    assert_eq!(processes, 4);
    let counts: Vec<usize> = killable.effects().into_values().collect();
    assert_eq!(counts, [1, 2, 2, 2]);
    killable.verifies(RUN_ID);
}

/// Case C33: a question that was open is open again under the same id, whether it is answered while nobody
/// carries the run out or after it was taken up.
#[test]
fn c33_a_question_that_was_open_is_open_again_under_its_id() {
    for is_answered_between in [true, false] {
        let killable = probe("");
        let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": null });
        let mut input = calls(&["write", "write"]);
        input["calls"].as_array_mut().unwrap().insert(1, ask);
        let mut running = killable.start(RUN_ID, &input);
        killable.home.wait_for_event(RUN_ID, "approval_request");
        running.signal(rustix::process::Signal::KILL);
        running.end();
        let approve = ["runs", "approve", RUN_ID, "--decision", "approve"];
        let approve = || killable.home.skillrun(&approve);
        if is_answered_between {
            assert_eq!(approve().exit, Some(0));
        }
        let resume = ["runs", "resume", RUN_ID, "--json"];
        let resumed = killable.home.start(&resume);
        if !is_answered_between {
            killable.home.wait_for_event(RUN_ID, "run_resumed");
            let open = killable.home.skillrun(&["runs", "approvals", "--json"]);
            assert_eq!(open.json()["approvals"][0]["approval_id"], "approval#1");
            assert_eq!(approve().exit, Some(0));
        }
        let ran = resumed.end();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let told = &ran.json()["output"][1]["ok"];
        assert_eq!(
            (&told["approved"], &told["automatic"]),
            (&json!(true), &json!(false))
        );
        // Once decided it stays so.
        let again = approve();
        assert_eq!(again.exit, Some(1), "{again:?}");
        let of = |kind: &str| killable.home.events_of(RUN_ID, kind);
        let [asked, answered] = ["approval_request", "approval_response"].map(of);
        assert_eq!(
            (asked.len(), answered.len()),
            (1, 1),
            "{is_answered_between}"
        );
        assert_eq!(answered[0]["payload"]["approval_id"], "approval#1");
        assert!(killable.effects().values().all(|&count| count == 1));
        killable.verifies(RUN_ID);
    }
}

/// Case C32: a run that ends its process each time is taken up by itself only so often.
#[test]
fn c32_a_run_that_ends_its_process_is_taken_up_no_more_often_than_the_cap() {
    let killable = probe("[runs]\non_restart = \"resume\"\nrestarts_max = 2");
    let input = calls(&["write", "write", "write", "fatal"]);
    assert_eq!(killable.run(RUN_ID, &input).exit, None);
    let recover = || {
        killable
            .home
            .skillrun(&["runs", "recover", "--resume", "--json"])
    };
    for _ in 0..2 {
        assert_eq!(recover().exit, None);
    }
    let ran = recover();
    assert!(ran.exit.is_some(), "{ran:?}");
    assert!(ran.stdout.contains("restarts_max"), "{ran:?}");
    let effects = killable.effects();
    let counts: Vec<usize> = effects.values().copied().collect();
    assert_eq!(counts, [1, 1, 1, 3], "{effects:?}");
    let resumed = killable.home.events_of(RUN_ID, "run_resumed");
    assert_eq!(resumed.len(), 2);
    assert_eq!(killable.end(RUN_ID).0, "interrupted");
    // Whoever asks for it can have it once more.
    assert_eq!(killable.resume(RUN_ID, &[]).exit, None);
}

/// The skills in other languages, whose runtimes do much before the first line of the skill.
fn killed_in_its_calls(skill: &ForeignSkill) {
    let more = format!("{YES}\n[engine]\ncompile_time_ms = 600_000");
    let killable = Killable::of(triage::installed(skill), skill.name, &more);
    let whole = Whole::of(&killable, &ticket());
    let lines: Vec<&str> = whole.ledger.lines().collect();
    let is_call = |line: &&str| line.contains("\"type\":\"tool_call\"");
    let search = lines.iter().position(is_call).unwrap() + 1;
    let write = lines.iter().rposition(is_call).unwrap() + 1;
    // In the search, between the answer of the model and the question, and in the write.
    for (cut, with_last) in [(search, true), (search + 6, false), (write, false)] {
        let kept = &lines[..cut];
        killable.cut(RUN_ID, kept, &effects_by(&whole, kept, with_last));
        let (document, is_ambiguous) = killable.resume_to_the_end(RUN_ID);
        assert_eq!(document["output"], whole.output, "{cut}");
        assert_eq!(is_ambiguous, cut == write);
        killable.verifies(RUN_ID);
        let counts: Vec<usize> = killable.effects().into_values().collect();
        // `set_priority` and `search`, by the names of their arguments.
        assert_eq!(counts, [1, if with_last { 2 } else { 1 }], "{cut}");
    }
    // And by a real kill, after the effect.
    killable.cut(RUN_ID, &[], &[]);
    std::fs::remove_file(killable.home.ledger(RUN_ID)).unwrap();
    killable.configure(Some((Moment::After, 2)));
    assert_eq!(killable.run(RUN_ID, &ticket()).exit, None);
    killable.configure(NEVER);
    let (document, is_ambiguous) = killable.resume_to_the_end(RUN_ID);
    assert_eq!((&document["output"], is_ambiguous), (&whole.output, true));
}

#[test]
fn a_skill_in_typescript_goes_on_where_it_was_killed() {
    killed_in_its_calls(&TRIAGE_TS);
}

#[test]
fn a_skill_in_python_goes_on_where_it_was_killed() {
    killed_in_its_calls(&TRIAGE_PY);
}
