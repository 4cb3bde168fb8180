//! Runs that wait for people and have given up their instance meanwhile.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::{OnRestart, Recovery};
use skillrun::id::RunId;
use skillrun::ledger::{DecideError, Origin, RunCompleted, RunStatus, StoreError};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{
    Caller, NotRestarted, ResumeError, ResumeOptions, RunError, Runner, Started,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::library::{
    LATER, Library, Parts, ask, call_tool, calls, eventually, gated, hand_over, options, said,
    start, yes,
};

/// Few places, and runs that are suspended at the first look.
const SOON: &str = r#"
[runs]
at_once_max = 1
nested_max = 12
queue_max = 100
[approvals]
suspend_after_ms = 1
"#;

fn asking() -> serde_json::Value {
    calls(&[ask(None)])
}

fn runner(library: &Library) -> Runner {
    library.runner(Parts::default())
}

fn manual() -> Clock {
    Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000))
}

/// Starts a run, and waits until it is suspended.
async fn suspended(library: &Library, runner: &Runner, verb: &serde_json::Value) -> Started {
    let started = start(runner, verb).await;
    let ends = library.after_ends(&started.run_id, 1).await;
    assert_eq!(ends, ["suspended"]);
    eventually("a run that waits", || {
        (runner.suspended() > 0).then_some(())
    })
    .await;
    started
}

fn recovery(on_restart: OnRestart) -> Recovery {
    Recovery {
        on_restart,
        ..Recovery::default()
    }
}

