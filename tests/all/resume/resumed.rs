//! Runs that were cut off go on through the library, or are refused with their ledgers as they were.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skillrun::call::Effect;
use skillrun::id::RunId;
use skillrun::ledger::{Digest, StoreError};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, ResumeError, ResumeOptions, RunError, StartOptions};
use skillrun::tools::{HostTool, Toolbox};
use skillrun_test_artifacts::GREET;

use super::library::{
    LATER, Library, Parts, approving, ask, call_tool, calls, eventually, options, said, yes,
};
use crate::provided::tool;

/// A tool that answers with what it was given, and what that was.
fn echo(name: &str, effect: Effect) -> (Arc<dyn HostTool>, Arc<Mutex<Vec<Value>>>) {
    tool(name, effect, &json!({}), |arguments| Ok(arguments.clone()))
}

fn with_tool(tool: &Arc<dyn HostTool>) -> Parts {
    Parts {
        tools: Toolbox::new().with_host_tool(Arc::clone(tool)).unwrap(),
        ..Parts::default()
    }
}

fn ledgers(library: &Library) -> usize {
    library.home.run_ids().len()
}

#[tokio::test]
async fn c27_of_two_who_resume_one_is_told_at_once_who_the_other_is() {
    let library = Library::new(LATER);
    let run_id = library
        .interrupted(Parts::default(), options(&calls(&[ask(None)])))
        .await;
    let runners = [(); 2].map(|()| library.runner(Parts::default()));
    let [one, other] = runners.each_ref().map(|runner| {
        let (runner, run_id) = (runner.clone(), run_id.clone());
        async move {
            let asked = runner.clock().stopwatch();
            let resumed = runner
                .start_resume(Caller::new(), &run_id, ResumeOptions::default())
                .await;
            (resumed, asked.elapsed())
        }
    });
    let ((one, one_took), (other, other_took)) = tokio::join!(one, other);
    let (goes_on, refused, goes_on_took, took) = match (one, other) {
        (Ok(one), Err(other)) => (one, other, one_took, other_took),
        (Err(one), Ok(other)) => (other, one, other_took, one_took),
        both => panic!("{both:?}"),
    };
    // Both are driven by this thread: how slow the machine is now shows in the one that goes on.
    let took_max = Duration::from_secs(1) + goes_on_took;
    assert!(took < took_max, "{took:?}: expected less than {took_max:?}");
    assert_eq!(refused.code(), OutcomeCode::Busy);
    let RunError::NotResumed(ResumeError::Ledger { source, .. }) = refused else {
        panic!("{refused:?}");
    };
    let StoreError::Locked { pid, .. } = source else {
        panic!("{source:?}");
    };
    assert_eq!(pid, Some(std::process::id()));
    let store = library.store(runners[0].clock());
    store.decide(&run_id, None, &yes()).unwrap();
    let outcome = goes_on.handle.wait().await.unwrap();
    assert_eq!(said(&outcome)[0]["ok"]["approved"], true);
    assert_eq!(library.payloads(&run_id, "run_resumed").len(), 1);
    library.verifies(&run_id);
}

#[tokio::test]
async fn a_run_that_has_ended_is_not_resumed_and_it_is_said_what_can_be_done() {
    let library = Library::new(LATER);
    let runner = library.runner(Parts::default());
    let ended = runner.run(Caller::new(), options(&json!({ "verb": "noop" })));
    let run_id = ended.await.unwrap().run_id;
    let before = library.ledger(&run_id);
    let refused = runner.resume(Caller::new(), &run_id, ResumeOptions::default());
    let refused = refused.await.unwrap_err();
    let RunError::NotResumed(ResumeError::Ledger { source, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(source, StoreError::Ended { .. }), "{source:?}");
    assert!(refused.hint().unwrap().contains("--from-node"));
    assert_eq!(library.ledger(&run_id), before);
    let nobody = RunId::generate();
    let refused = runner.resume(Caller::new(), &nobody, ResumeOptions::default());
    assert_eq!(refused.await.unwrap_err().code(), OutcomeCode::NotFound);
}

#[tokio::test]
async fn c31_a_component_that_has_changed_is_not_run_and_nothing_is_written() {
    let library = Library::new(LATER);
    let (called, calls_made) = echo("a__b", Effect::Read);
    let verb = calls(&[call_tool("a__b", &json!({})), ask(None)]);
    let run_id = library
        .interrupted(with_tool(&called), options(&verb))
        .await;
    let manifest = library.home.skill("probe").join("skill.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    fs::copy(GREET.wasm, library.home.skill("probe").join("skill.wasm")).unwrap();
    library.home.write_manifest("probe", &manifest);
    let before = library.ledger(&run_id);
    let runner = library.runner(with_tool(&called));
    for from_node in [None, Some("tool#1".to_owned())] {
        let options = ResumeOptions {
            from_node,
            ..approving()
        };
        let refused = runner.resume(Caller::new(), &run_id, options).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), OutcomeCode::Diverged);
        let digest = Digest::of(&fs::read(GREET.wasm).unwrap()).to_string();
        assert!(refused.to_string().contains(&digest), "{refused}");
    }
    assert_eq!(calls_made.lock().unwrap().len(), 1);
    assert_eq!((library.ledger(&run_id), ledgers(&library)), (before, 1));
}

