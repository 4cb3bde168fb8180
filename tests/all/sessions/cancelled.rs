use std::sync::Arc;

use skillrun::call::TurnStop;
use skillrun::ledger::{ApprovalDecision, ApprovalSource, DecideError};
use skillrun_test_artifacts::PROBE_AGENT;
use tokio::sync::Semaphore;

use super::agent::{Agents, plain};
use crate::harness::Home;
use crate::http::server::{Server, wait_for_close};
use crate::resume::library::{Parts, eventually, gated};

/// Its call is answered, it goes on as it likes, and remembers what was before.
#[tokio::test]
async fn a_cancelled_turn_ends_by_itself_when_the_agent_listens() {
    let agents = Agents::new("");
    let runner = agents.runner(gated(&Arc::new(Semaphore::new(0))));
    let mut live = agents.launch(&runner, &plain()).await;
    let generation = live.begin("remember x\ntool a__wait {}\nremember y").await;
    let called = || agents.payloads(&live.run_id, "tool_call").pop();
    eventually("a call", called).await;
    live.session.cancel_turn(generation);
    let turn = live.ready().await;
    assert_eq!(
        (turn.stop_reason, turn.undone),
        (TurnStop::Cancelled, false)
    );
    live.turn("recall").await;
    let said = agents.said(&live.run_id);
    assert!(said[0].starts_with("error: cancelled"), "{said:?}");
    // It ended the turn with the answer.
    assert_eq!(said[1], "x");
    let run_id = live.run_id.clone();
    live.finish("done").await.unwrap_err();
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

/// For the agent it never was, and later turns are told the same when the ledger is done again.
#[tokio::test]
async fn a_cancelled_turn_that_computes_is_undone() {
    let agents = Agents::new("").with_short_grace();
    let runner = agents.runner(gated(&Arc::new(Semaphore::new(8))));
    let mut live = agents.launch(&runner, &plain()).await;
    live.turn("remember x\ntool a__wait {}\nrandom\nnow").await;
    let spins = "remember lost\necho lost\ntool a__wait {}\nspin";
    let generation = live.begin(spins).await;
    // A call would still hear of it.
    let answered = || (agents.payloads(&live.run_id, "tool_result").len() == 2).then_some(());
    eventually("the answer to its call", answered).await;
    live.session.cancel_turn(generation);
    let turn = live.ready().await;
    assert_eq!((turn.stop_reason, turn.undone), (TurnStop::Cancelled, true));
    let turn = live
        .turn("remember y\nrecall\ncount\ntool a__wait {}\nrandom")
        .await;
    assert_eq!(turn.generation, 3);
    let generation = live.begin("spin").await;
    live.session.cancel_turn(generation);
    assert!(live.ready().await.undone);
    live.turn("recall\nnow").await;
    let run_id = live.run_id.clone();
    live.finish("done").await.unwrap_err();
    let said = agents.said(&run_id);
    assert!(said.contains(&"x,y".to_owned()), "{said:?}");
    // The prompt that was undone is not counted.
    assert!(said.contains(&"2".to_owned()), "{said:?}");
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

/// Nobody knows whether it had its effect, and the agent is told that there is no response.
#[tokio::test]
async fn a_request_of_an_earlier_turn_is_given_up_with_a_turn_that_is_undone() {
    let server = Server::start(|_, wire| {
        wait_for_close(wire);
        Ok(())
    });
    let home = Home::new(&[PROBE_AGENT]);
    let net = server.net("/#POST");
    home.write_manifest(
        "probe-agent",
        &format!("[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [{net:?}]\n"),
    );
    let grant = format!("[skills.probe-agent]\ngrant = [{net:?}]");
    let agents = Agents::of("probe-agent", home, &grant).with_short_grace();
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    live.turn(&format!("post {}", server.url("/"))).await;
    let posted = || (!server.seen().is_empty()).then_some(());
    eventually("a request", posted).await;
    let generation = live.begin("spin").await;
    live.session.cancel_turn(generation);
    assert!(live.ready().await.undone);
    let end = agents.payloads(&live.run_id, "http_result").remove(0);
    assert_eq!(end["call_id"], "http#1.1");
    live.turn("posted\necho on").await;
    let run_id = live.run_id.clone();
    live.finish("done").await.unwrap_err();
    let said = agents.said(&run_id);
    assert!(said[0].starts_with("error: "), "{said:?}");
    assert_eq!(said[1], "on");
    assert_eq!(server.seen().len(), 1);
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

#[tokio::test]
async fn a_cancellation_of_another_turn_changes_nothing() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    let first = live.begin("echo a").await;
    live.ready().await;
    live.begin("sleep 50\necho b").await;
    live.session.cancel_turn(first);
    let turn = live.ready().await;
    assert_eq!(turn.stop_reason, TurnStop::EndTurn);
    assert_eq!(agents.said(&live.run_id), ["a", "b"]);
}

#[tokio::test]
async fn a_permission_is_chosen_from_what_was_offered() {
    let agents = Agents::new("");
    let runner = agents.runner(Parts::default());
    let mut live = agents.launch(&runner, &plain()).await;
    live.begin("permission May I?").await;
    let store = runner.store().clone();
    let open = || store.gates(&live.run_id).unwrap().pop();
    let gate = eventually("a question", open).await;
    assert_eq!(gate.approval_id, "approval#1.1");
    let decision = |option: Option<&str>, approved| ApprovalDecision {
        approved,
        reason: String::new(),
        source: ApprovalSource::Api,
        option: option.map(str::to_owned),
        answer: None,
    };
    for wrong in [
        decision(None, true),
        decision(Some("other"), true),
        decision(Some("allow"), false),
    ] {
        let refused = store.decide(&live.run_id, None, &wrong).unwrap_err();
        assert!(
            matches!(refused, DecideError::NoSuchOption { .. }),
            "{refused:?}"
        );
    }
    store
        .decide(&live.run_id, None, &decision(Some("allow"), true))
        .unwrap();
    live.ready().await;
    let generation = live.begin("permission Again?").await;
    let asked = || (agents.payloads(&live.run_id, "approval_request").len() == 2).then_some(());
    eventually("a question", asked).await;
    live.session.cancel_turn(generation);
    live.ready().await;
    assert_eq!(agents.said(&live.run_id)[0], "allow");
    let answers = agents.payloads(&live.run_id, "approval_response");
    assert_eq!(answers[1]["source"], "cancelled");
    let late = store.decide(
        &live.run_id,
        Some("approval#2.1"),
        &decision(Some("allow"), true),
    );
    assert!(matches!(late, Err(DecideError::Decided { .. })), "{late:?}");
    let run_id = live.run_id.clone();
    live.finish("done").await.unwrap_err();
    agents.replays(&run_id);
}
