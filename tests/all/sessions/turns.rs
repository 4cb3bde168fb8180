use serde_json::json;
use skillrun::call::TurnStop;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, JsonObject, RunError, StartOptions};

use super::agent::{Agents, plain};
use crate::resume::library::Parts;

#[tokio::test]
async fn an_agent_keeps_its_memory_between_prompts_and_all_is_on_record() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &json!({"a": 1})).await;
    let turn = live.turn("remember x\necho hello").await;
    assert_eq!((turn.generation, turn.stop_reason), (1, TurnStop::EndTurn));
    let turn = live.turn("remember y\nrecall\ncount\nstop refusal").await;
    assert_eq!((turn.generation, turn.stop_reason), (2, TurnStop::Refusal));
    live.turn("reason because\nplan\nwindow 5 10").await;
    let run_id = live.run_id.clone();
    let ended = live.finish("enough").await;
    assert!(
        matches!(ended, Err(RunError::Cancelled { .. })),
        "{ended:?}"
    );
    assert_eq!(agents.said(&run_id), ["hello", "x,y", "2"]);
    let types: Vec<_> = agents
        .home
        .events(run_id.as_str())
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .filter(|kind| kind != "timer")
        .collect();
    assert_eq!(
        types,
        [
            "run_started",
            "session_status",
            "prompt",
            "session_update",
            "turn_completed",
            "session_status",
            "prompt",
            "session_update",
            "session_update",
            "turn_completed",
            "session_status",
            "prompt",
            "session_update",
            "session_update",
            "session_update",
            "turn_completed",
            "session_status",
            "session_status",
            "run_completed",
        ]
    );
    let end = agents.payloads(&run_id, "run_completed").remove(0);
    assert_eq!(
        (&end["status"], &end["code"]),
        (&json!("interrupted"), &json!("cancelled"))
    );
    assert_eq!(end["stop_reason"], "enough");
    let started = agents.payloads(&run_id, "run_started").remove(0);
    assert_eq!(started["session"]["session_id"], "s1");
    assert_eq!(started["input"], json!({"a": 1}));
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

#[tokio::test]
async fn an_error_ends_the_turn_and_not_the_execution() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    let turn = live.turn("remember x\nfail broken it broke").await;
    assert_eq!(turn.stop_reason, TurnStop::Error);
    assert!(turn.error.unwrap().contains("it broke"));
    live.turn("recall").await;
    assert_eq!(agents.said(&live.run_id), ["x"]);
}

#[tokio::test]
async fn c48_a_trap_in_mid_turn_ends_the_execution_as_failed() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    live.begin("trap").await;
    let run_id = live.run_id.clone();
    let error = live.end().await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Trap, "{error:?}");
    let end = agents.payloads(&run_id, "run_completed").remove(0);
    assert_eq!(end["status"], "error");
    assert_eq!(end["stop_reason"], json!(null));
    agents.verifies(&run_id);
}

#[tokio::test]
async fn an_agent_that_ends_itself_has_completed_or_failed_by_its_status() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    live.begin("exit 0").await;
    let run_id = live.run_id.clone();
    assert!(live.end().await.is_ok());
    let end = agents.payloads(&run_id, "run_completed").remove(0);
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("ok"), &json!(0))
    );
    let live = agents.launched(&runner, &json!({"start": "exit:1"})).await;
    let run_id = live.run_id.clone();
    let error = live.end().await.unwrap_err();
    assert!(error.to_string().contains("exit status 1"), "{error}");
    let end = agents.payloads(&run_id, "run_completed").remove(0);
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("error"), &json!(1))
    );
}

#[tokio::test]
async fn an_agent_that_refuses_to_start_has_failed() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let live = agents.launched(&runner, &json!({"start": "fail"})).await;
    let error = live.end().await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::SkillError, "{error:?}");
    assert!(error.to_string().contains("start failed"), "{error}");
}

/// The time of a turn is its own: one that takes too long ends the execution, many short ones do not.
#[tokio::test]
async fn a_turn_has_the_wall_time_of_a_run() {
    let agents = Agents::new("[limits]\nwall_time_ms = 4000\n");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    for _ in 0..3 {
        live.turn("sleep 1500").await;
    }
    live.begin("sleep 60000").await;
    let error = live.end().await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::TimeLimit, "{error:?}");
}

#[tokio::test]
async fn an_agent_is_not_run_and_a_skill_not_launched() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let input = JsonObject::parse("{}").unwrap();
    let run = runner.run(Caller::new(), StartOptions::new("probe-agent", input));
    let error = run.await.unwrap_err();
    assert!(error.to_string().contains("is an agent"), "{error}");
    assert_eq!(
        error.hint().as_deref(),
        Some("skillrun agent chat probe-agent talks to it")
    );
}

#[tokio::test]
async fn what_an_agent_says_when_it_finishes_is_on_record_and_a_late_prompt_is_refused() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let live = agents.launch(&runner, &json!({"finish": "emit:bye"})).await;
    let (run_id, session) = (live.run_id.clone(), live.session.clone());
    live.finish("done").await.unwrap_err();
    assert!(session.prompt(1, "echo late".to_owned()).is_err());
    assert_eq!(agents.said(&run_id), ["bye"]);
    agents.replays(&run_id);
    let agents = agents.with_short_grace();
    for finish in ["spin", "trap"] {
        let live = agents.launch(&runner, &json!({"finish": finish})).await;
        let (run_id, session) = (live.run_id.clone(), live.session.clone());
        live.finish("done").await.unwrap_err();
        assert!(session.teardown_error().is_some(), "{finish}");
        let end = agents.payloads(&run_id, "run_completed").remove(0);
        assert_eq!(end["code"], "cancelled", "{finish}");
        assert_eq!(agents.payloads(&run_id, "error").len(), 1, "{finish}");
    }
}
