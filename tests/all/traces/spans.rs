//! Spans as they are made from ledgers and printed.

use std::time::Duration;

use serde_json::{Value, json};
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{Event, Json, Origin, RunStarted, Store, StoreOptions};

use super::{TRACE_ID, World, named};
use crate::harness::Home;

#[test]
fn what_a_run_did_is_told_by_the_names_of_the_conventions() {
    let world = World::new("");
    let run_id = world.run();
    let spans = world.offline(&run_id, &[]);
    let step = named(&spans, "work");
    let root = &spans[0];
    assert_eq!(
        (root.name.as_str(), root.parent.as_str()),
        ("invoke_agent probe", "00f067aa0ba902b7")
    );
    assert_eq!(step.parent, root.span_id);
    for (name, kind, key, value) in [
        ("execute_tool h__echo", 3, "gen_ai.tool.name", "h__echo"),
        ("execute_tool h__refuse", 3, "error.type", "failed"),
        ("chat large", 3, "gen_ai.provider.name", "acme"),
        ("GET", 3, "http.response.status_code", "200"),
    ] {
        let span = named(&spans, name);
        assert_eq!(
            (span.parent.as_str(), span.kind),
            (step.span_id.as_str(), kind),
            "{span:?}"
        );
        assert_eq!(span.attributes[key], value, "{span:?}");
        assert!(
            span.times.0 <= span.times.1 && root.times.0 <= span.times.0,
            "{span:?}"
        );
    }
    let asked = &named(&spans, "chat large").attributes;
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "large"),
        ("gen_ai.usage.input_tokens", "7"),
        ("gen_ai.usage.output_tokens", "3"),
    ] {
        assert_eq!(asked[key], value, "{asked:?}");
    }
    let refused = named(&spans, "execute_tool h__refuse");
    assert_eq!(refused.status, (2, "failed".to_owned()));
    let fetched = named(&spans, "GET");
    assert_eq!(fetched.attributes["url.full"], world.web.url("/a"));

    // The run inside is below the call that began it.
    let inside: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "invoke_agent greet")
        .collect();
    let [call, child] = inside[..] else {
        panic!("{inside:#?}")
    };
    assert_eq!((call.kind, child.kind), (3, 1));
    assert_eq!(
        (&call.parent, &child.parent),
        (&step.span_id, &call.span_id)
    );
    assert_eq!(
        call.attributes["skillrun.child_run.id"],
        child.attributes["skillrun.run.id"]
    );
    assert_eq!(
        spans,
        world.offline(&run_id, &[]),
        "the same ledger, the same spans"
    );
}

#[test]
fn what_was_asked_and_answered_is_told_only_when_it_is_asked_for() {
    let world = World::new("");
    let run_id = world.run();
    let said = |spans: Vec<super::Seen>| format!("{spans:?}");
    let without = said(world.offline(&run_id, &[]));
    for content in ["whisper", "Hello", "secret=1", "Ada", "hunter2"] {
        assert!(!without.contains(content), "{content}: {without}");
    }
    let spans = world.offline(&run_id, &["--content"]);
    let echo = &named(&spans, "execute_tool h__echo").attributes;
    assert_eq!(echo["gen_ai.tool.call.arguments"], r#"{"q":"whisper"}"#);
    assert!(
        echo["gen_ai.tool.call.result"].contains("whisper"),
        "{echo:?}"
    );
    let with = said(spans);
    for content in ["Hello", "secret=1", "Ada"] {
        assert!(with.contains(content), "{content}: {with}");
    }
}

const RUN_ID: &str = "run_0190a0a0a0a07000800000000000abcd";

/// A home with a ledger of these events, each of them ten milliseconds after the one before, unless it says
/// how many.
fn ledger(events: &[(Origin, &str, Value, u64)]) -> Home {
    let home = Home::new(&[]);
    let clock = Clock::manual(Timestamp::from_unix_micros(1_778_691_736_000_000));
    let store = Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: clock.clone(),
    });
    let store = store.unwrap();
    let run_id: RunId = RUN_ID.parse().unwrap();
    let started = RunStarted {
        skill: "mill".to_owned(),
        input: Json::parse("{}").unwrap(),
        trace_id: Some(TRACE_ID.to_owned()),
        ..RunStarted::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut recorder, _) = runtime
        .block_on(store.create(run_id.clone(), started))
        .unwrap();
    for (origin, kind, payload, millis) in events {
        clock.advance(Duration::from_millis(*millis));
        if *kind == "run_resumed" {
            drop(recorder);
            recorder = runtime.block_on(store.take_up(&run_id)).unwrap().0;
        }
        let event = Event::decode(kind, &Json::parse(&payload.to_string()).unwrap());
        recorder.record(*origin, &event).unwrap();
    }
    home
}

