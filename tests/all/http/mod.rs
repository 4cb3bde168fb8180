//! Outgoing requests, against real servers that answer as a test wants.

mod bounds;
mod denied;
mod library;
mod record;
mod secrets;
pub(crate) mod server;
pub(crate) mod tls;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use crate::harness::Home;

/// A home with the probe, which asks for these capabilities and gets them, and more of a configuration.
fn granted(capabilities: &[&str], config: &str) -> Home {
    let home = Home::new(&[PROBE]);
    grant(&home, capabilities, config);
    home
}

/// The same in a home that is there: what is compiled for it is kept.
fn grant(home: &Home, capabilities: &[&str], config: &str) {
    let list = json!(capabilities);
    home.write_manifest("probe", &format!("[capabilities]\nrequest = {list}\n"));
    home.configure(&format!("[skills.probe]\ngrant = {list}\n{config}"));
}

/// Runs a verb of the probe; gives the printed document and the exit code.
fn probe(home: &Home, verb: &Value) -> (Value, i32) {
    home.run_json("probe", verb)
}

/// Makes one request that ends well.
#[track_caller]
fn fetched(home: &Home, url: &str) -> (Value, String) {
    let (document, exit) = probe(home, &json!({ "verb": "http", "url": url }));
    assert_eq!(exit, 0, "{document}");
    (document["output"].clone(), run_id(&document))
}

/// Makes one request that does not, and gives the message of the skill's error.
#[track_caller]
fn failed(home: &Home, verb: &Value) -> (String, String) {
    let (document, exit) = probe(home, verb);
    assert_eq!(
        (exit, &document["code"]),
        (1, &json!("skill_error")),
        "{document}"
    );
    (
        document["error"].as_str().unwrap().to_owned(),
        run_id(&document),
    )
}

fn run_id(document: &Value) -> String {
    document["run_id"].as_str().unwrap().to_owned()
}

/// The payloads of the events of one type.
fn payloads(home: &Home, run_id: &str, kind: &str) -> Vec<Value> {
    let events = home.events_of(run_id, kind).into_iter();
    events.map(|event| event["payload"].clone()).collect()
}

/// The one result of the one request of a run.
#[track_caller]
fn result(home: &Home, run_id: &str) -> Value {
    let calls = payloads(home, run_id, "http_call");
    let results = payloads(home, run_id, "http_result");
    assert_eq!((calls.len(), results.len()), (1, 1));
    assert_eq!(calls[0]["call_id"], results[0]["call_id"]);
    results[0].clone()
}