#[tokio::test]
async fn a_run_that_waits_holds_no_place_and_goes_on_when_anybody_decides() {
    for is_elsewhere in [false, true] {
        let library = Library::new(SOON);
        let runner = runner(&library);
        let started = suspended(&library, &runner, &asking()).await;
        let run_id = started.run_id.clone();
        // There is one place for an instance.
        let passing = runner.run(Caller::new(), options(&json!({ "verb": "noop" })));
        assert_eq!(passing.await.unwrap().code, OutcomeCode::Ok);

        let store = match is_elsewhere {
            true => library.store(runner.clock()),
            false => runner.store().clone(),
        };
        let gate = store.decide(&run_id, None, &yes()).unwrap();
        assert_eq!(gate.approval_id, "approval#1");
        let outcome = started.handle.wait().await.unwrap();
        assert_eq!((outcome.code, &outcome.run_id), (OutcomeCode::Ok, &run_id));
        assert_eq!(outcome.started_at, started.started_at);
        let expected = json!({ "approved": true, "reason": "because", "automatic": false });
        assert_eq!(said(&outcome)[0]["ok"], expected);

        assert_eq!(library.ends(&run_id), ["suspended", "ok"]);
        let resumed = library.payloads(&run_id, "run_resumed");
        assert_eq!(resumed.len(), 1);
        assert_eq!(resumed[0]["reason"], "decided");
        for kind in ["approval_request", "approval_response"] {
            let events = library.payloads(&run_id, kind);
            assert_eq!(events.len(), 1, "{kind}");
            assert_eq!(events[0]["approval_id"], "approval#1");
        }
        library.verifies(&run_id);
        eventually("that nobody waits", || {
            (runner.suspended() == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn many_wait_where_there_is_room_for_one_and_each_gets_its_answer() {
    let library = Library::new(SOON);
    let runner = runner(&library);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(start(&runner, &asking()).await);
    }
    eventually("all of them", || (runner.suspended() == 20).then_some(())).await;
    for (n, started) in waiting.iter().enumerate() {
        let mut decision = yes();
        decision.reason = n.to_string();
        let decided = runner.store().decide(&started.run_id, None, &decision);
        decided.unwrap();
    }
    for (n, started) in waiting.into_iter().enumerate() {
        let outcome = started.handle.wait().await.unwrap();
        assert_eq!(said(&outcome)[0]["ok"]["reason"], n.to_string());
    }
}

#[tokio::test]
async fn whoever_awaits_the_run_itself_gets_the_answer_of_its_last_part() {
    let library = Library::new(SOON);
    let runner = runner(&library);
    let run_id = RunId::generate();
    let mut wanted = options(&calls(&[ask(None), ask(None)]));
    wanted.run_id = Some(run_id.clone());
    let deciding = async {
        for part in 1..=2 {
            library.after_ends(&run_id, part).await;
            runner.store().decide(&run_id, None, &yes()).unwrap();
        }
    };
    let (outcome, ()) = tokio::join!(runner.run(Caller::new(), wanted), deciding);
    let said = said(&outcome.unwrap());
    assert_eq!(said[1]["ok"]["approved"], true, "{said}");
    assert_eq!(library.ends(&run_id), ["suspended", "suspended", "ok"]);
    let resumed = library.payloads(&run_id, "run_resumed");
    let attempts: Vec<_> = resumed.iter().map(|event| &event["attempt"]).collect();
    assert_eq!(attempts, [1, 2]);
    library.verifies(&run_id);
}

#[tokio::test]
async fn a_run_that_is_suspended_is_told_no_when_the_time_is_over() {
    let library = Library::new(SOON);
    let clock = manual();
    let runner = library.runner(Parts {
        clock: clock.clone(),
        ..Parts::default()
    });
    let started = start(&runner, &calls(&[ask(Some(1_000_000))])).await;
    let asked = || library.payloads(&started.run_id, "approval_request").pop();
    eventually("the question", asked).await;
    clock.advance(Duration::from_millis(1));
    let run_id = started.run_id.clone();
    assert_eq!(library.after_ends(&run_id, 1).await, ["suspended"]);
    clock.advance(Duration::from_secs(1_000));
    let outcome = started.handle.wait().await.unwrap();
    let said = said(&outcome);
    assert_eq!(said[0]["ok"]["reason"], "nobody answered within 1000 s");
    let response = library.payloads(&run_id, "approval_response");
    assert_eq!(response[0]["source"], "timeout");
    // From the question on, whoever waited for it.
    let waited = response[0]["duration_micros"].as_u64().unwrap();
    assert_eq!(waited, 1_000_001_000);
    assert_eq!(library.ends(&run_id), ["suspended", "ok"]);
}

#[tokio::test]
async fn a_question_that_blocks_wakes_nobody_when_its_time_is_over() {
    let library = Library::new(&format!("{SOON}on_timeout = \"block\""));
    let clock = manual();
    let runner = library.runner(Parts {
        clock: clock.clone(),
        ..Parts::default()
    });
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let started = start(&runner, &calls(&[ask(Some(1_000))])).await;
        let asked = || library.payloads(&started.run_id, "approval_request").pop();
        eventually("the question", asked).await;
        clock.advance(Duration::from_millis(1));
        library.after_ends(&started.run_id, 1).await;
        waiting.push(started);
    }
    clock.advance(Duration::from_secs(3_600));
    for started in waiting {
        // The other one was looked at as well, by the look that found this one decided.
        assert_eq!(library.ends(&started.run_id), ["suspended"]);
        let decided = runner.store().decide(&started.run_id, None, &yes());
        decided.unwrap();
        let outcome = started.handle.wait().await.unwrap();
        assert_eq!(said(&outcome)[0]["ok"]["approved"], true);
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_is_suspended_is_so_on_record() {
    let library = Library::new(SOON);
    let runner = runner(&library);
    let by_handle = suspended(&library, &runner, &asking()).await;
    by_handle.handle.cancel();
    let run_id = by_handle.run_id;
    let error = by_handle.handle.wait().await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Cancelled);
    assert_eq!(library.ends(&run_id), ["suspended", "cancelled"]);
    let late = runner.store().decide(&run_id, None, &yes());
    assert!(matches!(late, Err(DecideError::Over { .. })), "{late:?}");

    let run_id = RunId::generate();
    let mut wanted = options(&asking());
    wanted.run_id = Some(run_id.clone());
    let token = CancellationToken::new();
    let caller = Caller::new().with_cancellation(token.clone());
    let cancel = async {
        library.after_ends(&run_id, 1).await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(runner.run(caller, wanted.clone()), cancel);
    assert_eq!(ended.unwrap_err().code(), OutcomeCode::Cancelled);
    assert_eq!(library.ends(&run_id), ["suspended", "cancelled"]);
    library.verifies(&run_id);

    let run_id = RunId::generate();
    wanted.run_id = Some(run_id.clone());
    tokio::select! {
        ended = runner.run(Caller::new(), wanted) => panic!("{ended:?}"),
        _ends = async {
            library.after_ends(&run_id, 1).await;
            eventually("a run that waits", || (runner.suspended() > 0).then_some(())).await;
        } => {}
    }
    let ends = library.after_ends(&run_id, 2).await;
    assert_eq!(ends, ["suspended", "cancelled"]);
    eventually("that nobody waits", || {
        (runner.suspended() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn runs_inside_one_that_is_cancelled_while_it_is_suspended_are_cancelled_too() {
    let library = Library::new(SOON);
    let runner = runner(&library);
    let verb = calls(&[hand_over(&calls(&[hand_over(&asking())]))]);
    let started = suspended(&library, &runner, &verb).await;
    let outer = started.run_id.to_string();
    let middle = library.inside(&outer, "skill#1").unwrap();
    let inner = library.inside(&middle, "skill#1").unwrap();
    started.handle.cancel();
    started.handle.wait().await.unwrap_err();
    for run_id in [&outer, &middle, &inner] {
        assert_eq!(library.ends(run_id), ["suspended", "cancelled"], "{run_id}");
    }
}

#[tokio::test]
async fn a_shutdown_leaves_what_is_suspended_as_it_is_and_the_next_process_waits_on_for_it() {
    for is_decided_between in [false, true] {
        let library = Library::new(SOON);
        let before = runner(&library);
        let started = suspended(&library, &before, &asking()).await;
        let run_id = started.run_id.clone();
        before.shutdown().await;
        let error = started.handle.wait().await.unwrap_err();
        assert!(matches!(error, RunError::Suspended { .. }), "{error:?}");
        assert_eq!(library.ends(&run_id), ["suspended"]);

        if is_decided_between {
            before.store().decide(&run_id, None, &yes()).unwrap();
        }
        let after = runner(&library);
        let (closed, left) = after.recover(recovery(OnRestart::Interrupt)).await.unwrap();
        assert!(closed.is_empty(), "{closed:?}");
        let left = left.into_iter().next().unwrap();
        assert!(matches!(left.outcome, Err(NotRestarted::Configured)));
        let recovered = after.recover(recovery(OnRestart::Resume)).await.unwrap().1;
        let [recovered] = <[_; 1]>::try_from(recovered).unwrap();
        assert_eq!(recovered.run_id, run_id);
        let again = recovered.outcome.unwrap();
        if !is_decided_between {
            eventually("a run that waits", || {
                (after.suspended() == 1).then_some(())
            })
            .await;
            assert_eq!(library.ends(&run_id), ["suspended"]);
            after.store().decide(&run_id, None, &yes()).unwrap();
        }
        let outcome = again.handle.wait().await.unwrap();
        assert_eq!(said(&outcome)[0]["ok"]["approved"], true);
        assert_eq!(library.ends(&run_id), ["suspended", "ok"]);
        let resumed = library.payloads(&run_id, "run_resumed");
        assert_eq!(resumed[0]["reason"], "decided");
        library.verifies(&run_id);
    }
}

#[tokio::test]
async fn a_run_is_suspended_with_the_one_inside_it_and_both_go_on() {
    let library = Library::new(SOON);
    let runner = runner(&library);
    let started = suspended(&library, &runner, &calls(&[hand_over(&asking())])).await;
    let outer = started.run_id.to_string();
    let inner = library.inside(&outer, "skill#1").unwrap();
    assert_eq!(library.ends(&inner), ["suspended"]);
    let passing = runner.run(Caller::new(), options(&json!({ "verb": "noop" })));
    passing.await.unwrap();
    let inner_id = inner.parse().unwrap();
    runner.store().decide(&inner_id, None, &yes()).unwrap();
    let outcome = started.handle.wait().await.unwrap();
    let told = said(&outcome)[0]["ok"].as_str().unwrap().to_owned();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[0]["ok"]["approved"], true, "{told}");
    for (run_id, reason) in [(&outer, "decided"), (&inner, "parent")] {
        assert_eq!(library.ends(run_id), ["suspended", "ok"]);
        let resumed = library.payloads(run_id, "run_resumed");
        assert_eq!(resumed[0]["reason"], reason);
        library.verifies(run_id);
    }
    assert_eq!(library.payloads(&outer, "tool_call").len(), 1);
}

#[tokio::test]
async fn the_next_process_waits_on_for_a_question_of_a_run_inside() {
    let library = Library::new(SOON);
    let before = runner(&library);
    let started = suspended(&library, &before, &calls(&[hand_over(&asking())])).await;
    let outer = started.run_id.to_string();
    let inner = library.inside(&outer, "skill#1").unwrap();
    before.shutdown().await;
    started.handle.wait().await.unwrap_err();
    let after = runner(&library);
    let recovered = after.recover(recovery(OnRestart::Resume)).await.unwrap().1;
    let mut goes_on = None;
    for one in recovered {
        match one.outcome {
            Ok(again) => {
                assert_eq!(one.run_id, started.run_id);
                goes_on = Some(again);
            }
            Err(NotRestarted::Inside(parent)) => {
                assert_eq!(
                    (one.run_id.as_str(), parent),
                    (&*inner, started.run_id.clone())
                );
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    after
        .store()
        .decide(&inner.parse().unwrap(), None, &yes())
        .unwrap();
    let outcome = goes_on.unwrap().handle.wait().await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::Ok);
    for run_id in [&outer, &inner] {
        assert_eq!(library.ends(run_id), ["suspended", "ok"]);
    }
}

#[tokio::test]
async fn whoever_waits_is_told_when_somebody_else_has_taken_the_run_up() {
    let library = Library::new(SOON);
    let waits = runner(&library);
    let started = suspended(&library, &waits, &asking()).await;
    let run_id = started.run_id.clone();
    library.configure(LATER);
    let takes = runner(&library);
    let resumed = takes.start_resume(Caller::new(), &run_id, ResumeOptions::default());
    let resumed = resumed.await.unwrap();
    waits.store().decide(&run_id, None, &yes()).unwrap();
    let outcome = resumed.handle.wait().await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::Ok);
    let error = started.handle.wait().await.unwrap_err();
    let RunError::NotResumed(ResumeError::Ledger { source, .. }) = error else {
        panic!("{error:?}");
    };
    let is_clear = matches!(source, StoreError::Locked { .. } | StoreError::Ended { .. });
    assert!(is_clear, "{source:?}");
    assert_eq!(library.ends(&run_id), ["suspended", "ok"]);
}

#[tokio::test]
async fn a_run_with_two_inside_it_waits_while_one_of_them_works_and_is_suspended_with_both() {
    for is_decided_first in [true, false] {
        let library = Library::new(SOON);
        let gate = Arc::new(Semaphore::new(0));
        let runner = library.runner(gated(&gate));
        let works = calls(&[call_tool("a__wait", &json!({}))]);
        let each = [asking(), works].map(|verb| json!(["probe", verb.to_string()]));
        let both = json!({ "call": "skills", "calls": each, "parallel_max": 2 });
        let started = start(&runner, &calls(&[both])).await;
        let outer = started.run_id.clone();
        let inside = |id: &str| library.inside(&outer, id);
        let asks = eventually("the first run inside", || inside("skill#1")).await;
        let works = eventually("the second run inside", || inside("skill#2")).await;
        assert_eq!(library.after_ends(&asks, 1).await, ["suspended"]);
        eventually("its work", || library.payloads(&works, "tool_call").pop()).await;
        let decide = || {
            let decided = runner.store().decide(&asks.parse().unwrap(), None, &yes());
            decided.unwrap();
        };
        let ends: &[&str] = if is_decided_first {
            decide();
            assert_eq!(library.after_ends(&asks, 2).await, ["suspended", "ok"]);
            assert!(library.ends(&outer).is_empty());
            gate.add_permits(1);
            &["ok"]
        } else {
            gate.add_permits(1);
            assert_eq!(library.after_ends(&outer, 1).await, ["suspended"]);
            decide();
            &["suspended", "ok"]
        };
        let outcome = started.handle.wait().await.unwrap();
        let said = said(&outcome);
        let told = said[0][0]["ok"].as_str().unwrap();
        assert!(told.contains(r#""approved":true"#), "{said}");
        assert!(said[0][1]["ok"].is_string(), "{said}");
        assert_eq!(library.ends(&outer), ends);
        assert_eq!(library.ends(&works), ["ok"]);
        assert_eq!(library.payloads(&works, "tool_call").len(), 1);
        library.verifies(&outer);
    }
}

#[tokio::test]
async fn the_next_process_leaves_what_was_inside_a_run_that_has_ended() {
    let library = Library::new(SOON);
    let before = runner(&library);
    let started = suspended(&library, &before, &calls(&[hand_over(&asking())])).await;
    let inner = library.inside(&started.run_id, "skill#1").unwrap();
    before.shutdown().await;
    started.handle.wait().await.unwrap_err();
    // As a process leaves it that is killed when it has cancelled the outer one.
    let recorder = before.store().recover(&started.run_id).await.unwrap();
    let end = RunCompleted::new(RunStatus::Cancelled, OutcomeCode::Cancelled);
    recorder.record(Origin::Host, &end.into()).unwrap();
    let after = runner(&library);
    let recovered = after.recover(recovery(OnRestart::Resume)).await.unwrap().1;
    let [left] = <[_; 1]>::try_from(recovered).unwrap();
    assert_eq!(left.run_id.as_str(), inner);
    let Err(NotRestarted::Orphaned(parent)) = left.outcome else {
        panic!("{left:?}");
    };
    assert_eq!(parent, started.run_id);
    assert_eq!(after.suspended(), 0);
}
