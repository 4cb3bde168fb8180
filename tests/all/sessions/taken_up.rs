use std::sync::Arc;

use serde_json::json;
use skillrun::call::TurnStop;
use skillrun::runner::{Caller, ResumeOptions, SessionSignal};
use tokio::sync::Semaphore;

use super::agent::{Agents, plain};
use crate::resume::library::{Parts, eventually, gated};

#[tokio::test]
async fn c49_an_execution_that_was_interrupted_between_turns_goes_on_where_it_was() {
    let agents = Agents::new("").with_short_grace();
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &json!({"start": "ok"})).await;
    live.turn("remember x\nrandom\nnow").await;
    let generation = live.begin("spin").await;
    live.session.cancel_turn(generation);
    live.ready().await;
    live.turn("remember y").await;
    let run_id = live.run_id.clone();
    runner.shutdown().await;
    assert_eq!(
        agents.payloads(&run_id, "run_completed")[0]["status"],
        "interrupted"
    );
    assert!(agents.payloads(&run_id, "error").is_empty());

    let runner = agents.runner(Parts::default());
    let mut live = agents.taken_up(&runner, &run_id, 2).await;
    assert_eq!(live.booted().await, 3);
    let turn = live.turn("recall\ncount\nmeta").await;
    assert_eq!(turn.generation, 4);
    let said = agents.said(&run_id);
    let last: Vec<_> = said.iter().rev().take(3).rev().collect();
    assert_eq!(&last[..2], ["x,y", "3"]);
    assert!(last[2].contains(r#""session_id":"s1""#), "{last:?}");
    live.finish("done").await.unwrap_err();
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

#[tokio::test]
async fn c49_a_turn_that_was_cut_off_goes_on() {
    let agents = Agents::new("");
    let gate = Arc::new(Semaphore::new(1));
    let runner = agents.runner(gated(&gate));
    let mut live = agents.launch(&runner, &plain()).await;
    live.turn("remember x").await;
    live.begin("remember y\ntool a__wait {}\npermission Go on?\nrecall")
        .await;
    let run_id = live.run_id.clone();
    let asked = || agents.payloads(&run_id, "approval_request").pop();
    eventually("a question", asked).await;
    runner.shutdown().await;

    let runner = agents.runner(gated(&gate));
    let mut live = agents.taken_up(&runner, &run_id, 2).await;
    let signal = live.signal().await;
    assert!(
        matches!(signal, SessionSignal::TurnBegun { generation: 2, .. }),
        "{signal:?}"
    );
    let allow = skillrun::ledger::ApprovalDecision {
        approved: true,
        reason: String::new(),
        source: skillrun::ledger::ApprovalSource::Api,
        option: Some("allow".to_owned()),
        answer: None,
    };
    // It is the same question still.
    runner
        .store()
        .decide(&run_id, Some("approval#2.1"), &allow)
        .unwrap();
    let turn = live.ready().await;
    assert_eq!((turn.generation, turn.stop_reason), (2, TurnStop::EndTurn));
    assert_eq!(agents.said(&run_id).last().unwrap(), "x,y");
    assert_eq!(agents.payloads(&run_id, "tool_call").len(), 1);
    live.finish("done").await.unwrap_err();
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

/// What it did when it was told to finish is on record, and for the agent it never was.
#[tokio::test]
async fn an_execution_that_was_stopped_is_taken_up_as_if_it_had_not_been() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &json!({"finish": "emit:bye"})).await;
    live.turn("remember x").await;
    let run_id = live.run_id.clone();
    live.finish("for now").await.unwrap_err();
    assert_eq!(agents.said(&run_id), ["bye"]);
    let mut live = agents.taken_up(&runner, &run_id, 2).await;
    assert_eq!(live.booted().await, 1);
    live.turn("recall").await;
    live.finish("for good").await.unwrap_err();
    assert_eq!(agents.said(&run_id), ["bye", "x", "bye"]);
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

#[tokio::test]
async fn an_execution_is_not_resumed_like_a_run_and_a_restart_leaves_it_alone() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let live = agents.launch(&runner, &plain()).await;
    let run_id = live.run_id.clone();
    runner.shutdown().await;
    let runner = agents.runner(Parts::default());
    let refused = runner
        .resume(Caller::new(), &run_id, ResumeOptions::default())
        .await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("launched again"), "{refused}");
    let recovery = skillrun::config::Config::load(agents.home.path())
        .unwrap()
        .recovery;
    let (_, recovered) = runner.recover(recovery).await.unwrap();
    let [only] = &*recovered else {
        panic!("{recovered:?}")
    };
    let why = only.outcome.as_ref().unwrap_err().to_string();
    assert!(why.contains("launched again"), "{why}");
}
