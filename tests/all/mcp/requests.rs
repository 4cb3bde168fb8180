//! The requests of the conformance suite, as a table.

use serde_json::{Value, json};

/// The newest revision with sessions.
pub(super) const OLD: &str = "2025-11-25";
/// The first one without.
pub(crate) const NEW: &str = "2026-07-28";

/// One request, and what its answer has at which place.
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) params: Value,
    pub(super) expected: Vec<(&'static str, Value)>,
    /// What the client brings back, when it is asked before it is answered; `expected` is of the second answer then.
    pub(super) responses: Option<Value>,
    /// How many notifications come before the answer, and which requests.
    pub(super) told: usize,
    pub(super) asked: &'static [&'static str],
}

impl Row {
    fn new(method: &'static str, params: Value, expected: &[(&'static str, Value)]) -> Self {
        Self {
            method,
            params,
            expected: expected.to_vec(),
            responses: None,
            told: 0,
            asked: &[],
        }
    }

    /// A request that is refused with that code.
    fn refused(method: &'static str, params: Value, code: i32) -> Self {
        Self::new(method, params, &[("/error/code", json!(code))])
    }

    /// A call of a tool that answers with a text.
    fn call(tool: &str, arguments: Value, text: &str) -> Self {
        let params = json!({ "name": tool, "arguments": arguments });
        Self::new(
            "tools/call",
            params,
            &[("/result/content/0/text", json!(text))],
        )
    }

    fn with(mut self, place: &'static str, expected: Value) -> Self {
        self.expected.push((place, expected));
        self
    }

    fn answering(mut self, responses: Value) -> Self {
        self.responses = Some(responses);
        self
    }

    fn telling(mut self, told: usize) -> Self {
        self.told = told;
        self
    }

    fn asking(mut self, asked: &'static [&'static str]) -> Self {
        self.asked = asked;
        self
    }
}

/// What every client can ask.
pub(super) fn of_both() -> Vec<Row> {
    [calls(), failures(), others()]
        .into_iter()
        .flatten()
        .collect()
}

/// Calls of tools, which every client can make.
fn calls() -> Vec<Row> {
    let text = "This is a simple text response for testing.";
    let block = |at: &'static str, kind: &str| (at, json!(kind));
    let kinds = |tool: &str, kinds: &[(&'static str, Value)]| {
        Row::new(
            "tools/call",
            json!({ "name": tool, "arguments": {} }),
            kinds,
        )
    };
    let progress = json!({
        "name": "test_tool_with_progress",
        "arguments": {},
        "_meta": { "progressToken": "progress-test-1" },
    });
    vec![
        Row::new(
            "tools/call",
            json!({ "name": "test_simple_text" }),
            &[("/result/content/0/text", json!(text))],
        ),
        kinds(
            "test_image_content",
            &[block("/result/content/0/type", "image")],
        ),
        kinds(
            "test_audio_content",
            &[block("/result/content/0/mimeType", "audio/wav")],
        ),
        kinds(
            "test_embedded_resource",
            &[block(
                "/result/content/0/resource/uri",
                "test://embedded-resource",
            )],
        ),
        kinds(
            "test_multiple_content_types",
            &[
                block("/result/content/0/type", "text"),
                block("/result/content/1/type", "image"),
                block("/result/content/2/type", "resource"),
            ],
        ),
        Row::call("greet", json!({ "name": "Ada" }), "Hello, Ada!"),
        Row::call("echo_header", json!({ "region": "north" }), "north"),
        Row::new(
            "tools/call",
            progress,
            &[("/result/content/0/text", json!("It is done."))],
        )
        .telling(3),
        Row::call("test_logging_tool", json!({}), "It logged."),
        Row::call(
            "slow_compute",
            json!({ "seconds": 0, "label": "a" }),
            "a took 0 s",
        ),
    ]
}

/// Calls that fail, each in its own way.
fn failures() -> Vec<Row> {
    let failed = "This tool intentionally returns an error for testing";
    let missing = "invalid_input: input of skill \"greet\" does not fit its schema: \
                   $: \"name\" is a required property\n\
                   hint: skillrun skills inspect greet shows the schema";
    vec![
        Row::call("test_error_handling", json!({}), failed).with("/result/isError", json!(true)),
        Row::call("greet", json!({}), missing).with("/result/isError", json!(true)),
        Row::refused(
            "tools/call",
            json!({ "name": "protocol_error_job" }),
            -32603,
        )
        .with("/error/data/code", json!("invalid_output")),
        Row::refused("tools/call", json!({ "name": "failing_job" }), -32021),
        Row::refused("tools/call", json!({ "name": "none" }), -32602),
        Row::refused("unknown/method", json!({}), -32601),
    ]
}

/// What else every client can ask.
fn others() -> Vec<Row> {
    vec![
        Row::new(
            "tools/list",
            json!({}),
            &[("/result/tools/0/name", json!("about"))],
        ),
        Row::new(
            "prompts/list",
            json!({}),
            &[(
                "/result/prompts/0/name",
                json!("test_input_required_result_prompt"),
            )],
        ),
        Row::new(
            "prompts/get",
            json!({ "name": "test_simple_prompt" }),
            &[(
                "/result/messages/0/content/text",
                json!("This is a simple prompt for testing."),
            )],
        ),
        Row::refused("prompts/get", json!({ "name": "none" }), -32602),
        Row::new(
            "resources/read",
            json!({ "uri": "test://template/123/data" }),
            &[("/result/contents/0/mimeType", json!("application/json"))],
        ),
        Row::new(
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" },
                "argument": { "name": "arg1", "value": "test" },
            }),
            &[("/result/completion/values", json!([]))],
        ),
    ]
}

