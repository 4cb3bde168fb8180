//! What an SDK makes of the answers of a host, and what that host was asked: the same in each language.

use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::Loading;
use skillrun::executor::{Call, Engine, EngineOptions, HttpOptions};
use skillrun::limits::{Budget, Limits};

use super::answering_host::AnsweringHost;
use super::foreign_skill::{COMPILED, ForeignSkill};
use super::surface::{SURFACE_PY, SURFACE_TS};

/// Runs the skill on a host that answers; gives its answer and what the host was asked.
async fn answers(skill: &ForeignSkill) -> (Value, Vec<String>) {
    let limits = Limits::default();
    let engine = Engine::new(EngineOptions {
        instances_max: 1,
        limits: limits.clone(),
        loading: Loading {
            compile_time_ms: 600_000,
            ..Loading::default()
        },
        cache_dir: Some(COMPILED.join("cache")),
        http: HttpOptions::default(),
        clock: Clock::system(),
    })
    .unwrap();
    let bytes = std::fs::read(skill.build().join("skill.wasm")).unwrap();
    let program = engine.load(skill.name, move || Ok(bytes)).await.unwrap();
    let host = Arc::new(AnsweringHost::default());
    let called = program
        .call(Call {
            host: Arc::<AnsweringHost>::clone(&host),
            policy: Arc::default(),
            protected: Arc::default(),
            budget: Arc::new(Budget::new(Arc::new(limits), None)),
            seed: [7; 32],
            environment: Arc::default(),
            operation: None,
            input: json!({ "do": "answers" }).to_string(),
            record_only: false,
            workspace_dir: None,
        })
        .await;
    let output = called.unwrap_or_else(|failure| panic!("{failure:?}"));
    (serde_json::from_str(&output).unwrap(), host.asked())
}

fn expected() -> Value {
    let blocks = json!([
        { "type": "text", "text": "one ü" },
        { "type": "image", "text": "no" },
        null,
        { "type": "text", "text": "two" },
    ]);
    json!({
        "available": [["a__b", { "type": "object" }, false, true]],
        "invoke": [blocks, false, "one ü\ntwo"],
        "check": "tool_error: one ü\ntwo",
        "invoke_all": ["one ü\ntwo", "failed"],
        "generate": ["It is done.", "tool-use", "m-1", 7],
        "cost_usd": 0.25,
        "tool_uses": [["u1", "t", { "a": { "b": 2 } }]],
        "generate_as": { "a": [1] },
        "chunks": ["It is", ["u1", "t", { "a": { "b": 2 } }], "It is done."],
        "request": [true, "because", true],
        "require": true,
        "rejected": "rejected: rejected: May I not?: because",
        "handoff": [{ "a": 1 }],
        "handoff_all": [[{}]],
        "kinds": [
            "not-found: what does not exist",
            "invalid: invalid arguments: what",
            "ambiguous: ambiguous name: one of what, that",
            "failed: what",
            "timed-out: no answer within 5 ms",
            "exhausted: what",
            "cancelled: the run is being cancelled",
        ],
    })
}

#[tokio::test]
async fn both_sdks_ask_the_same_and_read_the_answers_alike() {
    let mut asked_of = Vec::new();
    for skill in [&SURFACE_TS, &SURFACE_PY] {
        let (mut output, asked) = answers(skill).await;
        // How a parser words it differs.
        let no_json = output.as_object_mut().unwrap().remove("no_json").unwrap();
        let no_json = no_json.as_str().unwrap();
        let said = "invalid_answer: the model stopped for tool-use, and its answer is not JSON: ";
        assert!(no_json.starts_with(said), "{no_json}");
        assert_eq!(output, expected(), "{}", skill.name);
        asked_of.push(asked);
    }
    let (typescript, python) = (&asked_of[0], &asked_of[1]);
    assert_eq!(typescript, python);

    assert_eq!(typescript[0], r#"a__b {"x":"ü"}"#);
    assert_eq!(typescript[1], "a__b {}");
    let full = &typescript[3];
    for part in [
        r#"system: Some("Be brief.")"#,
        r#"role: Assistant, content: [ToolUse(ToolUse { id: "1", name: "t", arguments: "{\"a\":1}" })]"#,
        r#"role: Tool, content: [ToolAnswer(ToolUseAnswer { id: "1", content: "done", is_error: false })]"#,
        r#"input_schema: "{\"type\":\"object\"}""#,
        "output_tokens_max: Some(5)",
        "temperature: Some(0.5)",
        r#"stop: ["."]"#,
        r#"output_schema: Some("{\"type\":\"object\"}")"#,
    ] {
        assert!(full.contains(part), "{part} in {full}");
    }
    assert_eq!(typescript[4], *full);
    assert_eq!(typescript[5], "dropped with 0 left");
    for part in [
        "system: None",
        "output_tokens_max: None",
        "temperature: None",
        "output_schema: None",
    ] {
        assert!(typescript[6].contains(part), "{part} in {}", typescript[6]);
    }
    // Left early, the answer is given up at once, and not when the run ends.
    assert_eq!(typescript[7], "dropped with 2 left");
    assert!(
        typescript[8].contains("timeout_ms: Some(5)"),
        "{}",
        typescript[8]
    );
}
