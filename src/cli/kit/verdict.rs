//! Whether a run came to what a case expects, and how it differs where it did not.

use serde_json::{Map, Value};

use super::case::{EventShape, Expect};
use crate::outcome::OutcomeCode;

/// Differences that are told of one value. Protects the screen.
const DIFFERENCES_MAX: usize = 12;
/// Characters of a value that is told.
const VALUE_CHARS_MAX: usize = 200;

/// What a run came to.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) code: OutcomeCode,
    /// The result, of a run that has one.
    pub(super) output: Option<Value>,
    /// What failed, of a run that did.
    pub(super) error: Option<String>,
    /// Its events, as the ledger has them.
    pub(super) events: Vec<Value>,
}

/// Everything in which the run differs from what is expected; nothing when it does not.
pub(super) fn problems(expect: &Expect, seen: &Seen) -> Vec<String> {
    let mut problems = Vec::new();
    let code = expect.code.unwrap_or(OutcomeCode::Ok);
    if seen.code != code {
        let error = seen.error.as_ref();
        let why = error.map_or_else(String::new, |error| format!(": {error}"));
        problems.push(format!("code: expected {code}, got {}{why}", seen.code));
    }
    if let Some(part) = &expect.error_contains {
        let error = seen.error.as_deref();
        if !error.is_some_and(|error| error.contains(part)) {
            let got = error.map_or_else(|| "no error".to_owned(), |error| format!("{error:?}"));
            problems.push(format!("error: expected one with {part:?}, got {got}"));
        }
    }
    let outputs = [
        (&expect.output, Fit::Exact),
        (&expect.output_like, Fit::MayHaveMore),
    ];
    for (expected, fit) in outputs {
        let Some(expected) = expected else { continue };
        let mut differences = Vec::new();
        match &seen.output {
            Some(output) => compare("output", expected, output, fit, &mut differences),
            None => differences.push(format!("output: expected {}, got none", brief(expected))),
        }
        problems.extend(bounded(differences));
    }
    problems.extend(missing_event(&expect.events, &seen.events));
    let calls = seen.events.iter().filter(|event| is_call(event)).count();
    if let Some(expected) = expect.calls.filter(|expected| *expected != calls) {
        problems.push(format!("calls: expected {expected}, got {calls}"));
    }
    problems
}

/// Whether an object may have more keys than are expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Exact,
    MayHaveMore,
}

/// Adds every place at which two values differ. The recursion ends where the parser of both ended.
fn compare(path: &str, expected: &Value, got: &Value, fit: Fit, differences: &mut Vec<String>) {
    if differences.len() > DIFFERENCES_MAX {
        return;
    }
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, value) in expected {
                let path = format!("{path}.{key}");
                match got.get(key) {
                    Some(got) => compare(&path, value, got, fit, differences),
                    None => {
                        differences.push(format!("{path}: expected {}, got none", brief(value)))
                    }
                }
            }
            let more = got.iter().filter(|(key, _)| !expected.contains_key(*key));
            for (key, value) in more.filter(|_| fit == Fit::Exact) {
                differences.push(format!("{path}.{key}: expected none, got {}", brief(value)));
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            for (index, value) in expected.iter().enumerate() {
                let path = format!("{path}[{index}]");
                match got.get(index) {
                    Some(got) => compare(&path, value, got, fit, differences),
                    None => {
                        differences.push(format!("{path}: expected {}, got none", brief(value)))
                    }
                }
            }
            for (index, value) in got.iter().enumerate().skip(expected.len()) {
                differences.push(format!(
                    "{path}[{index}]: expected none, got {}",
                    brief(value)
                ));
            }
        }
        _ if same(expected, got) => {}
        _ => differences.push(format!(
            "{path}: expected {}, got {}",
            brief(expected),
            brief(got)
        )),
    }
}

/// Whether two values that are not both objects or both arrays are the same; `1` and `1.0` are.
fn same(expected: &Value, got: &Value) -> bool {
    let numbers = (expected.as_f64(), got.as_f64());
    let is_whole = expected.is_i64() || expected.is_u64();
    match numbers {
        (Some(a), Some(b)) if !(is_whole && (got.is_i64() || got.is_u64())) => a == b,
        _ => expected == got,
    }
}

