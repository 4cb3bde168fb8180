//! Where a trace comes from and where it goes.

use serde_json::json;
use skillrun_test_artifacts::GREET;

use super::{PARENT, TRACE_ID, World, named};
use crate::api::Daemon;
use crate::harness::Home;

#[test]
fn every_call_carries_the_span_that_it_has_on_record() {
    let world = World::new("");
    let run_id = world.run();
    let started = &world.home.events_of(&run_id, "run_started")[0]["payload"];
    assert_eq!(started["trace_id"], TRACE_ID);
    assert_eq!(started["parent_span_id"], "00f067aa0ba902b7");

    let spans = world.offline(&run_id, &[]);
    assert!(
        spans.iter().all(|span| span.trace_id == TRACE_ID),
        "{spans:#?}"
    );
    let carried = |name: &str| format!("00-{TRACE_ID}-{}-01", named(&spans, name).span_id);
    let parent_at = |server: &crate::http::server::Server| {
        let seen = server.seen();
        let [request] = &seen[..] else {
            panic!("{seen:?}")
        };
        request.header("traceparent").map(str::to_owned)
    };
    assert_eq!(parent_at(&world.web), Some(carried("GET")));
    assert_eq!(parent_at(&world.model), Some(carried("chat large")));
    let at_tool = world.parent_of_tool("echo");
    assert_eq!(at_tool, carried("execute_tool h__echo"));

    // It is in nobody's record, and so the run does the same when it is done again.
    for event in world.home.events_of(&run_id, "http_call") {
        assert!(!event.to_string().contains(TRACE_ID), "{event}");
    }
    let replayed = world.home.skillrun(&["runs", "replay", &run_id]);
    assert_eq!(replayed.exit, Some(0), "{replayed:?}");
}

#[test]
fn nothing_is_handed_on_where_that_is_switched_off_and_a_guests_own_is_kept() {
    let world = World::new("[telemetry]\npropagate = false\n");
    let run_id = world.run();
    assert!(world.web.seen()[0].header("traceparent").is_none());
    assert!(world.model.seen()[0].header("traceparent").is_none());
    assert_eq!(world.parent_of_tool("echo"), json!(null));
    // Runs inside are in the trace nevertheless.
    let spans = world.offline(&run_id, &[]);
    assert!(
        spans.iter().all(|span| span.trace_id == TRACE_ID),
        "{spans:#?}"
    );

    let world = World::new("");
    let own = PARENT.replace('4', "5");
    let headers = json!([["traceparent", own], ["tracestate", "a=1"]]);
    let fetch = json!({ "verb": "http", "url": world.web.url("/"), "headers": headers });
    let (document, exit) = world.home.run_json("probe", &fetch);
    assert_eq!(exit, 0, "{document}");
    let request = &world.web.seen()[0];
    assert_eq!(request.header("traceparent"), Some(own.as_str()));
    assert_eq!(request.header("tracestate"), Some("a=1"));
}

#[test]
fn a_variable_that_is_no_traceparent_is_told_of_and_the_run_has_a_trace_of_its_own() {
    let world = World::new("");
    let noop = ["run", "probe", "--json", "--input", r#"{"verb":"noop"}"#];
    let of = |parent: &str, state: &str| {
        let mut command = world.home.command(&noop);
        command.env("TRACEPARENT", parent).env("TRACESTATE", state);
        let ran = crate::harness::Ran::of(command.output().unwrap());
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let run_id = ran.json()["run_id"].as_str().unwrap().to_owned();
        let started = world.home.events_of(&run_id, "run_started")[0]["payload"].clone();
        (started, ran.stderr)
    };
    let mut seen = Vec::new();
    for hostile in [
        &PARENT[1..],
        &PARENT.to_uppercase(),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        &"0".repeat(100_000),
    ] {
        let (started, stderr) = of(hostile, "");
        assert!(stderr.contains("TRACEPARENT"), "{stderr}");
        assert_eq!(started.get("parent_span_id"), None, "{started}");
        seen.push(started["trace_id"].as_str().unwrap().to_owned());
    }
    let (started, stderr) = of(&PARENT.replace("-01", "-00"), "this is none");
    assert_eq!(
        (&started["trace_id"], stderr.as_str()),
        (&json!(TRACE_ID), "")
    );
    assert_eq!(started["trace_unsampled"], true);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "each has its own: {seen:?}");
}

#[test]
fn a_request_for_a_run_places_it_in_the_trace_of_its_caller() {
    let home = Home::new(&[GREET]);
    let daemon = Daemon::start(&home);
    let start = |headers: &[String]| {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let body = json!({ "skill_name": "greet", "input": { "name": "Ada" } }).to_string();
        let answer = daemon.request("POST", "/api/agent/runs", &headers, Some(&body));
        assert_eq!(answer.status, 202, "{answer:?}");
        let run_id = answer.json()["run_id"].as_str().unwrap().to_owned();
        home.wait_for_event(&run_id, "run_completed");
        (
            home.events_of(&run_id, "run_started")[0]["payload"].clone(),
            run_id,
        )
    };
    let field = |value: &str| format!("traceparent: {value}");
    let (started, run_id) = start(&[field(PARENT), "tracestate: a=1".to_owned()]);
    assert_eq!(started["trace_id"], TRACE_ID);
    assert_eq!(started["parent_span_id"], "00f067aa0ba902b7");
    for hostile in [
        vec![field(PARENT), field(PARENT)],
        vec![field(&PARENT.to_uppercase())],
        vec![field(&format!("{PARENT}{}", "0".repeat(4_000)))],
        vec![field("")],
    ] {
        let (started, _) = start(&hostile);
        assert_ne!(started["trace_id"], TRACE_ID, "{hostile:?}");
        assert_eq!(started.get("parent_span_id"), None, "{started}");
    }

    // A run that begins from a step of another is in the trace of whoever wants that.
    let own = PARENT.replace(TRACE_ID, &TRACE_ID.replace('4', "5"));
    let body = json!({ "from_node": "step:compose#1" }).to_string();
    let path = format!("/api/agent/runs/{run_id}/resume");
    let answer = daemon.request("POST", &path, &[&field(&own)], Some(&body));
    assert_eq!(answer.status, 202, "{answer:?}");
    let again = answer.json()["run_id"].as_str().unwrap().to_owned();
    home.wait_for_event(&again, "run_completed");
    let resumed = &home.events_of(&again, "run_resumed")[0]["payload"];
    assert_eq!(resumed["trace_id"], TRACE_ID.replace('4', "5"));
    let trace = home.skillrun(&["--json", "runs", "trace", &again]).json();
    let root = &trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(root["traceId"], TRACE_ID.replace('4', "5"), "{trace}");
}
