use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{ModelChunk, ModelRequest, ModelResponse, Part, StopReason, Usage};
use skillrun::models::{ModelError, ModelName, ModelProvider, ModelStream, Models};
use skillrun::outcome::OutcomeCode;

use super::{Bench, Parts, of_type, types};

/// Says what it was told to, one piece at a time if asked so, and keeps what it was asked.
struct Scripted {
    pieces: Vec<&'static str>,
    usage: Usage,
    /// What it fails with in place of its end.
    error: Option<ModelError>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Scripted {
    fn saying(pieces: &[&'static str]) -> Self {
        Self {
            pieces: pieces.to_vec(),
            usage: Usage {
                input_tokens: 7,
                output_tokens: 3,
                cost_usd: 0.25,
                ..Usage::default()
            },
            error: None,
            asked: Arc::default(),
        }
    }

    fn response(&self) -> ModelResponse {
        ModelResponse {
            content: vec![Part::Text(self.pieces.concat())],
            stop_reason: StopReason::EndTurn,
            usage: self.usage,
            model: "small-2026".to_owned(),
        }
    }
}

#[async_trait]
impl ModelProvider for Scripted {
    async fn generate(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(self.response()),
        }
    }

    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let end = match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(ModelChunk::Done(Box::new(self.response()))),
        };
        let pieces = self.pieces.iter().rev();
        let pieces = pieces.map(|piece| Ok(ModelChunk::Text((*piece).to_owned())));
        Ok(Box::new(Stream {
            coming: std::iter::once(end).chain(pieces).collect(),
            usage: self.usage,
        }))
    }
}

struct Stream {
    /// The next piece last.
    coming: Vec<Result<ModelChunk, ModelError>>,
    usage: Usage,
}

