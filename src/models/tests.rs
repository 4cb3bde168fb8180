//! Messages go into each wire format and come out of it as they went in.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::openai::TokensField;
use super::{ModelError, anthropic, openai, parse_answer, parse_stream};
use crate::call::{
    Effect, Message, ModelChunk, ModelRequest, Part, Role, ToolDefinition, ToolUse, ToolUseAnswer,
};
use crate::config::ModelApi;

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        system: None,
        messages,
        tools: Vec::new(),
        output_tokens_max: None,
        tokens_left: 1_000,
        temperature: None,
        stop: Vec::new(),
        output_schema: None,
    }
}

fn openai_body(request: &ModelRequest) -> Result<Value, ModelError> {
    openai::body(request, 100, TokensField::Older, false)
}

fn text() -> impl Strategy<Value = String> {
    "[a-z äß€😀\"\\\\\n\u{0}]{1,12}"
}

fn tool_use() -> impl Strategy<Value = ToolUse> {
    ("[a-z0-9_-]{1,8}", "[a-z_]{1,8}", text(), any::<i64>()).prop_map(|(id, name, text, number)| {
        ToolUse {
            id,
            name,
            arguments: json!({ "text": text, "number": number }).to_string(),
        }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let of = |role| move |content| Message { role, content };
    let user = proptest::collection::vec(text().prop_map(Part::Text), 1..3);
    let tool_answer =
        ("[a-z0-9]{1,8}", text(), any::<bool>()).prop_map(|(id, content, is_error)| {
            Part::ToolAnswer(ToolUseAnswer {
                id,
                content,
                is_error,
            })
        });
    let tools = proptest::collection::vec(tool_answer, 1..4);
    prop_oneof![
        user.prop_map(of(Role::User)),
        spoken().prop_map(of(Role::Assistant)),
        tools.prop_map(of(Role::Tool)),
    ]
}

/// What a model may say: a text and some requests for tools, and at least one of them.
fn spoken() -> impl Strategy<Value = Vec<Part>> {
    let uses = proptest::collection::vec(tool_use().prop_map(Part::ToolUse), 0..4);
    (proptest::option::of(text()), uses).prop_filter_map("says nothing", |(text, uses)| {
        let parts: Vec<Part> = text.map(Part::Text).into_iter().chain(uses).collect();
        (!parts.is_empty()).then_some(parts)
    })
}

/// The parts of a message as OpenAI's format has them.
fn from_openai(message: &Value) -> Vec<Part> {
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    if message["role"] == "tool" {
        let content = string(&message["content"]);
        let failed = content.strip_prefix("error: ");
        return vec![Part::ToolAnswer(ToolUseAnswer {
            id: string(&message["tool_call_id"]),
            is_error: failed.is_some(),
            content: failed.unwrap_or(&content).to_owned(),
        })];
    }
    let mut parts = match &message["content"] {
        Value::Null => Vec::new(),
        Value::String(text) => vec![Part::Text(text.clone())],
        list => {
            let list = list.as_array().unwrap().iter();
            list.map(|block| Part::Text(string(&block["text"])))
                .collect()
        }
    };
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        parts.push(Part::ToolUse(ToolUse {
            id: string(&call["id"]),
            name: string(&call["function"]["name"]),
            arguments: string(&call["function"]["arguments"]),
        }));
    }
    parts
}

fn from_anthropic(block: &Value) -> Part {
    let string = |key: &str| block[key].as_str().unwrap().to_owned();
    match block["type"].as_str().unwrap() {
        "text" => Part::Text(string("text")),
        "tool_use" => Part::ToolUse(ToolUse {
            id: string("id"),
            name: string("name"),
            arguments: block["input"].to_string(),
        }),
        _ => Part::ToolAnswer(ToolUseAnswer {
            id: string("tool_use_id"),
            content: string("content"),
            is_error: block["is_error"] == true,
        }),
    }
}

fn all_parts(messages: &[Message]) -> Vec<Part> {
    let parts = messages.iter().flat_map(|message| &message.content);
    parts.cloned().collect()
}

proptest! {
    #[test]
    fn nothing_that_was_said_is_lost_on_the_way_to_a_provider(
        messages in proptest::collection::vec(message(), 1..6),
    ) {
        let request = request(messages);
        // A text that begins as a failed tool's answer does could not be told from one.
        let body = openai_body(&request).unwrap();
        let list = body["messages"].as_array().unwrap();
        let parts: Vec<Part> = list.iter().flat_map(from_openai).collect();
        prop_assert_eq!(&parts, &all_parts(&request.messages));

        let body = anthropic::body(&request, 100, false).unwrap();
        let list = body["messages"].as_array().unwrap();
        let blocks = list.iter().flat_map(|message| message["content"].as_array().unwrap());
        let parts: Vec<Part> = blocks.map(from_anthropic).collect();
        prop_assert_eq!(&parts, &all_parts(&request.messages));
        // The sides take turns, so the answers to one message of the model are together.
        for pair in list.windows(2) {
            prop_assert_ne!(&pair[0]["role"], &pair[1]["role"]);
        }
    }

    #[test]
    fn nothing_that_a_model_says_is_lost_on_the_way_back(
        parts in spoken(), cut in 1_usize..40,
    ) {
        let stop = if parts.iter().any(|part| matches!(part, Part::ToolUse(_))) {
            ("tool_calls", "tool_use")
        } else {
            ("stop", "end_turn")
        };
        let said = request(vec![Message { role: Role::Assistant, content: parts.clone() }]);
        let message = openai_body(&said).unwrap()["messages"][0].clone();
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 2 });
        let whole = json!({
            "choices": [{ "index": 0, "message": message, "finish_reason": stop.0 }],
            "usage": usage,
        });
        let answer = parse_answer(ModelApi::Openai, whole.to_string().as_bytes()).unwrap();
        prop_assert_eq!(&answer.content, &parts);

        let streamed = json!({
            "choices": [{ "index": 0, "delta": message, "finish_reason": stop.0 }],
            "usage": usage,
        });
        let text = format!("data: {streamed}\n\ndata: [DONE]\n\n");
        let chunks = parse_stream(ModelApi::Openai, text.as_bytes().chunks(cut)).unwrap();
        let Some(ModelChunk::Done(done)) = chunks.last() else { panic!("{chunks:?}") };
        prop_assert_eq!(&done.content, &parts);

        let content = anthropic::body(&said, 100, false).unwrap()["messages"][0]["content"].clone();
        let whole = json!({
            "type": "message", "content": content, "stop_reason": stop.1,
            "usage": { "input_tokens": 1, "output_tokens": 2 },
        });
        let answer = parse_answer(ModelApi::Anthropic, whole.to_string().as_bytes()).unwrap();
        prop_assert_eq!(&answer.content, &parts);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(
        text in "(data: ?|\\{\"type\":\"message_(start|delta|stop)\"|[\\[\\]{}:,\"0-9a-z]{1,8}|\n){0,12}",
        cut in 1_usize..9,
    ) {
        for api in [ModelApi::Openai, ModelApi::Anthropic] {
            let whole = parse_stream(api, [text.as_bytes()]);
            prop_assert_eq!(parse_stream(api, text.as_bytes().chunks(cut)), whole);
            let _refused = parse_answer(api, text.as_bytes());
        }
    }
}

