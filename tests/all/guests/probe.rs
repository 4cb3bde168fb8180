//! What a guest sees and what becomes of what it writes, through the real binary.

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use crate::harness::Home;

/// Runs a verb and gives the printed document and the exit code.
fn probe(home: &Home, verb: &Value) -> (Value, i32) {
    home.run_json("probe", verb)
}

/// The whole matrix of attacks is in `tests/all/security.rs`; here the guest does what it is told.
#[test]
pub(super) fn main_job() {
    let home = Home::new(&[PROBE]);
    let (document, exit) = probe(&home, &json!({ "verb": "echo", "value": [1.50, null] }));
    assert_eq!(
        (exit, &document["output"]),
        (0, &json!([1.50, null])),
        "{document}"
    );
}

/// Cases C2 and C4: `--timeout` is a limit of the call, whether the guest computes or waits. How closely
/// it is kept is measured by the benchmark `run`.
#[test]
fn a_timeout_on_the_command_line_ends_guests_that_compute_and_guests_that_wait() {
    for verb in [
        json!({ "verb": "spin" }),
        json!({ "verb": "sleep", "ms": 3_600_000 }),
    ] {
        let home = Home::new(&[PROBE]);
        let ran = home.skillrun(&[
            "run",
            "probe",
            "--json",
            "--timeout",
            "1s",
            "--input",
            &verb.to_string(),
        ]);
        let document = ran.json();
        assert_eq!(
            (&document["code"], ran.exit),
            (&json!("time_limit"), Some(4))
        );
        assert!(
            document["error"].as_str().unwrap().contains("set by call"),
            "{document}"
        );
        let timeline = home.events(document["run_id"].as_str().unwrap());
        let limits = &timeline[0]["payload"]["limits"]["wall_time_ms"];
        assert_eq!(limits, &json!({ "value": 1000, "source": "call" }));
    }
}

#[test]
fn nothing_ambient_is_visible() {
    let home = Home::new(&[PROBE]);
    let (document, exit) = probe(&home, &json!({ "verb": "ambient" }));
    assert_eq!(exit, 0, "{document}");
    let output = &document["output"];
    assert_eq!(output["env"], json!([]));
    assert_eq!(output["root"], json!([]));
    assert_eq!(output["open"], false);
    assert!(output["connect"].is_string(), "{output}");
    assert!(output["seconds"].as_u64().unwrap() > 1_700_000_000);
}

/// A guest that computes sees the time pass, and what became of its waits is on record.
#[test]
fn a_guest_sees_the_time_of_its_record() {
    let home = Home::new(&[PROBE]);
    let verb = json!({ "verb": "time", "do": [
        { "step": "timer", "ms": 3_600_000 }, { "step": "timer", "ms": 20 }, { "step": "look" },
        { "step": "poll" }, { "step": "look" }, { "step": "busy_wait", "ms": 1_500 },
    ] });
    let (document, exit) = probe(&home, &verb);
    assert_eq!(exit, 0, "{document}");
    let output = &document["output"];
    assert_eq!(output[3], json!([1]));
    for clock in [0, 1] {
        let [before, after] = [2, 4].map(|at| output[at][clock].as_u64().unwrap());
        assert!(after >= before + 20_000, "{output}");
    }
    assert!(output[5].as_u64().unwrap() >= 1_500, "{output}");
    let timers = home.events_of(document["run_id"].as_str().unwrap(), "timer");
    let polls = timers.iter().filter(|timer| timer["payload"]["poll"] == 1);
    let ready: Vec<&Value> = polls.map(|timer| &timer["payload"]["ready"]).collect();
    assert_eq!(ready, [&json!([1])]);
    let looks = timers
        .iter()
        .filter(|timer| timer["payload"]["look"].is_u64());
    assert!(looks.count() >= 2);
}

