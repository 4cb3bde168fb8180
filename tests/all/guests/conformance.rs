//! `conformance`: its folders are skills, and what each is called decides what it does. What clients of the MCP server
//! are answered by them is in `mcp`.

use serde_json::json;

use crate::mcp::fixtures;

#[test]
pub(super) fn main_job() {
    let home = fixtures::home();
    for name in fixtures::names() {
        let folder = home.skill(&name);
        let valid = home.skillrun(&["skills", "validate", folder.to_str().unwrap()]);
        assert_eq!(valid.exit, Some(0), "{valid:?}");
    }
    let (document, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{document}");
    let text = &document["output"]["content"][0]["text"];
    assert_eq!(text, "Hello, Ada!");
}

#[test]
fn who_has_no_client_is_told_so() {
    let home = fixtures::home();
    let (document, exit) = home.run_json("test-streaming-elicitation", &json!({}));
    assert_eq!(
        (exit, &document["code"]),
        (1, &json!("skill_error")),
        "{document}"
    );
    let error = document["error"].as_str().unwrap();
    assert!(error.contains("no client that can be asked"), "{document}");
}
