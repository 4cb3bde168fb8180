//! Messages.

use serde_json::json;
use skillrun::call::{Effect, ModelChunk, ModelRequest, Part, StopReason, ToolDefinition};

use super::{
    ask, at, body, chunks, conversation, json_response, model, only, question, start,
    stream_response, tool_use,
};
use crate::http::server::Server;

const WHOLE: &str = r#"{
  "id": "msg_1", "type": "message", "role": "assistant", "model": "large-1",
  "content": [
    { "type": "thinking", "thinking": "hm", "signature": "x" },
    { "type": "text", "text": "Let me see." },
    { "type": "tool_use", "id": "1", "name": "search", "input": {"q":"a"} },
    { "type": "tool_use", "id": "2", "name": "search", "input": {} }
  ],
  "stop_reason": "tool_use", "stop_sequence": null,
  "usage": {
    "input_tokens": 100, "output_tokens": 10,
    "cache_read_input_tokens": 30, "cache_creation_input_tokens": 20
  }
}"#;

const STREAM: &str = "\
event: message_start\n\
data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"large-1\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":5,\"cache_creation_input_tokens\":0,\"output_tokens\":1}}}\n\n\
event: content_block_start\n\
data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: ping\n\
data: {\"type\":\"ping\"}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n\
event: content_block_stop\n\
data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
event: content_block_start\n\
data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web\",\"input\":{}}}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n\
event: content_block_stop\n\
data: {\"type\":\"content_block_stop\",\"index\":1}\n\n\
event: content_block_start\n\
data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"search\",\"input\":{}}}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":\"}}\n\n\
event: content_block_delta\n\
data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"a\\\"}\"}}\n\n\
event: content_block_stop\n\
data: {\"type\":\"content_block_stop\",\"index\":2}\n\n\
event: message_delta\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}\n\n\
event: message_stop\n\
data: {\"type\":\"message_stop\"}\n\n";

#[tokio::test]
async fn a_whole_answer_comes_with_its_price() {
    let server = Server::answering(json_response(WHOLE));
    let prices = "prices.large = { input = 3, output = 15, cache_read = 0.3, cache_write = 3.75 }";
    let answer = ask(&at("anthropic", &server, prices)).await.unwrap();
    assert_eq!(
        answer.content,
        [
            Part::Text("Let me see.".to_owned()),
            Part::ToolUse(tool_use("1", r#"{"q":"a"}"#)),
            Part::ToolUse(tool_use("2", "{}")),
        ]
    );
    assert_eq!(answer.stop_reason, StopReason::ToolUse);
    assert_eq!(answer.model, "large-1");
    let usage = answer.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (150, 10));
    assert_eq!(
        (usage.cache_read_tokens, usage.cache_write_tokens),
        (30, 20)
    );
    let cost_usd = (100.0 * 3.0 + 30.0 * 0.3 + 20.0 * 3.75 + 10.0 * 15.0) / 1e6;
    assert!((usage.cost_usd - cost_usd).abs() < 1e-12, "{usage:?}");

    let seen = only(&server);
    assert_eq!(seen.line, "POST /v1/messages HTTP/1.1");
    for (field, value) in [
        ("x-api-key", super::KEY),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(seen.header(field), Some(value), "{field}");
    }
    assert_eq!(seen.header("authorization"), None);
    let content = json!([{ "type": "text", "text": "hi" }]);
    assert_eq!(
        body(&seen),
        json!({
            "model": "large",
            "max_tokens": 8192,
            "messages": [{ "role": "user", "content": content }],
        })
    );
}

#[tokio::test]
async fn a_request_is_mapped_whole() {
    let server = Server::answering(json_response(WHOLE));
    let request = ModelRequest {
        system: Some("be brief".to_owned()),
        messages: conversation(),
        tools: vec![ToolDefinition {
            name: "search".to_owned(),
            description: "finds".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            effect: Effect::Read,
        }],
        output_tokens_max: Some(500),
        temperature: Some(0.5),
        stop: vec!["END".to_owned()],
        output_schema: Some(
            r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}"#.to_owned(),
        ),
        ..question()
    };
    let models = at("anthropic", &server, "");
    models.generate(&model(), request).await.unwrap();
    assert_eq!(
        body(&only(&server)),
        json!({
            "model": "large",
            "max_tokens": 500,
            "system": "be brief",
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
                { "role": "assistant", "content": [
                    { "type": "text", "text": "let me see" },
                    { "type": "tool_use", "id": "1", "name": "search", "input": { "q": "a" } },
                    { "type": "tool_use", "id": "2", "name": "search", "input": { "q": "b" } },
                ] },
                // Both answers are in one message, or the API refuses them.
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "1", "content": "found" },
                    {
                        "type": "tool_result",
                        "tool_use_id": "2",
                        "content": "broken",
                        "is_error": true,
                    },
                ] },
            ],
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "tools": [{
                "name": "search",
                "description": "finds",
                "input_schema": { "type": "object" },
            }],
            "output_config": { "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": { "n": { "type": "integer" } },
                    "additionalProperties": false,
                },
            } },
        })
    );
}

#[tokio::test]
async fn a_stream_gives_text_as_it_comes_and_tools_whole() {
    let server = Server::answering(stream_response(STREAM));
    let models = at("anthropic", &server, "");
    let mut stream = start(&models).await.unwrap();
    let first = stream.next().await.unwrap();
    assert_eq!(first, ModelChunk::Text("Hello".to_owned()));
    // What was told at the beginning counts, should nobody wait for the rest.
    let usage = stream.usage();
    assert_eq!((usage.input_tokens, usage.output_tokens), (30, 1));
    let (chunks, error) = chunks(stream).await;
    assert_eq!(error, None);
    let Some((ModelChunk::Done(done), before)) = chunks.split_last() else {
        panic!("{chunks:?}")
    };
    assert_eq!(before, [ModelChunk::ToolUse(tool_use("1", r#"{"q":"a"}"#))]);
    assert_eq!(
        done.content,
        [
            Part::Text("Hello".to_owned()),
            Part::ToolUse(tool_use("1", r#"{"q":"a"}"#)),
        ]
    );
    assert_eq!(done.stop_reason, StopReason::ToolUse);
    assert_eq!(
        (done.usage.input_tokens, done.usage.output_tokens),
        (30, 15)
    );
    assert_eq!(done.usage.cache_read_tokens, 5);
    assert_eq!(body(&only(&server))["stream"], true);
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    for (word, reason) in [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::TokenLimit),
        ("model_context_window_exceeded", StopReason::TokenLimit),
        ("stop_sequence", StopReason::StopSequence),
        ("refusal", StopReason::Refusal),
        ("something_new", StopReason::EndTurn),
    ] {
        let whole = json!({
            "type": "message",
            "content": [{ "type": "text", "text": "a" }],
            "stop_reason": word,
            "usage": { "input_tokens": 1, "output_tokens": 1 },
        });
        let server = Server::answering(json_response(&whole.to_string()));
        let answer = ask(&at("anthropic", &server, "")).await.unwrap();
        assert_eq!(answer.stop_reason, reason, "{word}");
    }
}
