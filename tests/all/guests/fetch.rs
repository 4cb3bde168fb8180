//! The example that makes a request. What it does with one is tested beside all other requests.

use serde_json::json;
use skillrun_test_artifacts::FETCH;

use crate::harness::Home;

/// What it asks for is one place, and without a grant it gets nothing.
#[test]
pub(super) fn main_job() {
    let home = Home::new(&[FETCH]);
    let (document, exit) = home.run_json("fetch", &json!({ "url": "https://example.com/" }));
    assert_eq!(
        (exit, &document["code"]),
        (3, &json!("denied")),
        "{document}"
    );
    let denied = home.events_of(document["run_id"].as_str().unwrap(), "denied");
    assert_eq!(
        denied[0]["payload"]["capability"],
        "net:https://example.com/#GET"
    );
    assert_eq!(denied[0]["payload"]["rule"], "not granted");
    let inspected = home
        .skillrun(&["skills", "inspect", "fetch", "--json"])
        .json();
    let requested = &inspected["policy"]["requested"];
    assert_eq!(
        requested,
        &json!(["net:https://example.com/#GET"]),
        "{inspected}"
    );
}