/// What clients of a revision with sessions can ask.
pub(super) fn of_old() -> Vec<Row> {
    let user = r#"User response: {"action":"accept","content":{"email":"test@example.com","name":"Ada","ok":true,"username":"testuser"}}"#;
    vec![
        Row::new("ping", json!({}), &[("/result", json!({}))]),
        Row::new(
            "logging/setLevel",
            json!({ "level": "debug" }),
            &[("/result", json!({}))],
        ),
        Row::call(
            "test_tool_with_logging",
            json!({}),
            "It logged three lines.",
        )
        .telling(3),
        Row::new(
            "logging/setLevel",
            json!({ "level": "error" }),
            &[("/result", json!({}))],
        ),
        Row::call(
            "test_sampling",
            json!({ "prompt": "Hi" }),
            "LLM response: I am a test",
        )
        .asking(&["sampling/createMessage"]),
        Row::call("test_elicitation", json!({ "message": "Who?" }), user)
            .asking(&["elicitation/create"]),
        Row::call(
            "test_input_required_result_elicitation",
            json!({}),
            "Hello, Ada!",
        )
        .asking(&["elicitation/create"]),
        Row::new(
            "resources/subscribe",
            json!({ "uri": "test://watched-resource" }),
            &[("/result", json!({}))],
        ),
        Row::new(
            "resources/unsubscribe",
            json!({ "uri": "test://watched-resource" }),
            &[("/result", json!({}))],
        ),
    ]
}

/// What clients of the revision without sessions can not ask any more.
fn removed() -> Vec<Row> {
    vec![
        Row::refused("ping", json!({}), -32601),
        Row::refused("initialize", json!({}), -32601),
        Row::refused("logging/setLevel", json!({ "level": "info" }), -32601),
        Row::refused(
            "resources/subscribe",
            json!({ "uri": "test://watched-resource" }),
            -32601,
        ),
        Row::refused(
            "resources/unsubscribe",
            json!({ "uri": "test://watched-resource" }),
            -32601,
        ),
        Row::refused("tasks/list", json!({}), -32601),
    ]
}

/// What clients of the revision without sessions can ask.
pub(super) fn of_new() -> Vec<Row> {
    let accepted = |content: Value| json!({ "action": "accept", "content": content });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let said = json!({ "role": "assistant", "content": text("Paris"), "model": "m" });
    let roots = json!({ "roots": [{ "uri": "file:///test/root", "name": "Test Root" }] });
    let asked = |tool: &str, key: &str, answer: &Value| {
        let name = format!("test_input_required_result_{tool}");
        let params = json!({ "name": name, "arguments": {} });
        let row = Row::new(
            "tools/call",
            params,
            &[("/result/resultType", json!("complete"))],
        );
        row.answering(json!({ (key): answer }))
    };
    let unsupported = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let rows = vec![
        Row::new(
            "server/discover",
            json!({}),
            &[("/result/resultType", json!("complete"))],
        ),
        Row::new(
            "tools/list",
            json!({}),
            &[
                ("/result/resultType", json!("complete")),
                ("/result/cacheScope", json!("private")),
            ],
        ),
        asked(
            "elicitation",
            "user_name",
            &accepted(json!({ "name": "Ada" })),
        )
        .with("/result/content/0/text", json!("Hello, Ada!")),
        asked("sampling", "capital_question", &said).with("/result/content/0/text", json!("Paris")),
        asked("list_roots", "client_roots", &roots),
        asked("request_state", "confirm", &accepted(json!({ "ok": true }))),
        Row::new(
            "prompts/get",
            json!({ "name": "test_input_required_result_prompt" }),
            &[("/result/messages/0/content/text", json!("Context: a test"))],
        )
        .answering(json!({ "user_context": accepted(json!({ "context": "a test" })) })),
        Row::refused(
            "tools/call",
            json!({ "name": "test_missing_capability", "_meta": unsupported["_meta"] }),
            -32021,
        )
        .with(
            "/error/data/requiredCapabilities",
            json!({ "sampling": {} }),
        ),
    ];
    rows.into_iter().chain(removed()).collect()
}

/// What the client says of itself with each request where there are no sessions.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": { "name": "messages", "version": "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": { "sampling": {}, "elicitation": {}, "roots": {} },
    })
}