#[async_trait]
impl ModelStream for Stream {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        self.coming.pop().unwrap()
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

fn bench(grants: &[&str], scripted: Scripted) -> Bench {
    let small = ModelName {
        provider: "local".to_owned(),
        model: "small".to_owned(),
    };
    let models = Models::new()
        .with_provider("local", Arc::new(scripted))
        .with_alias("default", small);
    Bench::new(
        grants,
        Parts {
            models,
            ..Parts::default()
        },
    )
}

fn ask(model: &str, output_schema: Option<&str>) -> Value {
    json!({ "call": "model", "model": model, "output_schema": output_schema })
}

#[tokio::test]
async fn both_halves_of_a_question_are_on_record_with_what_it_took() {
    let scripted = Scripted::saying(&["hi"]);
    let asked = Arc::clone(&scripted.asked);
    let bench = bench(&["llm:local/small"], scripted);
    let (said, events) = bench.calls(json!([ask("default", None)])).await;
    let expected = json!({
        "text": "hi", "model": "small-2026", "input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25,
    });
    assert_eq!(said[0]["ok"], expected);
    let [before, after] = of_type(&events, "llm_call")[..] else {
        panic!("{events:?}");
    };
    let expected = json!({
        "call_id": "llm#1", "phase": "call", "node_id": "", "model": "small", "provider": "local",
        "asked": "default", "effect": "read",
        "request": {
            "system": "be brief", "temperature": 0.5,
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hello" }] }],
        },
    });
    assert_eq!(*before, expected);
    assert_eq!(after["phase"], "result");
    assert_eq!(after["output"]["content"][0]["text"], "hi");
    let took = (
        &after["prompt_tokens"],
        &after["output_tokens"],
        &after["cost_usd"],
    );
    assert_eq!(took, (&json!(7), &json!(3), &json!(0.25)));
    assert_eq!(asked.lock().unwrap()[0].model, "small");
}

#[tokio::test]
async fn the_end_of_a_run_says_what_its_models_cost_together() {
    let bench = bench(&["llm:local/small"], Scripted::saying(&["hi"]));
    let (_, events) = bench
        .calls(json!([ask("default", None), ask("default", None)]))
        .await;
    assert_eq!(of_type(&events, "run_completed")[0]["cost_usd"], 0.5);
    let (_, events) = bench.calls(json!([])).await;
    assert!(
        of_type(&events, "run_completed")[0]
            .get("cost_usd")
            .is_none()
    );
}

#[tokio::test]
async fn a_model_is_asked_only_where_it_is_granted_also_by_another_name() {
    let bench = bench(&["llm:local/other"], Scripted::saying(&["hi"]));
    let calls = json!([
        ask("default", None),
        ask("local/small", None),
        ask("local/other", None),
        ask("nobody/other", None),
        ask("local/*", None),
        ask("local", None),
    ]);
    let (said, events) = bench.calls(calls).await;
    let kinds: Vec<_> = said
        .iter()
        .map(|one| one["error"]["kind"].as_str())
        .collect();
    let (denied, not_found) = (Some("denied"), Some("not_found"));
    assert_eq!(kinds, [denied, denied, None, denied, not_found, not_found]);
    let denied = of_type(&events, "denied");
    assert_eq!(denied[0]["capability"], "llm:local/small");
    assert_eq!(denied[0]["wanted"], "default");
    // What was asked, and what nobody serves: both with its answer.
    assert_eq!(of_type(&events, "llm_call").len(), 4);
}

#[tokio::test]
async fn an_answer_is_checked_against_the_schema_that_was_asked_for() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;
    let bad = r#"{"$ref":"http://elsewhere/"}"#;
    for (says, kind, part) in [
        (r#"{"a": 1}"#, None, ""),
        (r#"{"a": "1"}"#, Some("invalid"), "$.a: \"1\""),
        ("I think that", Some("invalid"), "not JSON"),
    ] {
        let bench = bench(&["llm:local/small"], Scripted::saying(&[says]));
        let calls = json!([ask("default", Some(schema)), ask("default", Some(bad))]);
        let (said, events) = bench.calls(calls).await;
        assert_eq!(said[0]["error"]["kind"].as_str(), kind, "{said:?}");
        let structured = of_type(&events, "structured_output");
        match kind {
            None => {
                assert_eq!(structured[0]["output"], json!({ "a": 1 }));
                assert_eq!(structured[0]["schema_digest"].as_str().unwrap().len(), 64);
            }
            Some(_) => {
                assert!(said[0]["error"]["detail"].as_str().unwrap().contains(part));
                assert!(structured.is_empty());
                // It was paid for, and what it was is on record.
                let after = of_type(&events, "llm_call")[1];
                assert_eq!(after["error"]["kind"], "invalid");
                assert_eq!(after["output"]["content"][0]["text"], says);
                assert_eq!(after["prompt_tokens"], 7);
            }
        }
        assert_eq!(said[1]["error"]["kind"], "invalid");
        assert_eq!(of_type(&events, "llm_call").len(), 2);
    }
}

#[tokio::test]
async fn pieces_are_put_together_and_are_those_that_the_guest_gets() {
    let bench = bench(
        &["llm:local/small"],
        Scripted::saying(&["one ", "two ", "three"]),
    );
    let calls = json!([{ "call": "stream", "model": "default", "pieces_max": 9 }]);
    let (said, events) = bench.calls(calls).await;
    let pieces = said[0]["ok"].as_array().unwrap();
    let (done, texts) = pieces.split_last().unwrap();
    assert_eq!(done["done"], "one two three");
    let chunks = of_type(&events, "llm_chunk");
    let deltas: Vec<_> = chunks.iter().map(|chunk| chunk["delta"].clone()).collect();
    assert_eq!(deltas, texts);
    let whole: String = texts.iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(whole, "one two three");
    assert_eq!(
        types(&events),
        [
            "run_started",
            "llm_call",
            "llm_chunk",
            "llm_call",
            "run_completed"
        ]
    );
    assert_eq!(chunks[0]["index"], 0);
    assert_eq!(of_type(&events, "llm_call")[0]["streamed"], true);
}

#[tokio::test]
async fn an_answer_that_is_given_up_or_breaks_off_is_counted_and_on_record() {
    let long: &'static str = "x".repeat(600).leak();
    let bench_of = |scripted| bench(&["llm:local/small"], scripted);
    let calls = json!([{ "call": "stream", "model": "default", "pieces_max": 1 }]);
    let (said, events) = bench_of(Scripted::saying(&[long, long])).calls(calls).await;
    assert_eq!(said[0]["ok"].as_array().unwrap().len(), 1);
    let after = of_type(&events, "llm_call")[1];
    assert_eq!(after["error"], json!({ "kind": "cancelled" }));
    assert_eq!(after["prompt_tokens"], 7);

    // Of which nothing was read: it was asked for.
    let calls = json!([{ "call": "stream", "model": "default", "pieces_max": 0 }]);
    let (_, events) = bench_of(Scripted::saying(&["one"])).calls(calls).await;
    let after = of_type(&events, "llm_call")[1];
    assert_eq!(after["error"], json!({ "kind": "cancelled" }));
    assert_eq!(after["prompt_tokens"], 7);

    let mut broken = Scripted::saying(&["one"]);
    broken.error = Some(ModelError::Failed("cut off".to_owned()));
    let calls = json!([{ "call": "stream", "model": "default", "pieces_max": 9 }]);
    let (said, events) = bench_of(broken).calls(calls).await;
    assert_eq!(
        said[0]["error"],
        json!({ "kind": "failed", "detail": "cut off" })
    );
    assert_eq!(of_type(&events, "llm_chunk").len(), 1);
    let after = of_type(&events, "llm_call")[1];
    assert_eq!(
        after["error"],
        json!({ "kind": "failed", "message": "cut off" })
    );
}

#[tokio::test]
async fn tokens_and_costs_are_summed_and_bounded() {
    let calls = json!([
        ask("default", None),
        ask("default", None),
        ask("default", None)
    ]);
    let verb = json!({ "verb": "calls", "calls": calls });
    for (key, value, answers) in [
        // The second answer is the one that goes above it.
        ("llm_tokens", 15, 2),
        ("llm_cost_microusd", 499_999, 2),
        // With nothing left no question is asked.
        ("llm_tokens", 20, 2),
        ("llm_cost_microusd", 250_000, 1),
    ] {
        let scripted = Scripted::saying(&["hi"]);
        let asked = Arc::clone(&scripted.asked);
        let bench = bench(&["llm:local/small"], scripted).limited(key, value);
        let error = bench.run("probe", &verb).await.unwrap_err();
        assert_eq!(error.code(), OutcomeCode::HostCallLimit, "{key} {value}");
        assert!(error.to_string().contains(key), "{error}");
        assert_eq!(asked.lock().unwrap().len(), answers, "{key} {value}");
        let left = asked.lock().unwrap()[0].tokens_left;
        assert_eq!(
            left,
            if key == "llm_tokens" {
                u64::try_from(value).unwrap()
            } else {
                65_536
            }
        );
        let events = bench.events(error.run_id().unwrap().as_str());
        assert_eq!(of_type(&events, "llm_call").len(), 2 * answers);
    }
}

#[tokio::test]
async fn an_answer_that_a_guest_holds_when_it_ends_is_counted_and_on_record() {
    let long: &'static str = "x".repeat(600).leak();
    let held = json!({ "call": "stream", "model": "default", "pieces_max": 1, "is_kept": true });
    let bench_of = || bench(&["llm:local/small"], Scripted::saying(&[long, long]));
    let (_, events) = bench_of().calls(json!([held])).await;
    let after = of_type(&events, "llm_call")[1];
    assert_eq!(after["error"], json!({ "kind": "cancelled" }));
    assert_eq!(after["cost_usd"], 0.25);

    let verb = json!({ "verb": "calls", "calls": [held] });
    let bench = bench_of().limited("llm_tokens", 9);
    let error = bench.run("probe", &verb).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::HostCallLimit);
    let events = bench.events(error.run_id().unwrap().as_str());
    assert_eq!(of_type(&events, "llm_call").len(), 2);
}

#[tokio::test]
async fn what_one_answer_may_take_is_there_for_no_other_at_the_same_time() {
    let long: &'static str = "x".repeat(600).leak();
    let scripted = Scripted::saying(&[long, long]);
    let asked = Arc::clone(&scripted.asked);
    let bench = bench(&["llm:local/small"], scripted).limited("llm_tokens", 100);
    let kept = json!({ "call": "stream", "model": "default", "pieces_max": 1, "is_kept": true });
    let calls = json!([
        kept,
        ask("default", None),
        { "call": "model", "model": "default", "output_tokens_max": 1 },
    ]);
    let (said, events) = bench.calls(calls).await;
    assert!(said[0]["ok"].is_array(), "{said:?}");
    for refused in &said[1..] {
        assert_eq!(refused["error"]["kind"], "exhausted", "{refused}");
        let detail = refused["error"]["detail"].as_str().unwrap();
        assert!(detail.contains("llm_tokens limit of 100"), "{detail}");
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert_eq!(asked.lock().unwrap()[0].tokens_left, 100);
    // What was kept is given up with the run, and counted as what it took. Those that were refused are on
    // record with that: another time there may be room.
    assert_eq!(of_type(&events, "llm_call").len(), 6);
}