#[tokio::test]
async fn what_the_first_caller_granted_is_granted_again_or_the_run_is_not_resumed() {
    let library = Library::new(LATER);
    let capability = "net:http://127.0.0.1:1/#GET";
    let grant = || vec![capability.parse().unwrap()];
    let mut wanted = options(&calls(&[ask(None)]));
    wanted.terms.grants = grant();
    let run_id = library.interrupted(Parts::default(), wanted).await;
    let before = library.ledger(&run_id);
    let runner = library.runner(Parts::default());
    for from_node in [None, Some("approval#1".to_owned())] {
        let options = ResumeOptions {
            from_node,
            ..approving()
        };
        let refused = runner.resume(Caller::new(), &run_id, options).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), OutcomeCode::Denied);
        // As a shell takes it.
        let flag = format!("--grant '{capability}'");
        let hint = refused.hint().unwrap();
        assert!(hint.contains(&flag), "{hint}");
    }
    assert_eq!((library.ledger(&run_id), ledgers(&library)), (before, 1));
    let mut again = approving();
    again.terms.grants = grant();
    let resumed = runner.resume(Caller::new(), &run_id, again).await.unwrap();
    assert_eq!(resumed.code, OutcomeCode::Ok);
}

#[tokio::test]
async fn a_new_run_from_a_call_of_an_old_one_repeats_what_was_before_it_and_makes_it_anew() {
    let library = Library::new(LATER);
    let (called, calls_made) = echo("a__b", Effect::Write);
    let numbered = |n: u64| call_tool("a__b", &json!({ "n": n }));
    let verb = calls(&[numbered(1), numbered(2), numbered(3)]);
    let runner = library.runner(with_tool(&called));
    let first = runner.run(Caller::new(), options(&verb)).await.unwrap();
    let old = first.run_id.clone();
    let before = library.ledger(&old);
    calls_made.lock().unwrap().clear();
    let from = |node: &str| ResumeOptions {
        from_node: Some(node.to_owned()),
        ..ResumeOptions::default()
    };
    let second = runner.resume(Caller::new(), &old, from("tool#2")).await;
    let second = second.unwrap();
    assert_ne!(second.run_id, old);
    assert_eq!(said(&second), said(&first));
    let made = std::mem::take(&mut *calls_made.lock().unwrap());
    assert_eq!(made, [json!({ "n": 2 }), json!({ "n": 3 })]);
    assert_eq!(library.ledger(&old), before);
    let begun = library.payloads(&second.run_id, "run_started");
    assert_eq!(begun[0]["resumed_from"], old.as_str());
    assert_eq!(begun[0]["origin"]["run_id"], old.as_str());
    library.verifies(&second.run_id);

    // And from that one again.
    let third = runner.resume(Caller::new(), &second.run_id, from("tool#3"));
    let third = third.await.unwrap();
    assert_eq!(said(&third), said(&first));
    assert_eq!(*calls_made.lock().unwrap(), [json!({ "n": 3 })]);
    let begun = library.payloads(&third.run_id, "run_started");
    assert_eq!(begun[0]["resumed_from"], second.run_id.as_str());
    assert_eq!(begun[0]["origin"]["run_id"], old.as_str());
    library.verifies(&third.run_id);

    let count = ledgers(&library);
    let refused = runner.resume(Caller::new(), &old, from("tool#4")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), OutcomeCode::NotFound);
    assert!(refused.to_string().contains("tool#4"), "{refused}");
    assert!(refused.hint().unwrap().contains("runs inspect"));
    assert_eq!((ledgers(&library), library.ledger(&old)), (count, before));
}

