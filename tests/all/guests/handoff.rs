//! `handoff`: what it says of itself, and how it ends where no skill was granted.

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, HANDOFF};

use crate::harness::Home;

#[test]
pub(super) fn main_job() {
    let home = Home::new(&[GREET, HANDOFF]);
    for parallel in [false, true] {
        let steps = json!([{ "skill": "greet", "input": { "name": "Ada" } }]);
        let input = json!({ "steps": steps, "parallel": parallel });
        let (document, exit) = home.run_json("handoff", &input);
        assert_eq!(
            (exit, &document["code"]),
            (3, &json!("denied")),
            "{document}"
        );
        let run_id = document["run_id"].as_str().unwrap();
        let denied = home.events_of(run_id, "denied");
        assert_eq!(denied[0]["payload"]["capability"], "skill:greet");
        let left = home.events_of(run_id, "node_exit");
        assert_eq!(left.len(), usize::from(!parallel), "{left:?}");
    }
}

#[test]
fn it_asks_for_the_skills_that_it_knows() {
    let home = Home::new(&[HANDOFF]);
    let inspected = home
        .skillrun(&["skills", "inspect", "handoff", "--json"])
        .json();
    let steps = &inspected["input_schema"]["properties"]["steps"];
    assert_eq!(steps["maxItems"], 20);
    assert_eq!(
        steps["items"]["required"],
        json!(["skill", "input"]),
        "{inspected}"
    );
    assert_eq!(
        inspected["policy"]["requested"],
        json!(["skill:greet", "skill:notes", "skill:handoff"])
    );
}

#[test]
fn more_steps_than_there_may_be_are_refused() {
    let home = Home::new(&[HANDOFF]);
    let step = json!({ "skill": "greet", "input": {} });
    let (document, _) = home.run_json("handoff", &json!({ "steps": vec![step; 21] }));
    assert_eq!(document["code"], "invalid_input", "{document}");
}

fn granted(limits: &str) -> Home {
    let home = Home::new(&[GREET, HANDOFF]);
    home.configure(&format!(
        "[skills.handoff]\ngrant = [\"skill:greet\", \"skill:handoff\"]\n[limits]\n{limits}\n"
    ));
    home
}

fn greeting(name: &str) -> Value {
    json!({ "skill": "greet", "input": { "name": name } })
}

#[test]
fn results_come_in_the_order_of_the_steps_and_each_is_a_run_of_its_own() {
    let home = granted("");
    for parallel in [false, true] {
        let steps = ["Ada", "Bob", "Eve"].map(greeting);
        let input = json!({ "steps": steps, "parallel": parallel });
        let (document, exit) = home.run_json("handoff", &input);
        assert_eq!(exit, 0, "{document}");
        let results = document["output"]["results"].as_array().unwrap();
        let greetings: Vec<_> = results.iter().map(|one| &one["greeting"]).collect();
        assert_eq!(greetings, ["Hello, Ada!", "Hello, Bob!", "Hello, Eve!"]);
        let run_id = document["run_id"].as_str().unwrap();
        let inside = home
            .skillrun(&["runs", "list", "--parent", run_id, "--json"])
            .json();
        assert_eq!(inside["runs"].as_array().unwrap().len(), 3);
        // The tree shows them below the calls that they are.
        let tree = home.skillrun(&["runs", "inspect", run_id]).stdout;
        for part in [
            "greet {\"name\":\"Bob\"}",
            "step:compose#1",
            "→ {\"greeting\":\"Hello, Eve!\"",
        ] {
            assert!(tree.contains(part), "{part}: {tree}");
        }
        let started = tree.matches("run_started").count();
        assert_eq!(started, 4, "{tree}");
    }
}

#[test]
fn runs_nest_only_so_deep_and_the_skill_is_told() {
    let home = granted("nesting_depth = 3");
    // The innermost step is four levels below the outermost run.
    let nested = (0..3).fold(
        json!({ "steps": [greeting("Ada")] }),
        |input, _level| json!({ "steps": [{ "skill": "handoff", "input": input }] }),
    );
    let (document, exit) = home.run_json("handoff", &nested);
    assert_eq!(
        (exit, &document["code"]),
        (1, &json!("skill_error")),
        "{document}"
    );
    let error = document["error"].as_str().unwrap();
    assert!(error.contains("nesting_depth limit of 3"), "{error}");
    assert_eq!(home.run_ids().len(), 4, "the fifth run does not begin");
    let two_less = nested["steps"][0]["input"].clone();
    let (document, exit) = home.run_json("handoff", &two_less);
    assert_eq!(exit, 0, "{document}");
}

#[test]
fn what_runs_inside_use_counts_for_the_one_above() {
    let home = granted("host_calls = 3");
    let two = json!({ "steps": [greeting("Ada"), greeting("Bob")] });
    let steps = [0, 1].map(|_| json!({ "skill": "handoff", "input": two }));
    let (document, exit) = home.run_json("handoff", &json!({ "steps": steps }));
    assert_eq!(
        (exit, &document["code"]),
        (4, &json!("host_call_limit")),
        "{document}"
    );
    assert!(
        document["error"]
            .as_str()
            .unwrap()
            .contains("host_calls limit of 3")
    );
}

/// A component that is named by its file finds the installed skills, too.
#[test]
fn a_skill_that_is_not_installed_hands_work_to_one_that_is() {
    let home = Home::new(&[GREET]);
    let input = json!({ "steps": [greeting("Ada")] }).to_string();
    let arguments = [
        "run",
        HANDOFF.wasm,
        "--json",
        "--grant",
        "skill:greet",
        "--input",
        &input,
    ];
    let ran = home.skillrun(&arguments);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(
        ran.json()["output"]["results"][0]["greeting"],
        "Hello, Ada!"
    );
}
