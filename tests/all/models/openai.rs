//! Chat completions.

use serde_json::json;
use skillrun::call::{Effect, ModelChunk, ModelRequest, Part, StopReason, ToolDefinition, Usage};

use super::{
    answering_each, ask, at, body, chunks, conversation, json_response, model, only, question,
    response, start, stream_response, tool_use,
};
use crate::http::server::Server;

const WHOLE: &str = r#"{
  "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "large-2026-01",
  "choices": [{
    "index": 0,
    "message": { "role": "assistant", "content": "Hello!", "refusal": null, "annotations": [] },
    "logprobs": null, "finish_reason": "stop"
  }],
  "usage": {
    "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
    "prompt_tokens_details": { "cached_tokens": 400, "audio_tokens": 0 },
    "completion_tokens_details": { "reasoning_tokens": 0 }
  }
}"#;

/// What a server streams: a text in pieces, two requests for tools whose fragments take turns, and the
/// tokens at last.
const STREAM: &str = "\
data: {\"id\":\"1\",\"model\":\"large-2026-01\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n\
: a comment\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"search\",\"arguments\":\"\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"q\\\":\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"2\",\"type\":\"function\",\"function\":{\"name\":\"search\",\"arguments\":\"{}\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"a\\\"}\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n\
data: [DONE]\n\n";

#[tokio::test]
async fn a_whole_answer_comes_with_its_price() {
    let server = Server::answering(json_response(WHOLE));
    let prices = "prices.\"lar*\" = { input = 2, output = 10, cache_read = 0.5 }";
    let answer = ask(&at("openai", &server, prices)).await.unwrap();
    assert_eq!(answer.content, [Part::Text("Hello!".to_owned())]);
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(answer.model, "large-2026-01");
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 10,
        cache_read_tokens: 400,
        cache_write_tokens: 0,
        cost_usd: (600.0 * 2.0 + 400.0 * 0.5 + 10.0 * 10.0) / 1e6,
    };
    assert!((answer.usage.cost_usd - usage.cost_usd).abs() < 1e-12);
    let unpriced = |usage| Usage {
        cost_usd: 0.0,
        ..usage
    };
    assert_eq!(unpriced(answer.usage), unpriced(usage));

    let seen = only(&server);
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1");
    let bearer = format!("Bearer {}", super::KEY);
    for (field, value) in [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json"),
    ] {
        assert_eq!(seen.header(field), Some(value), "{field}");
    }
    assert_eq!(
        body(&seen),
        json!({
            "model": "large",
            "messages": [{ "role": "user", "content": "hi" }],
            "max_tokens": 8192,
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
        tokens_left: 300,
        temperature: Some(0.0),
        stop: vec!["END".to_owned()],
        ..question()
    };
    let models = at("openai", &server, "");
    models.generate(&model(), request).await.unwrap();
    let call = |id: &str, arguments: &str| {
        let function = json!({ "name": "search", "arguments": arguments });
        json!({ "id": id, "type": "function", "function": function })
    };
    assert_eq!(
        body(&only(&server)),
        json!({
            "model": "large",
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "hi" },
                {
                    "role": "assistant",
                    "content": "let me see",
                    "tool_calls": [call("1", "{\"q\":\"a\"}"), call("2", "{\"q\":\"b\"}")],
                },
                { "role": "tool", "tool_call_id": "1", "content": "found" },
                { "role": "tool", "tool_call_id": "2", "content": "error: broken" },
            ],
            "max_tokens": 300,
            "temperature": 0.0,
            "stop": ["END"],
            "tools": [{
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "finds",
                    "parameters": { "type": "object" },
                },
            }],
        })
    );
}

/// An answer is held to its schema strictly, where that can be; what the provider does not check is left
/// out then.
#[tokio::test]
async fn an_answer_is_held_to_its_schema() {
    for (required, is_strict) in [(json!(["summary"]), true), (json!([]), false)] {
        let summary = json!({ "type": "string", "maxLength": 5 });
        let schema = json!({
            "type": "object",
            "properties": { "summary": summary },
            "required": required,
            "additionalProperties": false,
        });
        let server = Server::answering(json_response(WHOLE));
        let request = ModelRequest {
            output_schema: Some(schema.to_string()),
            ..question()
        };
        let models = at("openai", &server, "");
        models.generate(&model(), request).await.unwrap();
        let mut sent = schema.clone();
        if is_strict {
            sent["properties"]["summary"] = json!({ "type": "string" });
        }
        assert_eq!(
            body(&only(&server))["response_format"],
            json!({
                "type": "json_schema",
                "json_schema": { "name": "answer", "schema": sent, "strict": is_strict },
            })
        );
    }
}