#[tokio::test]
async fn a_new_run_from_a_step_takes_itself_for_the_old_one() {
    let library = Library::new(LATER);
    let about = json!({ "verb": "in_node", "name": "x", "then": { "verb": "about" } });
    let runner = library.runner(Parts::default());
    let first = runner.run(Caller::new(), options(&about)).await.unwrap();
    let from = ResumeOptions {
        from_node: Some("step:x#1".to_owned()),
        ..ResumeOptions::default()
    };
    let second = runner.resume(Caller::new(), &first.run_id, from).await;
    let second = second.unwrap();
    assert_ne!(second.run_id, first.run_id);
    assert_eq!(said(&second)["id"], first.run_id.as_str());
    assert_eq!(library.payloads(&second.run_id, "node_enter").len(), 1);
    library.verifies(&second.run_id);
}

#[tokio::test]
async fn a_guest_that_goes_another_way_is_stopped_and_goes_on_when_it_goes_the_old_one() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("a.txt");
    fs::write(&file, "one").unwrap();
    let grant = format!(
        "[skills.probe]\ngrant = [\"fs:ro:{}=/data\"]",
        data.path().display()
    );
    let library = Library::new(&format!("{LATER}{grant}"));
    let read = json!({ "verb": "read_file", "path": "/data/a.txt" });
    let verb = calls(&[json!({ "call": "noted", "verb": read }), ask(None)]);
    let run_id = library.interrupted(Parts::default(), options(&verb)).await;
    fs::write(&file, "two").unwrap();
    let runner = library.runner(Parts::default());
    for attempt in 1..=2 {
        let stopped = runner.resume(Caller::new(), &run_id, approving()).await;
        let stopped = stopped.unwrap_err();
        assert_eq!(stopped.code(), OutcomeCode::Diverged);
        let text = stopped.to_string();
        assert!(text.contains("one") && text.contains("two"), "{text}");
        assert!(stopped.hint().unwrap().contains("file"));
        assert_eq!(library.ends(&run_id).len(), attempt + 1);
        let end = library.payloads(&run_id, "run_completed").pop().unwrap();
        let told = (&end["status"], &end["code"]);
        assert_eq!(told, (&json!("interrupted"), &json!("diverged")));
    }
    fs::write(&file, "one").unwrap();
    let outcome = runner.resume(Caller::new(), &run_id, approving()).await;
    let said = said(&outcome.unwrap());
    assert!(said[0].to_string().contains("one"), "{said}");
    assert_eq!(said[1]["ok"]["approved"], true);
    library.verifies(&run_id);
}

/// What the guest logged of itself before the cut is compared with what it would log now.
#[tokio::test]
async fn clocks_timers_and_randomness_are_those_that_they_were() {
    let library = Library::new(LATER);
    let noted = |verb: Value| json!({ "call": "noted", "verb": verb });
    let time = json!({ "verb": "time", "do": [
        { "step": "look" }, { "step": "timer", "ms": 1 }, { "step": "timer", "ms": 600_000 },
        { "step": "poll" }, { "step": "look" },
    ] });
    let sleep = json!({ "verb": "sleep", "ms": 5 });
    let ambient = json!({ "verb": "ambient" });
    let random = json!({ "verb": "random", "bytes": 64 });
    let about = json!({ "verb": "about" });
    let verb = calls(&[
        noted(time.clone()),
        noted(ambient.clone()),
        noted(sleep),
        noted(random),
        noted(about),
        ask(None),
        noted(time),
        noted(ambient),
    ]);
    let run_id = library.interrupted(Parts::default(), options(&verb)).await;
    let logged = library.payloads(&run_id, "log");
    let outcome = library.resumed(Parts::default(), &run_id).await;
    let said = said(&outcome);
    for (at, one) in logged.iter().enumerate() {
        let logged: Value = serde_json::from_str(one["message"].as_str().unwrap()).unwrap();
        assert_eq!(said[at], logged, "{at}");
    }
    // Time has gone on since.
    let look = |at: usize| said[at]["ok"][0][1].as_u64().unwrap();
    assert!(look(6) > look(0), "{said}");
    library.verifies(&run_id);
}

