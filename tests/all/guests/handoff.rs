//! `handoff`: what it says of itself, and how it ends where no skill was granted.

use serde_json::json;
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