/// A run that waits for a person, is suspended for an hour meanwhile, and fails.
fn suspended_run() -> Home {
    use Origin::{Guest, Host};
    let step = "step:grind#1";
    let enter = json!({ "node_id": step, "node_name": "grind" });
    let call = json!({ "call_id": "tool#1", "node_id": step, "name": "t__a\u{1b}[2J" });
    let result = json!({ "call_id": "tool#1", "output": 1, "duration_micros": 9_500 });
    let exit = json!({ "node_id": step, "duration_micros": 30_000, "success": true });
    let request = json!({ "approval_id": "approval#1", "prompt": "May I?" });
    let suspended = json!({ "status": "suspended", "code": "interrupted" });
    let resumed = json!({ "attempt": 1, "reason": "decided" });
    let response = json!({ "approval_id": "approval#1", "approved": true, "source": "cli" });
    let failed = json!({ "status": "error", "code": "skill_error", "error": "no corn" });
    ledger(&[
        (Guest, "node_enter", enter, 10),
        (Host, "tool_call", call, 10),
        (Host, "tool_result", result, 10),
        (Guest, "node_exit", exit, 10),
        (Host, "approval_request", request, 10),
        (Host, "run_completed", suspended, 60_000),
        (Host, "run_resumed", resumed, 3_600_000),
        (Host, "approval_response", response, 10),
        (Host, "run_completed", failed, 10),
    ])
}

#[test]
fn a_run_is_printed_as_a_tree() {
    let ran = suspended_run().skillrun(&["runs", "trace", RUN_ID]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let expected = "\
trace 4bf92f3577b34da6a3ce929d0e0e4736
   +0.000s     60.0 s  invoke_agent mill
   +0.010s    30.0 ms    grind
   +0.020s     9.5 ms      execute_tool t__a\\u{1b}[2J
   +0.050s     60.0 s    approval  (cut off)
+3660.050s    20.0 ms  invoke_agent mill  error: skill_error
   +0.050s   3660.0 s    approval
";
    assert_eq!(ran.stdout, expected);
}

#[test]
fn a_run_that_is_cut_off_again_and_again_has_no_more_spans_than_any() {
    let (steps, parts) = (8_000, 4);
    let enter = |n| json!({ "node_id": format!("step:s#{n}"), "node_name": "s" });
    let mut events: Vec<_> = (1..=steps)
        .map(|n| (Origin::Guest, "node_enter", enter(n), 0))
        .collect();
    for attempt in 1..parts {
        let interrupted = json!({ "status": "interrupted", "code": "interrupted" });
        let resumed = json!({ "attempt": attempt, "reason": "restart" });
        events.push((Origin::Host, "run_completed", interrupted, 10));
        events.push((Origin::Host, "run_resumed", resumed, 10));
    }
    let home = ledger(&events);
    let trace = || home.skillrun(&["runs", "trace", RUN_ID, "--json"]);
    let document = trace().json();
    let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    let spans: Vec<_> = spans.unwrap().iter().map(super::of_json).collect();
    // Each part has one for itself beside those.
    assert_eq!(spans.len(), 20_000 + parts);
    let dropped = spans
        .iter()
        .filter_map(|span| span.attributes.get("skillrun.spans_dropped"));
    let dropped: usize = dropped.map(|many| many.parse::<usize>().unwrap()).sum();
    assert_eq!(dropped, steps * parts - 20_000);
    assert!(document == trace().json(), "which are left out is settled");
}

#[test]
fn a_ledger_of_which_no_trace_is_known_has_no_spans() {
    let home = Home::new(&[]);
    let original = include_str!("../ledger/original.jsonl");
    let first: Value = serde_json::from_str(original.lines().next().unwrap()).unwrap();
    let run_id = first["run_id"].as_str().unwrap();
    std::fs::create_dir_all(home.path().join("runs")).unwrap();
    std::fs::write(home.ledger(run_id), original).unwrap();
    let ran = home.skillrun(&["runs", "trace", run_id]);
    assert_eq!(
        (ran.exit, ran.stderr.as_str()),
        (Some(1), "error: this ledger names no trace\n")
    );
}