#[test]
fn a_guest_finds_the_variables_that_it_found_when_it_began() {
    let library = Library::new(LATER);
    let noted = json!({ "call": "noted", "verb": { "verb": "ambient" } });
    let input = calls(&[noted.clone(), ask(None), noted]).to_string();
    let run_id = RunId::generate().to_string();
    let words = [
        "run", "probe", "--json", "--run-id", &run_id, "--input", &input,
    ];
    let mut command = library.home.command(&words);
    let mut running = crate::harness::Running::of(command.env("RESUME_TEST", "before"));
    library.home.wait_for_event(&run_id, "approval_request");
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let words = ["runs", "resume", &run_id, "--json", "--approve", "yes"];
    let mut command = library.home.command(&words);
    let resumed = crate::harness::Running::of(command.env("RESUME_TEST", "after")).end();
    assert_eq!(resumed.exit, Some(0), "{resumed:?}");
    let output = &resumed.json()["output"];
    for at in [0, 2] {
        let env = &output[at]["ok"]["env"];
        assert_eq!(*env, json!([["RESUME_TEST", "before"]]), "{output}");
    }
}

#[tokio::test]
async fn a_grant_that_was_taken_back_counts_from_the_end_of_the_record_on() {
    let library = Library::new(LATER);
    let (called, calls_made) = echo("a__b", Effect::Read);
    let call = call_tool("a__b", &json!({ "n": 1 }));
    let verb = calls(&[call.clone(), ask(None), call]);
    let run_id = library
        .interrupted(with_tool(&called), options(&verb))
        .await;
    let config = library.home.path().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(", \"tool:*\"", "")).unwrap();
    let outcome = library.resumed(with_tool(&called), &run_id).await;
    let said = said(&outcome);
    assert_eq!(said[0]["ok"]["is_error"], false, "{said}");
    assert_eq!(said[2]["error"]["kind"], "denied", "{said}");
    assert_eq!(calls_made.lock().unwrap().len(), 1);
    library.verifies(&run_id);
}

#[tokio::test]
async fn a_guest_is_told_of_the_tools_that_there_were_and_then_of_those_that_there_are() {
    let library = Library::new(LATER);
    let (old, _) = echo("old__tool", Effect::Read);
    let (new, _) = echo("new__tool", Effect::Read);
    let available = json!({ "call": "available" });
    let verb = calls(&[available.clone(), ask(None), available]);
    let run_id = library.interrupted(with_tool(&old), options(&verb)).await;
    let outcome = library.resumed(with_tool(&new), &run_id).await;
    let said = said(&outcome);
    assert_eq!(said[0]["ok"][0]["name"], "old__tool", "{said}");
    assert_eq!(said[2]["ok"][0]["name"], "new__tool", "{said}");
}

#[tokio::test]
async fn what_was_used_before_the_cut_counts_after_it() {
    let library = Library::new(LATER);
    let (called, calls_made) = echo("a__b", Effect::Read);
    let call = call_tool("a__b", &json!({}));
    let verb = calls(&[call.clone(), call.clone(), ask(None), call.clone(), call]);
    let mut wanted: StartOptions = options(&verb);
    wanted.terms.limits.insert("host_calls".to_owned(), 4);
    let limits = wanted.terms.limits.clone();
    let run_id = library.interrupted(with_tool(&called), wanted).await;
    let runner = library.runner(with_tool(&called));
    let mut again = approving();
    again.terms.limits = limits;
    let ended = runner.resume(Caller::new(), &run_id, again).await;
    let error = ended.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::HostCallLimit, "{error:?}");
    assert_eq!(calls_made.lock().unwrap().len(), 3);
}

/// Case C52.
#[tokio::test]
async fn c52_an_input_that_is_spelled_oddly_is_the_same_input() {
    let library = Library::new(LATER);
    let echo = r#"{"verb":"echo","value":{"b":1.50,"a":1e2,"\u0062c":"\u00e4\/","n":-0}}"#;
    let input = format!(
        " {{ \"calls\" :\n[ {{\"call\":\"noted\",\"verb\": {echo} }} , {} ],\t\"v\\u0065rb\":\"calls\"}} ",
        ask(None)
    );
    let input = skillrun::runner::JsonObject::parse(input).unwrap();
    let wanted = StartOptions::new("probe", input);
    let run_id = library.interrupted(Parts::default(), wanted).await;
    let outcome = library.resumed(Parts::default(), &run_id).await;
    let logged = library.payloads(&run_id, "log");
    assert_eq!(logged.len(), 1);
    let logged: Value = serde_json::from_str(logged[0]["message"].as_str().unwrap()).unwrap();
    assert_eq!(said(&outcome)[0], logged);
    library.verifies(&run_id);
}

