//! `calc`, a component of somebody who knows nothing of skillrun: each function it exports is run by
//! its name, with JSON in and out.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skillrun_test_artifacts::CALC;

use crate::harness::Home;

/// Calls an operation and gives its output, or what it was refused with.
fn call(home: &Home, operation: &str, input: &Value) -> (Value, i32) {
    home.run_json(&format!("calc.{operation}"), input)
}

#[test]
pub(super) fn main_job() {
    let home = Home::new(&[CALC]);
    let ran = home.skillrun(&["run", "calc.add", "--input", r#"{"a":1,"b":2}"#]);
    assert_eq!((ran.exit, ran.stdout.trim()), (Some(0), "3"), "{ran:?}");
    let run_id = &home.run_ids()[0];
    let started = &home.events(run_id)[0]["payload"];
    assert_eq!(started["skill"], "calc.add");
    assert_eq!(started["input"], json!({ "a": 1, "b": 2 }));
    assert_eq!(started["component_digest"].as_str().unwrap().len(), 64);
    assert_eq!(
        home.events_of(run_id, "run_completed")[0]["payload"]["output"],
        3
    );
    assert_eq!(home.skillrun(&["runs", "verify", run_id]).exit, Some(0));

    let wasm = [
        "run",
        CALC.wasm,
        "--input",
        r#"{"a":-1,"b":-2}"#,
        "--function",
        "add",
    ];
    let ran = home.skillrun(&wasm);
    assert_eq!((ran.exit, ran.stdout.trim()), (Some(0), "-3"), "{ran:?}");
    let listed = home.skillrun(&["runs", "list", "--json"]).json();
    assert_eq!(listed["runs"][0]["skill"], "calc.add");
}

#[track_caller]
fn answers(home: &Home, operation: &str, input: &Value, output: &Value) {
    let (document, exit) = call(home, operation, input);
    assert_eq!(
        (exit, &document["output"]),
        (0, output),
        "{operation}: {document}"
    );
}

#[test]
fn each_simple_type_goes_in_and_comes_out() {
    let home = Home::new(&[CALC]);
    let wholes = json!([
        u64::MAX,
        i64::MIN,
        u32::MAX,
        i32::MIN,
        u16::MAX,
        i16::MIN,
        255,
        -128
    ]);
    let by_name: Value = ["a", "b", "c", "d", "e", "f", "g", "h"]
        .iter()
        .zip(wholes.as_array().unwrap())
        .map(|(name, number)| ((*name).to_owned(), number.clone()))
        .collect();
    answers(&home, "wholes", &by_name, &wholes);
    let floats = json!({ "single": 0.1, "double": -1e300 });
    answers(&home, "floats", &floats, &json!([0.1, -1e300]));
    let texts = json!({ "character": "🦀", "text": "\"\\\n", "yes": true });
    answers(&home, "texts", &texts, &json!(["🦀", "\"\\\n", true]));
    let paint = json!({ "colour": "green", "access": ["execute", "read"] });
    answers(
        &home,
        "paint",
        &paint,
        &json!(["green", ["read", "execute"]]),
    );
    answers(
        &home,
        "bytes",
        &json!({ "bytes": [0, 255] }),
        &json!([0, 255]),
    );
    answers(&home, "kinds.nothing", &json!({}), &json!(null));
    answers(&home, "other.nothing", &json!({}), &json!("not nothing"));
}

#[test]
fn each_compound_type_goes_in_and_comes_out() {
    let home = Home::new(&[CALC]);
    let items = json!([{ "name": "é🦀\u{0}", "count": 255 }]);
    let order = json!({ "id": u64::MAX, "note": null, "items": items });
    answers(&home, "place", &json!({ "order": order }), &order);
    let drawings = json!(["nothing", { "dot": { "x": -1, "y": 1 } }, { "text": "" },
        { "line": [{ "x": 0, "y": 0 }, { "x": i32::MIN, "y": i32::MAX }] }]);
    answers(&home, "draw", &json!({ "drawings": drawings }), &drawings);
    answers(&home, "maybe", &json!({}), &json!(null));
    for value in [json!({ "some": null }), json!({ "some": 5 })] {
        answers(&home, "maybe", &json!({ "value": value }), &value);
    }
    let ok = json!([{ "ok": 5 }, { "ok": null }]);
    answers(&home, "either", &json!({ "value": { "ok": 5 } }), &ok);
    let err = json!([{ "err": "no" }, { "err": null }]);
    answers(&home, "either", &json!({ "value": { "err": "no" } }), &err);
    let quarter = json!({ "dividend": 1, "divisor": 4 });
    answers(&home, "divide", &quarter, &json!(0.25));
    answers(
        &home,
        "check",
        &json!({ "point": { "x": 0, "y": 1 } }),
        &json!(null),
    );
}

/// Case C40: what does not fit is refused with its place, and nothing of the component runs.
#[test]
fn an_input_that_does_not_fit_is_refused_with_its_place() {
    let home = Home::new(&[CALC]);
    let order = json!({ "order": { "id": 1, "items": [{ "name": "a", "count": 1 }, { "name": "b", "count": "5" }] } });
    let (document, exit) = call(&home, "place", &order);
    assert_eq!((exit, &document["code"]), (1, &json!("skill_error")));
    assert_eq!(
        document["error"],
        "at $.order.items[1].count: expected an integer from 0 to 255, found \"5\""
    );
    assert_eq!(
        document["output"],
        json!({ "code": "invalid_input", "details": {
            "path": "$.order.items[1].count",
            "expected": "an integer from 0 to 255",
            "found": "\"5\"",
        } })
    );
    // A guest that is never started cannot spin.
    let (document, _) = call(&home, "spin", &json!({ "for": "ever" }));
    assert_eq!(document["output"]["code"], "invalid_input", "{document}");
}

#[test]
fn an_err_is_an_error_of_the_skill() {
    let home = Home::new(&[CALC]);
    let (document, exit) = call(&home, "divide", &json!({ "dividend": 1, "divisor": 0 }));
    assert_eq!((exit, &document["code"]), (1, &json!("skill_error")));
    assert_eq!(document["error"], "cannot divide 1 by zero");
    assert_eq!(
        document["output"],
        json!({ "code": "err", "details": "cannot divide 1 by zero" })
    );
    let (document, _) = call(&home, "check", &json!({ "point": { "x": 1, "y": 2 } }));
    assert_eq!(document["error"], r#"check answered err: {"x":1,"y":2}"#);
    assert_eq!(
        document["output"],
        json!({ "code": "err", "details": { "x": 1, "y": 2 } })
    );
    let (document, exit) = call(
        &home,
        "divide-anyway",
        &json!({ "dividend": 0, "divisor": 0 }),
    );
    assert_eq!(
        (exit, &document["output"]["code"]),
        (1, &json!("invalid_output"))
    );
    assert_eq!(document["error"], "at $.quotient: NaN has no form in JSON");
}

#[test]
fn every_limit_holds_for_an_operation() {
    let home = Home::new(&[CALC]);
    home.configure("[limits]\noutput_bytes = 1000\nmemory_bytes = 8388608\nfuel = 200_000_000\n");
    for (operation, input, code, exit) in [
        ("fill", json!({ "bytes": 1100 }), "output_limit", 4),
        ("fill", json!({ "bytes": 7_000_000 }), "output_limit", 4),
        (
            "allocate",
            json!({ "bytes": 16_000_000 }),
            "memory_limit",
            4,
        ),
        ("spin", json!({}), "fuel_limit", 4),
        ("stumble", json!({}), "panic", 1),
    ] {
        let (document, exited) = call(&home, operation, &input);
        assert_eq!(
            (&document["code"], exited),
            (&json!(code), exit),
            "{operation}: {document}"
        );
    }
    home.configure("[limits]\nwall_time_ms = 300\n");
    let (document, _) = call(&home, "spin", &json!({}));
    assert_eq!(document["code"], "time_limit");
}

#[test]
fn operations_are_listed_and_what_is_no_operation_is_named() {
    let home = Home::new(&[CALC]);
    for arguments in [["run", "calc"], ["run", "calc.ad"], ["run", "calc.nothing"]] {
        let ran = home.skillrun(&arguments);
        assert_eq!(ran.exit, Some(5), "{ran:?}");
        assert!(ran.stderr.contains("expected one of "), "{ran:?}");
    }
    let inspected = home
        .skillrun(&["skills", "inspect", "calc", "--json"])
        .json();
    let operations = inspected["operations"].as_array().unwrap();
    let named = |name: &str| operations.iter().find(|o| o["name"] == name).unwrap();
    let add = named("add");
    assert_eq!(add["full_name"], "add");
    let number = json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX });
    assert_eq!(
        add["input_schema"],
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "a": number, "b": number },
            "required": ["a", "b"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        named("kinds.nothing")["full_name"],
        "acme:calc/kinds@1.2.0.nothing"
    );
    let refused = inspected["refused"].to_string();
    for function in [
        "open",
        "close",
        "[constructor]counter",
        "[method]counter.next",
        "[static]counter.fresh",
    ] {
        let full_name = format!("acme:calc/handles@1.2.0.{function}");
        assert!(refused.contains(&full_name), "{full_name}: {refused}");
    }
    assert!(!inspected["operations"].to_string().contains("handles"));
    let shown = home.skillrun(&["skills", "inspect", "calc"]);
    assert!(shown.stdout.contains("operation add"), "{shown:?}");
    assert!(
        shown
            .stdout
            .contains("a resource is among its parameters or results"),
        "{shown:?}"
    );
    assert_eq!(home.skillrun(&["skills", "validate", "calc"]).exit, Some(0));
    assert!(home.run_ids().len() == 3, "nothing is run to describe it");
}

#[test]
fn a_function_is_found_by_every_name_that_it_has() {
    let home = Home::new(&[]);
    let folder = home.path().join("calc.wasm");
    fs::copy(Path::new(CALC.wasm), &folder).unwrap();
    for function in ["wholes", "kinds.wholes", "acme:calc/kinds@1.2.0.wholes"] {
        let ran = home.skillrun(&["run", folder.to_str().unwrap(), "--function", function]);
        assert!(
            ran.stderr.contains("found none named \"a\""),
            "{function}: {ran:?}"
        );
    }
}
