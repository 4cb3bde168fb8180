//! Traces: from a caller's `traceparent` into the ledger, out with every call, and as spans to a collector that
//! decodes what real collectors decode.

mod export;
mod propagation;
mod spans;

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use prost::Message as _;
use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use crate::harness::Home;
use crate::http::server::{Server, ok};
use crate::tools::{python, script};

/// The caller's place in a trace.
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What a model says.
const ANSWER: &str = r#"{"model":"large-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hello!"},
    "finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;

/// A span as either side has it, ready to be compared.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    name: String,
    trace_id: String,
    span_id: String,
    parent: String,
    kind: i64,
    times: (u64, u64),
    status: (i64, String),
    attributes: BTreeMap<String, String>,
}

/// A home with the probe, a server of tools, a model, and a server of the web, each of them a stub.
struct World {
    home: Home,
    web: Server,
    model: Server,
}

impl World {
    fn new(telemetry: &str) -> Self {
        let home = Home::new(&[PROBE, GREET]);
        let web = Server::answering(ok("hi"));
        let length = ANSWER.len();
        let model = Server::answering(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{ANSWER}"
        ));
        let list = json!([
            "tool:h__*",
            "llm:acme/*",
            "skill:greet",
            web.net("/#GET"),
            "approval"
        ]);
        home.write_manifest("probe", &format!("[capabilities]\nrequest = {list}\n"));
        let command = json!([
            python(),
            script("hostile.py"),
            "well",
            home.path().join("journal")
        ]);
        home.configure(&format!(
            "[skills.probe]\ngrant = {list}\n[mcp_servers.h]\ncommand = {command}\n\
             [model_providers.acme]\napi = \"openai\"\nurl = \"{}\"\n{telemetry}",
            model.url("/v1")
        ));
        Self { home, web, model }
    }

    /// An input that lets the probe call everything there is, within a step.
    fn input(&self) -> Value {
        let fetch = json!({ "verb": "http", "url": self.web.url("/a?secret=1") });
        let calls = json!([
            { "call": "tool", "name": "h__echo", "arguments": "{\"q\":\"whisper\"}" },
            { "call": "tool", "name": "h__refuse", "arguments": "{}" },
            { "call": "model", "model": "acme/large" },
            { "call": "skill", "skill": "greet", "input": "{\"name\":\"Ada\"}" },
            { "call": "noted", "verb": fetch },
        ]);
        json!({ "verb": "in_node", "name": "work", "then": { "verb": "calls", "calls": calls } })
    }

    /// Runs that with the binary, called from the place in a trace.
    fn run(&self) -> String {
        let input = self.input().to_string();
        let mut command = self
            .home
            .command(&["run", "probe", "--json", "--input", &input]);
        let ran = crate::harness::Ran::of(command.env("TRACEPARENT", PARENT).output().unwrap());
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        ran.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// The spans that the binary makes of a run and those inside it.
    fn offline(&self, run_id: &str, more: &[&str]) -> Vec<Seen> {
        let ran = self
            .home
            .skillrun(&[&["--json", "runs", "trace", run_id], more].concat());
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let document = ran.json();
        let resource = &document["resourceSpans"][0];
        let service = &resource["resource"]["attributes"][0];
        assert_eq!(service["value"]["stringValue"], "skillrun", "{document}");
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.iter().map(of_json).collect()
    }

    /// The `traceparent` of the one call of a tool of that name that the server of tools read.
    fn parent_of_tool(&self, name: &str) -> Value {
        let journal = std::fs::read_to_string(self.home.path().join("journal")).unwrap();
        let lines = journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut calls =
            lines.filter(|line| line["method"] == "tools/call" && line["params"]["name"] == name);
        let call = calls.next().unwrap();
        assert_eq!(calls.next(), None);
        call["params"]["_meta"]["traceparent"].clone()
    }
}

/// The one span of that name.
#[track_caller]
fn named<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found
        .next()
        .unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert_eq!(found.next(), None);
    span
}

fn of_json(span: &Value) -> Seen {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let time = |key: &str| text(&span[key]).parse().unwrap();
    let attributes = span["attributes"].as_array().unwrap().iter();
    Seen {
        name: text(&span["name"]),
        trace_id: text(&span["traceId"]),
        span_id: text(&span["spanId"]),
        parent: text(&span["parentSpanId"]),
        kind: span["kind"].as_i64().unwrap(),
        times: (time("startTimeUnixNano"), time("endTimeUnixNano")),
        status: (
            span["status"]["code"].as_i64().unwrap_or(0),
            span["status"]["message"].as_str().unwrap_or("").to_owned(),
        ),
        attributes: attributes
            .map(|one| {
                let (_, value) = one["value"].as_object().unwrap().iter().next().unwrap();
                let value = value.as_str().map_or(value.to_string(), str::to_owned);
                (text(&one["key"]), value)
            })
            .collect(),
    }
}

/// A stand-in for a collector, which takes what it is sent.
fn collector() -> Server {
    Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )
}

/// All spans that a collector was sent, decoded.
fn collected(collector: &Server) -> Vec<Seen> {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let mut all = Vec::new();
    for request in collector.seen() {
        assert_eq!(request.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(
            request.header("content-type"),
            Some("application/x-protobuf")
        );
        let body = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
        let [resource] = &body.resource_spans[..] else {
            panic!("{body:?}");
        };
        let of = resource.resource.as_ref().unwrap().attributes.iter();
        let names: Vec<_> = of.map(|one| one.key.as_str()).collect();
        assert!(names.contains(&"service.name") && names.contains(&"service.version"));
        for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            let status = span.status.clone().unwrap_or_default();
            all.push(Seen {
                name: span.name.clone(),
                trace_id: hex(&span.trace_id),
                span_id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind.into(),
                times: (span.start_time_unix_nano, span.end_time_unix_nano),
                status: (status.code.into(), status.message),
                attributes: span
                    .attributes
                    .iter()
                    .map(|one| {
                        let value = one.value.as_ref().unwrap().value.as_ref().unwrap();
                        let value = match value {
                            AnyValue::StringValue(text) => text.clone(),
                            AnyValue::BoolValue(flag) => flag.to_string(),
                            AnyValue::IntValue(number) => number.to_string(),
                            AnyValue::DoubleValue(number) => json!(number).to_string(),
                            other => panic!("{other:?}"),
                        };
                        (one.key.clone(), value)
                    })
                    .collect(),
            });
        }
    }
    all
}