#[tokio::test]
async fn large_values_are_told_again_whole() {
    let library = Library::new(LATER);
    let (called, calls_made) = echo("a__b", Effect::Write);
    let large = json!({ "text": "x".repeat(300_000) });
    let verb = calls(&[call_tool("a__b", &large), ask(None)]);
    let run_id = library
        .interrupted(with_tool(&called), options(&verb))
        .await;
    let outcome = library.resumed(with_tool(&called), &run_id).await;
    let said = said(&outcome);
    let content = said[0]["ok"]["content"].as_str().unwrap();
    let content: Value = serde_json::from_str(content).unwrap();
    assert_eq!(content[0]["text"], large.to_string());
    assert_eq!(calls_made.lock().unwrap().len(), 1);
    library.verifies(&run_id);
}

/// Case C22: the last line is torn, of a type that this version does not know, or of a newer version.
#[tokio::test]
async fn c22_whatever_the_last_line_is_the_run_goes_on() {
    let library = Library::new(LATER);
    let verb = calls(&[call_tool("a__b", &json!({})), ask(None)]);
    for last in [
        None,
        Some(r#""v":1,"type":"no_such_type","source":"host","payload":{"x":1}"#),
        Some(
            r#""v":1,"type":"log","source":"host","payload":{"level":"info","message":"x","new":[1]}"#,
        ),
        Some(r#""v":2,"type":"no_such_type","source":"host","payload":{"x":1}"#),
    ] {
        let (called, calls_made) = echo("a__b", Effect::Write);
        let run_id = library
            .interrupted(with_tool(&called), options(&verb))
            .await;
        let whole = library.ledger(&run_id);
        let mut lines: Vec<&str> = whole.lines().collect();
        // As a kill leaves it.
        lines.pop();
        let prev = Digest::of(lines.last().unwrap().as_bytes());
        let seq = lines.len() + 1;
        let end = match last {
            None => "{\"v\":1,\"ty".to_owned(),
            Some(last) => format!(
                "{{{last},\"run_id\":\"{run_id}\",\"seq\":{seq},\"time\":\"2026-05-13T17:02:16Z\",\"prev\":\"{prev}\"}}\n"
            ),
        };
        // In a home that knows no later line.
        let elsewhere = Library::new(LATER);
        let runs = elsewhere.home.path().join("runs");
        elsewhere.store(&skillrun::clock::Clock::system());
        fs::write(
            runs.join(format!("{run_id}.jsonl")),
            lines.join("\n") + "\n" + &end,
        )
        .unwrap();
        let outcome = elsewhere.resumed(with_tool(&called), &run_id).await;
        assert_eq!(said(&outcome)[1]["ok"]["approved"], true, "{last:?}");
        assert_eq!(calls_made.lock().unwrap().len(), 1, "{last:?}");
        elsewhere.verifies(&run_id);
    }
}

#[tokio::test]
async fn a_run_that_is_cut_off_again_and_again_goes_on_each_time() {
    let library = Library::new(LATER);
    let verb = calls(&[ask(None), ask(None), ask(None)]);
    let run_id = library.interrupted(Parts::default(), options(&verb)).await;
    for number in 1..=3 {
        let runner = library.runner(Parts::default());
        let resumed = runner.start_resume(Caller::new(), &run_id, ResumeOptions::default());
        let started = resumed.await.unwrap();
        let id = format!("approval#{number}");
        let asked = || library.payloads(&run_id, "approval_request").len() == number;
        eventually("the next question", || asked().then_some(())).await;
        runner.store().decide(&run_id, Some(&id), &yes()).unwrap();
        if number == 3 {
            let outcome = started.handle.wait().await.unwrap();
            assert_eq!(said(&outcome)[2]["ok"]["approved"], true);
        } else {
            let asked = || library.payloads(&run_id, "approval_request").len() == number + 1;
            eventually("the next question", || asked().then_some(())).await;
            runner.shutdown().await;
        }
    }
    assert_eq!(library.payloads(&run_id, "approval_response").len(), 3);
    library.verifies(&run_id);
}
