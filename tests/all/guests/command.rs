//! `command`, any program: it gets arguments and standard input, and answers with what it printed.

use serde_json::json;
use skillrun_test_artifacts::COMMAND;

use crate::harness::Home;

#[test]
pub(super) fn main_job() {
    let home = Home::new(&[COMMAND]);
    let input = json!({ "args": ["one", "two words"], "stdin": "é\nlast" });
    let (document, exit) = home.run_json("command", &input);
    assert_eq!(exit, 0, "{document}");
    assert_eq!(
        document["output"],
        json!({ "exit_code": 0, "stdout": "command one two words\né\nlast" })
    );
    let run_id = document["run_id"].as_str().unwrap();
    let logged = home.events_of(run_id, "log");
    let lines: Vec<&str> = logged
        .iter()
        .map(|event| event["payload"]["message"].as_str().unwrap())
        .collect();
    assert_eq!(lines, ["command one two words", "é", "last"]);
    let (document, _) = home.run_json("command.run", &json!({}));
    assert_eq!(document["output"]["stdout"], "command\n");
}

#[test]
fn another_exit_code_than_0_is_an_error_of_the_skill() {
    let home = Home::new(&[COMMAND]);
    for (args, code) in [(vec!["exit", "7"], 7), (vec!["fail"], 1)] {
        let (document, exit) = home.run_json("command", &json!({ "args": args }));
        assert_eq!(
            (exit, &document["code"]),
            (1, &json!("skill_error")),
            "{document}"
        );
        assert_eq!(
            document["error"],
            format!("the command ended with exit code {code}")
        );
        assert_eq!(document["output"]["code"], "exit_code");
        let details = &document["output"]["details"];
        assert_eq!(details["exit_code"], code);
        assert_eq!(details["stdout"], format!("command {}\n", args.join(" ")));
    }
    let (document, _) = home.run_json("command", &json!({ "args": ["exit", "0"] }));
    assert_eq!(document["output"]["exit_code"], 0, "{document}");
    let (document, _) = home.run_json("command", &json!({ "args": ["panic"] }));
    assert_eq!(document["code"], "panic", "{document}");
}

#[test]
fn what_a_command_prints_is_bounded_and_nothing_of_the_host_is_in_its_reach() {
    let home = Home::new(&[COMMAND]);
    home.configure("[limits]\noutput_bytes = 20000\n");
    let (document, exit) = home.run_json("command", &json!({ "args": ["flood", "100"] }));
    assert_eq!(
        (exit, &document["code"]),
        (4, &json!("output_limit")),
        "{document}"
    );
    let (document, _) = home.run_json("command", &json!({ "args": ["env"] }));
    assert_eq!(document["output"]["stdout"], "command env\n0\n");
    let (document, _) = home.run_json("command", &json!({ "args": "env" }));
    assert_eq!(
        document["error"],
        "at $.args: expected an array, found \"env\""
    );
}
