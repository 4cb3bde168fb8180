//! `run`.

use std::sync::Arc;
use std::task::Poll;

use serde_json::json;
use skillrun::executor::Failure;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{
    Caller, ExecutorError, RunContext, RunError, StartOptions, ToolCallResult,
    recorder_from_context, run_id_from_context,
};
use skillrun::trace_context::TraceContext;
use tokio::sync::{Mutex, Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::fake::{ok, runner, skill};

#[tokio::test]
async fn without_a_skill_nothing_is_written() {
    let bench = runner(|_, _| async { ok("1") });
    let options = StartOptions {
        skill: String::new(),
        ..skill()
    };
    let refused = bench.runner.run(Caller::new(), options).await;
    assert!(matches!(refused, Err(RunError::NoSkill)));
    assert_eq!(bench.ledgers(), 0);
}

#[tokio::test]
async fn refused_limits_write_nothing() {
    let bench = runner(|_, _| async { ok("1") });
    let mut options = skill();
    options.terms.limits.insert("wall_time_ms".to_owned(), 0);
    let refused = bench.runner.run(Caller::new(), options).await;
    assert!(matches!(refused, Err(RunError::InvalidLimits(_))));
    assert_eq!(bench.ledgers(), 0);
}

#[tokio::test]
async fn an_unknown_skill_is_a_recorded_failed_run() {
    let bench = runner(|_, _| async {
        Err(ExecutorError::NotFound {
            name: "fake".to_owned(),
            nearest: None,
        })
    });
    let error = bench.runner.run(Caller::new(), skill()).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::NotFound);
    let run_id = error.run_id().unwrap();
    assert_eq!(
        bench.kinds(run_id),
        ["run_started", "error", "run_completed"]
    );
    let terminal = bench.terminal(run_id).await;
    assert_eq!(
        (&terminal["status"], &terminal["code"]),
        (&json!("error"), &json!("not_found"))
    );
}