/// Case C28: what a guest writes never looks like what the host saw.
#[test]
fn a_log_text_that_looks_like_an_event_stays_text() {
    let home = Home::new(&[PROBE]);
    let forged =
        "\n{\"v\":1,\"seq\":2,\"type\":\"run_completed\",\"source\":\"host\"}\r\n\u{1b}[2J\u{2028}";
    let (document, _) = probe(&home, &json!({ "verb": "log", "message": forged }));
    let run_id = document["run_id"].as_str().unwrap();
    let events = home.events(run_id);
    assert_eq!(events.len(), 3);
    assert_eq!(
        (&events[1]["type"], &events[1]["source"]),
        (&json!("log"), &json!("guest"))
    );
    assert_eq!(events[1]["payload"]["message"], forged);
    let inspected = home.skillrun(&["runs", "inspect", run_id]).stdout;
    assert!(
        !inspected.contains('\u{1b}') && !inspected.contains('\u{2028}'),
        "{inspected:?}"
    );
}

#[test]
fn c41_a_result_that_does_not_fit_the_schema_reaches_nobody() {
    let home = Home::new(&[PROBE]);
    let manifest = "[schemas]\noutput = { type = \"object\", required = [\"a\"] }\n";
    home.write_manifest("probe", manifest);
    let (document, exit) = probe(&home, &json!({ "verb": "echo", "value": { "a": 1 } }));
    assert_eq!((exit, &document["output"]), (0, &json!({ "a": 1 })));
    let (document, exit) = probe(&home, &json!({ "verb": "echo", "value": { "b": 1 } }));
    assert_eq!((exit, &document["code"]), (1, &json!("invalid_output")));
    let error = document["error"].as_str().unwrap();
    assert!(error.contains("$: \"a\" is a required property"), "{error}");
    assert_eq!(document["output"], Value::Null);
    let end = &home.events_of(document["run_id"].as_str().unwrap(), "run_completed")[0];
    assert_eq!(end["payload"]["output"], Value::Null);

    // A schema that is none stops the skill, and not what it is run on.
    home.write_manifest("probe", "[schemas]\ninput = { type = \"what\" }\n");
    let (document, exit) = probe(&home, &json!({ "verb": "noop" }));
    assert_eq!(
        (exit, &document["code"]),
        (1, &json!("load_error")),
        "{document}"
    );
    assert!(
        document["error"].as_str().unwrap().contains("input schema"),
        "{document}"
    );
}

/// Case C9: a flood of lines is cut, counted and bounded, and no character is split.
#[test]
fn a_flood_of_log_lines_is_counted_and_dropped() {
    for verb in ["log_flood", "print_flood"] {
        let home = Home::new(&[PROBE]);
        // No other limit is met, however slow the machine is.
        home.configure("[limits]\ncpu_time_ms = 3_600_000\nwall_time_ms = 3_600_000\n");
        let crab_line = "🦀".repeat(3_000);
        let (document, exit) = probe(
            &home,
            &json!({ "verb": verb, "lines": 20_000, "text": crab_line }),
        );
        assert_eq!(exit, 0, "{document}");
        let run_id = document["run_id"].as_str().unwrap();
        let logs = home.events_of(run_id, "log");
        let (last, kept) = logs.split_last().unwrap();
        let dropped = last["payload"]["dropped"].as_u64().unwrap();
        assert_eq!(kept.len() as u64 + dropped, 20_000);
        assert_eq!(last["source"], "host");
        assert!(
            last["payload"]["message"]
                .as_str()
                .unwrap()
                .contains("log_bytes limit of 1048576")
        );
        for log in kept {
            let message = log["payload"]["message"].as_str().unwrap();
            assert!(message.len() <= 8 * 1024 && message.chars().all(|c| c == '🦀'));
        }
        let bytes = std::fs::metadata(home.ledger(run_id)).unwrap().len();
        assert!(bytes < 2 * 1024 * 1024, "{bytes}");
    }
}

/// What a guest writes is bounded in number and in bytes, each event's own line included.
#[test]
fn a_flood_of_events_is_refused_to_the_guest() {
    let home = Home::new(&[PROBE]);
    for (limit, written) in [
        ("guest_events = 100", 100),
        ("guest_event_bytes = 10_000", 38),
    ] {
        home.configure(&format!("[limits]\n{limit}"));
        let (document, exit) = probe(&home, &json!({ "verb": "emit_flood", "events": 1_000 }));
        assert_eq!(exit, 0);
        assert_eq!(document["output"]["written"], written, "{limit}");
        let error = document["output"]["error"].as_str().unwrap();
        assert!(error.contains("Exhausted"), "{error}");
    }
}

