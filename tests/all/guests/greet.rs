//! `greet`, as a user runs it: the result is printed, and the ledger it leaves verifies.

use serde_json::json;
use skillrun_test_artifacts::GREET;

use crate::harness::Home;

#[test]
pub(super) fn main_job() {
    let home = Home::new(&[GREET]);
    let ran = home.skillrun(&["run", "greet", "--input", r#"{"name":"Ada"}"#]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let result = ran.json();
    assert_eq!(result["greeting"], "Hello, Ada!");

    let run_id = result["run_id"].as_str().unwrap();
    assert_eq!(home.run_ids(), [run_id]);
    let kinds: Vec<String> = home
        .events(run_id)
        .iter()
        .map(|event| {
            format!(
                "{} {}",
                event["source"].as_str().unwrap(),
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "host run_started",
            "guest node_enter",
            "guest node_exit",
            "guest log",
            "guest custom",
            "host run_completed",
        ]
    );

    let inspected = home.skillrun(&["runs", "inspect", run_id]);
    assert_eq!(inspected.exit, Some(0));
    for part in [
        "run_started",
        "step:compose#1",
        "greeted",
        "run_completed",
        "Hello, Ada!",
    ] {
        assert!(
            inspected.stdout.contains(part),
            "{part}: {}",
            inspected.stdout
        );
    }
    assert_eq!(home.skillrun(&["runs", "verify", run_id]).exit, Some(0));
}

#[test]
fn the_first_event_says_what_the_run_was_held_to() {
    let home = Home::new(&[GREET]);
    home.configure("[limits]\nfuel = 1_000_000_000");
    let (document, _) = home.run_json("greet", &json!({ "name": "Ada" }));
    let started = &home.events(document["run_id"].as_str().unwrap())[0]["payload"];
    assert_eq!(started["skill"], "greet");
    assert_eq!(started["flavor"], "rust");
    assert_eq!(started["input"], json!({ "name": "Ada" }));
    assert_eq!(
        started["limits"]["fuel"],
        json!({ "value": 1_000_000_000, "source": "config" })
    );
    assert_eq!(started["limits"]["wall_time_ms"]["source"], "default");
    assert_eq!(started["policy"]["effective"], json!([]));
    for digest in ["component_digest", "input_digest", "seed"] {
        assert_eq!(started[digest].as_str().unwrap().len(), 64, "{digest}");
    }
}

#[test]
fn c40_input_that_does_not_fit_is_refused_before_the_guest_runs() {
    let home = Home::new(&[GREET]);
    for (input, parts) in [
        (json!({ "nam": "Ada" }), ["$: ", "'nam'"]),
        (json!({ "name": 5 }), ["$.name: 5", "\"string\""]),
        (json!({ "name": "" }), ["$.name: ", "1 character"]),
    ] {
        let (document, exit) = home.run_json("greet", &input);
        assert_eq!((exit, &document["code"]), (2, &json!("invalid_input")));
        let error = document["error"].as_str().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        let run_id = document["run_id"].as_str().unwrap();
        let kinds = home
            .events(run_id)
            .into_iter()
            .map(|event| event["type"].clone());
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, ["run_started", "error", "run_completed"]);
        let explanation = home.skillrun(&["runs", "explain", "--json", run_id]).json();
        assert_eq!(explanation["cause"]["kind"], "input");
    }
}