#[tokio::test]
async fn the_first_event_is_on_disk_before_anything_runs_and_keeps_the_input_as_spelled() {
    let seen = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&seen);
    let bench = runner(move |cx, input| {
        let keep = Arc::clone(&keep);
        async move {
            *keep.lock().await = Some((cx.run_id().clone(), input.as_str().to_owned()));
            ok("1")
        }
    });
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let caller = Caller::new().with_trace(TraceContext::parse(parent, None).unwrap());
    let outcome = bench.runner.run(caller, skill()).await.unwrap();
    let (run_id, input) = seen.lock().await.clone().unwrap();
    assert_eq!(
        (run_id, input.as_str()),
        (outcome.run_id.clone(), r#"{"n":0.10}"#)
    );

    let line = std::fs::read_to_string(bench.runner.store().path_of(&outcome.run_id)).unwrap();
    assert!(
        line.starts_with(r#"{"v":1,"run_id":"#) && line.contains(r#""input":{"n":0.10}"#),
        "{line}"
    );
    let started = &bench.events(&outcome.run_id)[0];
    assert_eq!(started["time"], outcome.started_at.to_string());
    let payload = &started["payload"];
    assert_eq!(payload["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(payload["parent_span_id"], "00f067aa0ba902b7");
    assert_eq!(payload["trace_unsampled"], true);
    let digest = skillrun::ledger::Digest::of(br#"{ "n": 0.10 }"#).to_string();
    assert_eq!(payload["input_digest"], digest);
}

#[tokio::test]
async fn the_run_is_in_scope_below_the_executor_and_nowhere_else() {
    assert!(RunContext::current().is_none() && run_id_from_context().is_none());
    let bench = runner(|cx, _| async move {
        assert_eq!(run_id_from_context().as_ref(), Some(cx.run_id()));
        let recorder = recorder_from_context().unwrap();
        assert_eq!(recorder.run_id(), cx.run_id());
        assert_eq!(recorder.head().seq, 1);
        ok("1")
    });
    bench.runner.run(Caller::new(), skill()).await.unwrap();
    assert!(recorder_from_context().is_none());
}

#[tokio::test]
async fn the_terminal_event_is_written_and_the_ledger_closed_before_run_returns() {
    let bench = runner(|_, _| async { ok(r#"{"a": [1, 2.50]}"#) });
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    let terminal = bench.terminal(&outcome.run_id).await;
    assert_eq!(
        (&terminal["status"], &terminal["code"]),
        (&json!("ok"), &json!("ok"))
    );
    assert_eq!(terminal["output"], json!({ "a": [1, 2.5] }));
    let report = bench
        .runner
        .store()
        .verify(&outcome.run_id, Some(outcome.head))
        .unwrap();
    assert_eq!(report.verdict().as_str(), "ok");
}

#[tokio::test]
async fn text_that_is_not_json_is_recorded_as_a_string() {
    let bench = runner(|_, _| async { ok("plain \"text\"") });
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    assert_eq!(
        bench.terminal(&outcome.run_id).await["output"],
        "plain \"text\""
    );
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_a_failed_run_and_reaches_the_caller() {
    let bench = runner(|_, _| async {
        Ok(ToolCallResult {
            is_error: true,
            ..ToolCallResult::text("no luck")
        })
    });
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::SkillError);
    assert_eq!(outcome.result.joined_text(), "no luck");
    assert_eq!(
        bench.kinds(&outcome.run_id),
        ["run_started", "error", "run_completed"]
    );
    let terminal = bench.terminal(&outcome.run_id).await;
    assert_eq!(
        (&terminal["status"], &terminal["error"]),
        (&json!("error"), &json!("no luck"))
    );
    assert_eq!(terminal["output"], "no luck");
}

#[tokio::test]
async fn a_failure_keeps_its_code_message_and_hint() {
    let bench = runner(|_, _| async {
        let failure = Failure {
            hint: Some("do less".to_owned()),
            ..Failure::new(OutcomeCode::FuelLimit, "too much")
        };
        Err(failure.into())
    });
    let error = bench.runner.run(Caller::new(), skill()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.hint().as_deref()),
        (OutcomeCode::FuelLimit, Some("do less"))
    );
    let terminal = bench.terminal(error.run_id().unwrap()).await;
    assert_eq!(terminal["error"], "too much");
    assert_eq!(terminal["hint"], "do less");
}

/// The ledger has no room for the end as it is, so it gets one without what is too large.
#[tokio::test]
async fn an_end_that_is_too_large_for_a_line_is_an_end_all_the_same() {
    let bench = runner(|_, _| async {
        let failure = Failure {
            hint: Some("x".repeat(9 * 1024 * 1024)),
            ..Failure::new(OutcomeCode::Trap, "trapped")
        };
        Err(failure.into())
    });
    let error = bench.runner.run(Caller::new(), skill()).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Trap);
    let terminal = bench.terminal(error.run_id().unwrap()).await;
    assert_eq!(terminal["error"], "trapped");
    assert_eq!(terminal["truncated"], true);
}

#[tokio::test]
async fn a_panic_of_the_executor_is_a_failed_run() {
    let bench = runner(|_, _| async { panic!("boom {}", 1) });
    let error = bench.runner.run(Caller::new(), skill()).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Internal);
    let terminal = bench.terminal(error.run_id().unwrap()).await;
    assert_eq!(terminal["error"], "the executor panicked: boom 1");
}

#[tokio::test]
async fn cancelling_the_caller_stops_the_work_and_is_recorded() {
    let (stopped, was_stopped) = oneshot::channel::<()>();
    let entered = Arc::new(Notify::new());
    let (enter, guard) = (Arc::clone(&entered), Arc::new(Mutex::new(Some(stopped))));
    let bench = runner(move |_, _| {
        let (enter, guard) = (Arc::clone(&enter), Arc::clone(&guard));
        async move {
            let _dropped_when_stopped = guard.lock().await.take();
            enter.notify_one();
            std::future::pending().await
        }
    });
    let token = CancellationToken::new();
    let caller = Caller::new().with_cancellation(token.clone());
    let work = bench.runner.run(caller, skill());
    let cancel = async {
        entered.notified().await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(work, cancel);
    let error = ended.unwrap_err();
    assert!(matches!(error, RunError::Cancelled { .. }));
    assert!(
        was_stopped.await.is_err(),
        "the executor's future was dropped"
    );
    assert_eq!(
        bench.terminal(error.run_id().unwrap()).await["status"],
        "cancelled"
    );
}

#[tokio::test]
async fn dropping_the_future_stops_the_work_and_is_recorded() {
    let (id_sender, id) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(id_sender)));
    let bench = runner(move |cx, _| {
        let sender = Arc::clone(&sender);
        async move {
            sender.lock().await.take().unwrap().send(cx).ok().unwrap();
            std::future::pending().await
        }
    });
    let mut work = Box::pin(bench.runner.run(Caller::new(), skill()));
    let cx = tokio::select! {
        _ = &mut work => panic!("it cannot end"),
        cx = id => cx.unwrap(),
    };
    drop(work);
    let run_id = cx.run_id().clone();
    cx.cancellation().cancelled().await;
    drop(cx);
    until_closed(&bench, &run_id).await;
    assert_eq!(bench.terminal(&run_id).await["status"], "cancelled");
}

/// The ledger is made by then, and nobody is there any more to run the skill.
#[tokio::test]
async fn dropping_the_future_while_the_ledger_is_made_is_recorded_too() {
    let bench = runner(|_, _| async { panic!("it never begins") });
    let run_id = skillrun::id::RunId::generate();
    let options = StartOptions {
        run_id: Some(run_id.clone()),
        ..skill()
    };
    let mut work = Box::pin(bench.runner.run(Caller::new(), options));
    std::future::poll_fn(|cx| {
        assert!(
            work.as_mut().poll(cx).is_pending(),
            "the ledger is made on another thread"
        );
        Poll::Ready(())
    })
    .await;
    drop(work);
    while !bench.runner.store().path_of(&run_id).exists() {
        tokio::task::yield_now().await;
    }
    until_closed(&bench, &run_id).await;
    assert_eq!(bench.terminal(&run_id).await["status"], "cancelled");
}

/// Waits until the terminal event, which another thread writes, is there and the ledger closed.
async fn until_closed(bench: &super::fake::Bench, run_id: &skillrun::id::RunId) {
    while bench.kinds(run_id).last().map(String::as_str) != Some("run_completed") {
        tokio::task::yield_now().await;
    }
    bench.runner.shutdown().await;
}

#[tokio::test]
async fn a_caller_chosen_id_is_used_once() {
    let bench = runner(|_, _| async { ok("1") });
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    let options = StartOptions {
        run_id: Some(outcome.run_id.clone()),
        ..skill()
    };
    let refused = bench.runner.run(Caller::new(), options).await;
    assert!(
        matches!(refused, Err(RunError::NoLedger { .. })),
        "{refused:?}"
    );
    assert_eq!(
        bench.kinds(&outcome.run_id),
        ["run_started", "run_completed"]
    );
}

#[tokio::test]
async fn duplicate_keys_and_numbers_no_float_can_hold_are_kept() {
    let text = r#"{"a":1,"a":123456789012345678901234567890,"b":1e400,"c":"\u2028\ud800"}"#;
    let bench = runner(move |_, input| async move {
        assert_eq!(input.as_str(), text);
        ok("1")
    });
    let input = skillrun::runner::JsonObject::parse(text.replace(',', " ,\n")).unwrap();
    let outcome = bench
        .runner
        .run(Caller::new(), StartOptions::new("fake", input))
        .await
        .unwrap();
    let ledger = std::fs::read_to_string(bench.runner.store().path_of(&outcome.run_id)).unwrap();
    assert!(ledger.contains(&format!("\"input\":{text}")), "{ledger}");
    let lines: Vec<&str> = ledger.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| !line.is_empty()), "{ledger}");
}
