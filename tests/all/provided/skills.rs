use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::Caller;
use skillrun::tools::{HostTool, ToolError, Toolbox};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use super::{Bench, Parts, of_type, tool};

fn bench(grants: &[&str]) -> Bench {
    Bench::new(grants, Parts::default())
}

fn call(skill: &str, input: &Value) -> Value {
    json!({ "call": "skill", "skill": skill, "input": input.to_string() })
}

#[tokio::test]
async fn work_is_handed_to_a_run_of_its_own_that_both_ledgers_name() {
    let bench = bench(&["skill:greet"]);
    let (said, events) = bench
        .calls(json!([call("greet", &json!({ "name": "Ada" }))]))
        .await;
    let result: Value = serde_json::from_str(said[0]["ok"].as_str().unwrap()).unwrap();
    assert_eq!(result["greeting"], "Hello, Ada!");
    let before = of_type(&events, "tool_call")[0];
    assert_eq!(
        (&before["kind"], &before["name"]),
        (&json!("skill"), &json!("greet"))
    );
    let child = before["child_run_id"].as_str().unwrap();
    assert_eq!(result["run_id"], child);
    let after = of_type(&events, "tool_result")[0];
    assert_eq!(after["child_run_id"], child);
    assert_eq!(after["output"]["greeting"], "Hello, Ada!");
    let inside = bench.events(child);
    assert_eq!(after["child_head"]["seq"], inside.last().unwrap()["seq"]);
    let parent = &of_type(&inside, "run_started")[0]["parent_run_id"];
    assert_eq!(*parent, events[0]["run_id"]);
}

#[tokio::test]
async fn how_another_skill_fails_is_told_apart() {
    let bench = bench(&["skill:greet", "skill:probe", "skill:nobody"]);
    let calls = json!([
        call("greet", &json!({ "name": 5 })),
        call("nobody", &json!({})),
        call("probe", &json!({ "verb": "fail", "message": "no luck", "code": "luck" })),
        call("probe", &json!({ "verb": "trap" })),
        call("handoff", &json!({})),
        { "call": "skill", "skill": "greet", "input": "[1]" },
        { "call": "skill", "skill": "no such name", "input": "{}" },
    ]);
    let (said, events) = bench.calls(calls).await;
    let told: Vec<_> = said.iter().map(|one| &one["error"]["kind"]).collect();
    assert_eq!(
        told,
        [
            "invalid",
            "not_found",
            "failed",
            "failed",
            "denied",
            "invalid",
            "denied"
        ]
    );
    assert!(
        said[0]["error"]["detail"]
            .as_str()
            .unwrap()
            .contains("$.name")
    );
    assert_eq!(said[2]["error"]["detail"], "no luck");
    assert!(
        said[3]["error"]["detail"]
            .as_str()
            .unwrap()
            .starts_with("trap: ")
    );
    // Whatever came to a run has one, and its end is known here.
    let results = of_type(&events, "tool_result");
    assert_eq!(results.len(), 4);
    assert!(
        results
            .iter()
            .all(|result| result["child_head"]["seq"].as_u64() > Some(1))
    );
}

#[tokio::test]
async fn a_grant_of_the_caller_is_none_of_the_skill_that_it_calls() {
    let (scripted, called) = tool("a__b", Effect::Read, &json!({}), |_| Ok(json!(1)));
    let bench = Bench::new(
        &["skill:probe", "tool:a__b"],
        Parts {
            tools: Toolbox::new().with_host_tool(scripted).unwrap(),
            ..Parts::default()
        },
    );
    let inner = json!({ "verb": "calls", "calls": [{ "call": "tool", "name": "a__b", "arguments": "{}" }] });
    let (said, _) = bench.calls(json!([call("probe", &inner)])).await;
    let result: Value = serde_json::from_str(said[0]["ok"].as_str().unwrap()).unwrap();
    assert_eq!(result[0]["error"]["kind"], "denied");
    assert!(called.lock().unwrap().is_empty());
}

#[tokio::test]
async fn many_at_once_wait_for_places_and_all_come_through() {
    let bench = Bench::new(
        &["skill:greet"],
        Parts {
            nested_max: 8,
            ..Parts::default()
        },
    );
    let calls: Vec<_> = (0..20)
        .map(|n| json!(["greet", json!({ "name": format!("n{n}") }).to_string()]))
        .collect();
    let calls = json!([{ "call": "skills", "calls": calls, "parallel_max": 16 }]);
    let (said, events) = bench.limited("parallel_calls", 16).calls(calls).await;
    for (n, one) in said[0].as_array().unwrap().iter().enumerate() {
        let result = one["ok"].as_str().unwrap();
        assert!(result.contains(&format!("Hello, n{n}!")), "{result}");
    }
    assert_eq!(of_type(&events, "tool_result").len(), 20);
}

/// A tool that answers when it is called a second time, and not before.
struct Meeting(Barrier);

#[async_trait]
impl HostTool for Meeting {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "a__meet".to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            effect: Effect::Write,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        self.0.wait().await;
        Ok(ToolAnswer {
            content: "[]".to_owned(),
            is_error: false,
        })
    }
}

/// Each of the two is in the middle of its call until the other one is, too.
#[tokio::test]
async fn c42_two_calls_of_one_skill_go_on_at_once() {
    let meeting = Arc::new(Meeting(Barrier::new(2)));
    let bench = Bench::new(
        &[],
        Parts {
            tools: Toolbox::new().with_host_tool(meeting).unwrap(),
            granted_to_all: &["skill:probe", "tool:a__meet"],
            ..Parts::default()
        },
    );
    let meet = json!({ "call": "tool", "name": "a__meet", "arguments": "{}" });
    let meet = json!({ "verb": "calls", "calls": [meet] }).to_string();
    let calls = json!([{
        "call": "skills", "calls": [["probe", meet], ["probe", meet]], "parallel_max": 2,
    }]);
    let (said, _) = bench.calls(calls).await;
    for one in said[0].as_array().unwrap() {
        let met: Value = serde_json::from_str(one["ok"].as_str().unwrap()).unwrap();
        assert_eq!(met[0]["ok"]["is_error"], false, "{said:?}");
    }
    assert_eq!(said[0].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn cancelling_a_run_cancels_those_inside_it() {
    let bench = bench(&["skill:probe"]);
    let inner = json!({ "verb": "sleep", "ms": 3_600_000 });
    let verb = json!({ "verb": "calls", "calls": [call("probe", &inner)] });
    let token = CancellationToken::new();
    let caller = Caller::new().with_cancellation(token.clone());
    let started = Arc::new(tokio::sync::Notify::new());
    let watch = {
        let (store, started) = (bench.runner.store().clone(), Arc::clone(&started));
        let mut all = store.subscribe_all();
        tokio::spawn(async move {
            // The second run that begins is the one inside.
            let mut begun = std::collections::BTreeSet::new();
            while begun.len() < 2 {
                if let skillrun::ledger::AnyDelivery::Record(record) = all.next().await.unwrap() {
                    begun.insert(record.run_id.to_string());
                }
            }
            started.notify_one();
        })
    };
    let run = bench.runner.run(caller, bench.options("probe", &verb));
    let cancel = async {
        started.notified().await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(run, cancel);
    watch.await.unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Cancelled);
    let events = bench.events(error.run_id().unwrap().as_str());
    let child = of_type(&events, "tool_call")[0]["child_run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    bench.runner.shutdown().await;
    let inside = bench.events(&child);
    let end = of_type(&inside, "run_completed")[0];
    assert_eq!(end["status"], "cancelled");
}