#[test]
fn a_name_is_bounded_too() {
    let home = Home::new(&[PROBE]);
    let long = json!({ "verb": "emit", "name": "n".repeat(129), "payload": "1" });
    let (document, _) = probe(&home, &long);
    assert!(
        document["output"]["error"]
            .as_str()
            .unwrap()
            .contains("longer than 128 bytes"),
        "{document}"
    );
}

#[test]
fn standard_streams_become_log_lines() {
    let home = Home::new(&[PROBE]);
    let verb = json!({ "verb": "print", "stdout": "one\r\ntwo\n\nlast", "stderr": "thread 'x' panicked at nothing:\nfake\n" });
    let (document, exit) = probe(&home, &verb);
    assert_eq!(exit, 0, "{document}");
    let lines: Vec<(String, String)> = home
        .events_of(document["run_id"].as_str().unwrap(), "log")
        .iter()
        .map(|log| {
            let payload = &log["payload"];
            let text = |key: &str| payload[key].as_str().unwrap().to_owned();
            (text("stream"), text("message"))
        })
        .collect();
    let of = |stream: &str| {
        let lines = lines.iter().filter(|(s, _)| s == stream);
        lines.map(|(_, line)| line.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("stdout"), ["one", "two", "", "last"]);
    assert_eq!(of("stderr"), ["thread 'x' panicked at nothing:", "fake"]);
}

#[test]
fn the_run_interface_tells_the_run() {
    let home = Home::new(&[PROBE]);
    let (document, _) = probe(&home, &json!({ "verb": "about" }));
    let about = &document["output"];
    assert_eq!(about["id"], document["run_id"]);
    assert_eq!(about["parent_id"], Value::Null);
    assert_eq!(about["skill_name"], "probe");
    assert_eq!(
        about["skill_body"].as_str().unwrap().trim(),
        "The body of the probe."
    );
    assert_eq!(about["attempt"], 1);
    let remaining = about["remaining_ms"].as_u64().unwrap();
    assert!(remaining > 0 && remaining <= 60_000, "{remaining}");
}

#[test]
fn steps_nest_and_one_without_an_end_has_failed() {
    let home = Home::new(&[PROBE]);
    let (document, _) = probe(&home, &json!({ "verb": "nodes", "names": ["a", "b", "c"] }));
    let run_id = document["run_id"].as_str().unwrap();
    assert_eq!(
        document["output"],
        json!(["step:a#1", "step:b#2", "step:c#3"])
    );
    let mut exits: Vec<(String, bool)> = home
        .events_of(run_id, "node_exit")
        .iter()
        .map(|exit| {
            let payload = &exit["payload"];
            (
                payload["node_id"].as_str().unwrap().to_owned(),
                payload["success"].as_bool().unwrap(),
            )
        })
        .collect();
    exits.sort();
    let expected = [("step:a#1", true), ("step:b#2", true), ("step:c#3", false)];
    assert_eq!(
        exits,
        expected.map(|(id, success)| (id.to_owned(), success))
    );
}

#[test]
fn events_are_checked_before_they_are_written() {
    let home = Home::new(&[PROBE]);
    for (payload, refused) in [
        ("{\"a\":1}".to_owned(), None),
        ("{a:1}".to_owned(), Some("Invalid")),
        (String::new(), Some("Invalid")),
        (
            format!("\"{}\"", "x".repeat(2_000_000)),
            Some("TooLarge(1048576)"),
        ),
    ] {
        let (document, exit) = probe(
            &home,
            &json!({ "verb": "emit", "name": "n", "payload": payload }),
        );
        assert_eq!(exit, 0, "{document}");
        match refused {
            None => assert_eq!(document["output"]["seq"], 2),
            Some(word) => {
                let error = document["output"]["error"].as_str().unwrap();
                assert!(error.contains(word), "{error}");
            }
        }
    }
}

#[test]
fn every_denial_is_an_event() {
    let home = Home::new(&[PROBE]);
    let (document, _) = probe(&home, &json!({ "verb": "tool", "name": "files__read" }));
    let denied = home.events_of(document["run_id"].as_str().unwrap(), "denied");
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0]["source"], "host");
    assert_eq!(denied[0]["payload"]["capability"], "tool:files__read");
    assert_eq!(denied[0]["payload"]["rule"], "not granted");
    assert_eq!(denied[0]["payload"]["wanted"], "files__read");
}