#[tokio::test]
async fn a_stream_gives_text_as_it_comes_and_tools_whole() {
    let server = Server::answering(stream_response(STREAM));
    let models = at("openai", &server, "");
    let stream = start(&models).await.unwrap();
    // What nobody has counted yet is not free.
    let counted = stream.usage();
    assert!(counted.input_tokens > 0, "{counted:?}");
    let (chunks, error) = chunks(stream).await;
    assert_eq!(error, None);
    let Some((ModelChunk::Done(done), before)) = chunks.split_last() else {
        panic!("{chunks:?}")
    };
    assert_eq!(
        before,
        [
            ModelChunk::Text("Hel".to_owned()),
            ModelChunk::Text("lo".to_owned()),
            ModelChunk::ToolUse(tool_use("1", r#"{"q":"a"}"#)),
            ModelChunk::ToolUse(tool_use("2", "{}")),
        ]
    );
    assert_eq!(
        done.content,
        [
            Part::Text("Hello".to_owned()),
            Part::ToolUse(tool_use("1", r#"{"q":"a"}"#)),
            Part::ToolUse(tool_use("2", "{}")),
        ]
    );
    assert_eq!(done.stop_reason, StopReason::ToolUse);
    assert_eq!((done.usage.input_tokens, done.usage.output_tokens), (7, 5));
    assert_eq!(done.model, "large-2026-01");
    let seen = only(&server);
    assert_eq!(seen.header("accept"), Some("text/event-stream"));
    let body = body(&seen);
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"], json!({ "include_usage": true }));
}

#[tokio::test]
async fn the_bound_on_an_answer_has_the_name_that_the_server_knows() {
    let refusal = r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#;
    let server = answering_each(vec![
        response(
            "400 Bad Request",
            "Content-Type: application/json\r\n",
            refusal,
        ),
        json_response(WHOLE),
    ]);
    let models = at("openai", &server, "output_tokens_max = 9");
    ask(&models).await.unwrap();
    ask(&models).await.unwrap();
    let bodies: Vec<_> = server.seen().iter().map(body).collect();
    let of = |name: &str| -> Vec<_> { bodies.iter().map(|body| body[name].clone()).collect() };
    assert_eq!(of("max_tokens"), [json!(9), json!(null), json!(null)]);
    assert_eq!(
        of("max_completion_tokens"),
        [json!(null), json!(9), json!(9)]
    );
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    for (choice, reason) in [
        (
            r#"{"message":{"content":"a"},"finish_reason":"length"}"#,
            StopReason::TokenLimit,
        ),
        (
            r#"{"message":{"content":"a"},"finish_reason":"content_filter"}"#,
            StopReason::Refusal,
        ),
        (
            r#"{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}"#,
            StopReason::Refusal,
        ),
        (
            r#"{"message":{"content":"a"},"finish_reason":"stop","stop_reason":"END"}"#,
            StopReason::StopSequence,
        ),
        (
            r#"{"message":{"content":"a"},"finish_reason":"because"}"#,
            StopReason::EndTurn,
        ),
        (
            r#"{"message":{"tool_calls":[{"id":"1","function":{"name":"search","arguments":""}}]},"finish_reason":"stop"}"#,
            StopReason::ToolUse,
        ),
    ] {
        let usage = r#"{"prompt_tokens":1,"completion_tokens":1}"#;
        let whole = format!(r#"{{"choices":[{choice}],"usage":{usage}}}"#);
        let server = Server::answering(json_response(&whole));
        let answer = ask(&at("openai", &server, "")).await.unwrap();
        assert_eq!(answer.stop_reason, reason, "{choice}");
        assert_eq!(answer.content.len(), 1, "{choice}");
    }
}