#[test]
fn what_no_provider_takes_is_refused_before_it_is_sent() {
    let say = |role, part| Message {
        role,
        content: vec![part],
    };
    let tool_use = |arguments: &str| {
        Part::ToolUse(ToolUse {
            id: "1".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.to_owned(),
        })
    };
    let hi = say(Role::User, Part::Text("hi".to_owned()));
    let no_tokens = ModelRequest {
        tokens_left: 0,
        ..request(vec![hi.clone()])
    };
    let tool = |schema: &str| ModelRequest {
        tools: vec![ToolDefinition {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: schema.to_owned(),
            effect: Effect::Read,
        }],
        ..request(vec![hi.clone()])
    };
    let schema = ModelRequest {
        output_schema: Some("[]".to_owned()),
        ..request(vec![hi.clone()])
    };
    for (request, part) in [
        (no_tokens, "no tokens are left"),
        (
            request(vec![say(Role::User, tool_use("{}"))]),
            "messages[0].content[0]: expected text",
        ),
        (
            request(vec![
                hi.clone(),
                say(Role::Tool, Part::Text("x".to_owned())),
            ]),
            "messages[1].content[0]: expected an answer of a tool",
        ),
        (
            request(vec![say(Role::User, Part::Text(String::new()))]),
            "messages[0] is empty",
        ),
        (
            request(vec![say(Role::Assistant, tool_use("[1]"))]),
            "arguments of \"t\" to be a JSON object",
        ),
        (
            request(vec![say(Role::Assistant, tool_use("{"))]),
            "arguments of \"t\" to be a JSON object",
        ),
        (tool("true"), "tool \"t\""),
        (tool("{"), "tool \"t\""),
        (schema, "schema of the answer"),
    ] {
        for refused in [
            openai_body(&request).unwrap_err(),
            anthropic::body(&request, 100, false).unwrap_err(),
        ] {
            let ModelError::Invalid(problem) = refused else {
                panic!("{refused:?}")
            };
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
}

#[test]
fn a_schema_is_fitted_to_what_providers_take() {
    let given = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "maxLength": { "type": "string", "maxLength": 5 },
            "list": { "items": { "type": "object", "properties": { "a": { "minimum": 1 } } } },
            "word": { "enum": [{ "minimum": 1 }] },
        },
        "required": ["maxLength", "list", "word"],
    });
    let mut fitted = super::question::fitted(given);
    assert_eq!(
        fitted,
        json!({
            "type": "object",
            "properties": {
                "maxLength": { "type": "string" },
                "list": { "items": {
                    "type": "object",
                    "properties": { "a": {} },
                    "additionalProperties": false,
                } },
                "word": { "enum": [{ "minimum": 1 }] },
            },
            "required": ["maxLength", "list", "word"],
            "additionalProperties": false,
        })
    );
    // `a` is not required.
    assert!(!super::question::is_strict(&mut fitted));
    for (schema, is_strict) in [
        (json!({ "type": "string" }), true),
        (json!({ "type": "object" }), false),
        (
            json!({ "properties": { "a": {} }, "required": ["a"], "additionalProperties": false }),
            true,
        ),
        (
            json!({ "properties": { "a": {} }, "required": ["a"], "additionalProperties": true }),
            false,
        ),
    ] {
        let mut schema = schema;
        assert_eq!(
            super::question::is_strict(&mut schema),
            is_strict,
            "{schema}"
        );
    }
}