fn bounded(mut differences: Vec<String>) -> Vec<String> {
    if differences.len() > DIFFERENCES_MAX {
        differences.truncate(DIFFERENCES_MAX);
        differences.push("… and more".to_owned());
    }
    differences
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// The first expected event that does not come, in its place.
fn missing_event(expected: &[EventShape], events: &[Value]) -> Option<String> {
    let mut left = events.iter();
    for (index, shape) in expected.iter().enumerate() {
        if left.any(|event| fits(shape, event)) {
            continue;
        }
        let mut wanted = Map::from_iter([("type".to_owned(), shape.kind.clone().into())]);
        wanted.extend(shape.payload.clone());
        let mut told = format!(
            "events[{index}]: expected {}{}, got none",
            brief(&Value::from(wanted)),
            if index > 0 {
                " after the one before it"
            } else {
                ""
            },
        );
        let same_type = events.iter().filter(|event| event["type"] == *shape.kind);
        for event in same_type.take(DIFFERENCES_MAX) {
            let payload = event.get("payload").unwrap_or(&Value::Null);
            told.push_str(&format!("\n  there is {} {}", shape.kind, brief(payload)));
        }
        return Some(told);
    }
    None
}

fn fits(shape: &EventShape, event: &Value) -> bool {
    let mut differences = Vec::new();
    let expected = Value::from(shape.payload.clone());
    let payload = event.get("payload").unwrap_or(&Value::Null);
    compare("", &expected, payload, Fit::MayHaveMore, &mut differences);
    event.get("type").and_then(Value::as_str) == Some(&*shape.kind) && differences.is_empty()
}

/// Whether an event is the first half of a call that the host carried out.
fn is_call(event: &Value) -> bool {
    let is_first = match event.get("type").and_then(Value::as_str) {
        Some("tool_call" | "approval_request" | "http_call") => true,
        Some("llm_call") => event.pointer("/payload/phase") == Some(&"call".into()),
        _ => false,
    };
    is_first && event.get("source") == Some(&"host".into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Fit, Seen, compare, problems};
    use crate::cli::kit::case::{Expect, parse};
    use crate::outcome::OutcomeCode;

    fn differences(expected: &Value, got: &Value, fit: Fit) -> Vec<String> {
        let mut differences = Vec::new();
        compare("output", expected, got, fit, &mut differences);
        differences
    }

    fn expect(expect: &Value) -> Expect {
        let text = json!({ "expect": expect }).to_string();
        parse("c.json".as_ref(), &text).unwrap().remove(0).expect
    }

    #[test]
    fn every_difference_is_told_with_its_path() {
        let expected = json!({ "a": [1, { "b": "x" }], "c": null, "d": 1.0 });
        let got = json!({ "a": [1, { "b": "y", "z": 1 }, 3], "d": 1 });
        assert_eq!(
            differences(&expected, &got, Fit::Exact),
            [
                "output.a[1].b: expected \"x\", got \"y\"",
                "output.a[1].z: expected none, got 1",
                "output.a[2]: expected none, got 3",
                "output.c: expected null, got none",
            ]
        );
        let like = differences(
            &json!({ "a": [1] }),
            &json!({ "a": [1], "b": 2 }),
            Fit::MayHaveMore,
        );
        assert!(like.is_empty());
        assert_eq!(
            differences(&json!(u64::MAX), &json!(u64::MAX - 1), Fit::Exact).len(),
            1
        );
    }

    #[test]
    fn a_run_is_held_to_all_that_is_expected() {
        let event = |kind: &str, payload: Value| json!({ "type": kind, "source": "host", "payload": payload });
        let seen = Seen {
            code: OutcomeCode::Ok,
            output: Some(json!({ "a": 1 })),
            error: None,
            events: vec![
                event("run_started", json!({})),
                event("llm_call", json!({ "phase": "call" })),
                event("llm_call", json!({ "phase": "result" })),
                event("log", json!({ "message": "done", "level": "info" })),
            ],
        };
        for good in [
            json!({}),
            json!({ "output": { "a": 1 }, "output_like": {}, "calls": 1 }),
            json!({ "events": [{ "type": "llm_call" }, { "type": "log", "message": "done" }] }),
        ] {
            assert_eq!(
                problems(&expect(&good), &seen),
                Vec::<String>::new(),
                "{good}"
            );
        }
        for (bad, told) in [
            (json!({ "output": {} }), "output.a: expected none, got 1"),
            (
                json!({ "output_like": { "b": 1 } }),
                "output.b: expected 1, got none",
            ),
            (json!({ "code": "denied" }), "code: expected denied, got ok"),
            (
                json!({ "error_contains": "x" }),
                "error: expected one with \"x\", got no error",
            ),
            (json!({ "calls": 2 }), "calls: expected 2, got 1"),
            (
                json!({ "events": [{ "type": "log" }, { "type": "llm_call" }] }),
                "events[1]: expected {\"type\":\"llm_call\"} after the one before it, got none",
            ),
            (
                json!({ "events": [{ "type": "log", "message": "gone" }] }),
                "\n  there is log {\"message\":\"done\",\"level\":\"info\"}",
            ),
        ] {
            let problems = problems(&expect(&bad), &seen);
            assert!(
                problems.iter().any(|problem| problem.contains(told)),
                "{bad}: {problems:?}"
            );
        }
    }
}
