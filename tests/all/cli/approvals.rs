//! Questions of a skill at the command line: by policy, by another process, and at a terminal.

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::run_id;
use super::terminal::{on_a_terminal, read_until};
use crate::harness::Home;

fn home() -> Home {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"approval\"]\n");
    home.configure("[capabilities]\ngrant = [\"approval\"]\n");
    home
}

fn ask(prompt: &str) -> Value {
    json!({ "call": "ask", "prompt": prompt, "payload": "{\"n\":1}" })
}

fn asking(prompt: &str) -> Value {
    json!({ "verb": "calls", "calls": [ask(prompt)] })
}

/// What came of the question.
fn told(home: &Home, id: &str) -> Value {
    let end = &home.events_of(id, "run_completed")[0];
    end["payload"]["output"][0].clone()
}

#[test]
fn a_policy_on_the_command_line_goes_before_the_configured_one() {
    let home = home();
    let verb = asking("Go on?").to_string();
    for (arguments, config, approved) in [
        (&["--approve", "yes"][..], "ask", true),
        (&["--approve", "no"], "yes", false),
        (&[], "yes", true),
        (&[], "no", false),
    ] {
        home.configure(&format!(
            "[capabilities]\ngrant = [\"approval\"]\n[approvals]\npolicy = \"{config}\"\n"
        ));
        let run = [&["run", "probe", "--json", "--input", &verb], arguments].concat();
        let document = home.skillrun(&run).json();
        assert_eq!(
            document["output"][0]["ok"]["approved"], approved,
            "{document}"
        );
        assert_eq!(document["output"][0]["ok"]["automatic"], true);
    }
    home.configure("[approvals]\npolicy = \"maybe\"\n");
    let refused = home.skillrun(&["run", "probe"]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("maybe"), "{refused:?}");
}

#[test]
fn a_no_ends_a_skill_that_needs_a_yes_with_the_exit_code_of_a_denial() {
    let home = home();
    let verb = json!({ "verb": "insist", "on": ask("Go on?") }).to_string();
    let ran = home.skillrun(&[
        "run",
        "probe",
        "--json",
        "--approve",
        "no",
        "--input",
        &verb,
    ]);
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let id = ran.json()["run_id"].as_str().unwrap().to_owned();
    let explained = home.skillrun(&["runs", "explain", &id]);
    assert!(
        explained
            .stdout
            .contains("approval approval#1 was refused by auto"),
        "{explained:?}"
    );
}

#[test]
fn another_process_answers_and_is_told_when_it_comes_second() {
    let home = home();
    let id = run_id(1);
    let verb = asking("Go on?").to_string();
    let running = home.start(&["run", "probe", "--quiet", "--run-id", &id, "--input", &verb]);
    home.wait_for_event(&id, "approval_request");
    let listed = home.skillrun(&["runs", "approvals"]);
    assert!(
        listed.stdout.contains(&id) && listed.stdout.contains("Go on?"),
        "{listed:?}"
    );

    let absent = [
        "runs",
        "approve",
        &id,
        "--approval",
        "approval#2",
        "--decision",
        "approve",
    ];
    let absent = home.skillrun(&absent);
    assert_eq!(absent.exit, Some(5), "{absent:?}");
    assert!(
        absent.stderr.contains("hint: skillrun runs approvals"),
        "{absent:?}"
    );

    let reject = [
        "runs",
        "approve",
        &id,
        "--decision",
        "reject",
        "--reason",
        "not now",
    ];
    let rejected = home.skillrun(&reject);
    assert_eq!(
        (rejected.exit, rejected.stdout.as_str()),
        (Some(0), "rejected approval#1: Go on?\n")
    );
    assert_eq!(running.end().exit, Some(0));
    let expected = json!({ "approved": false, "reason": "not now", "automatic": false });
    assert_eq!(told(&home, &id)["ok"], expected);

    let late = home.skillrun(&["runs", "approve", &id, "--decision", "approve", "--json"]);
    assert_eq!(
        (late.exit, &late.json()["code"]),
        (Some(1), &json!("conflict"))
    );
    assert!(late.stdout.contains("rejected (not now)"), "{late:?}");
    let nobody = home.skillrun(&["runs", "approvals"]);
    assert_eq!(
        (nobody.stdout.as_str(), nobody.stderr.as_str()),
        ("", "no run waits for an approval\n")
    );
}

/// The first half of case C33 that needs no resuming: nothing of a question is lost with its process.
#[test]
fn a_question_outlives_the_process_that_asked_it() {
    let home = home();
    let id = run_id(1);
    let verb = asking("Go on?").to_string();
    let mut running = home.start(&["run", "probe", "--run-id", &id, "--input", &verb]);
    home.wait_for_event(&id, "approval_request");
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let open = home.skillrun(&["runs", "approvals", "--json"]).json();
    let gate = &open["approvals"][0];
    assert_eq!(
        (&gate["approval_id"], &gate["run_id"]),
        (&json!("approval#1"), &json!(id))
    );
    let approve = ["runs", "approve", &id, "--decision", "approve"];
    assert_eq!(home.skillrun(&approve).exit, Some(0));
    // Nobody has taken the decision up, and yet it is taken.
    assert_eq!(home.skillrun(&approve).exit, Some(1));
    let decided = home.skillrun(&["runs", "approvals", "--json"]).json();
    assert_eq!(decided["approvals"], json!([]));
}

#[test]
fn at_a_terminal_the_question_is_answered_by_typing() {
    for (typed, approved) in [("y it is fine\n", true), ("maybe\nn\n", false)] {
        let home = home();
        let id = run_id(1);
        let mut terminal = on_a_terminal(&home, &id, &asking("Go\u{1b}[2J on?"));
        let shown = read_until(&mut terminal, "approve? (y or n");
        assert!(
            shown.contains("Go\\u{1b}[2J on?") && shown.contains("{\"n\":1}"),
            "{shown:?}"
        );
        let mut keys = terminal.child().stdin.take().unwrap();
        std::io::Write::write_all(&mut keys, typed.as_bytes()).unwrap();
        let ran = terminal.end();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        assert_eq!(told(&home, &id)["ok"]["approved"], approved);
        let response = &home.events_of(&id, "approval_response")[0]["payload"];
        assert_eq!(response["source"], "cli");
    }
}

/// The timeline goes on above a question and below its answer, and leaves nothing out.
#[test]
fn at_a_terminal_a_question_stands_below_what_came_before_and_is_followed_by_its_answer() {
    let home = home();
    let id = run_id(1);
    let mut terminal = on_a_terminal(&home, &id, &asking("Go on?"));
    let shown = read_until(&mut terminal, "approve? (y or n");
    let (before, _) = shown.split_once("approval#1 asks: ").unwrap();
    assert!(before.contains("approval_request"), "{shown:?}");
    let reject = ["runs", "approve", &id, "--decision", "reject"];
    let rejected = home.skillrun(&[&reject[..], &["--reason", "not now"]].concat());
    assert_eq!(rejected.exit, Some(0), "{rejected:?}");
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let answer = ran
        .stdout
        .lines()
        .find(|line| line.contains("approval_response"));
    assert!(answer.unwrap().contains("rejected not now"), "{ran:?}");
}
