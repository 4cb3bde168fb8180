//! A server that dies, hangs, lies and floods: the call fails and says why, and the next one works.

use std::time::Duration;

use serde_json::{Value, json};
use skillrun::tools::ToolError;

use super::{Bench, reason, text, wait_for_end};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_in_mid_call_is_not_asked_twice_and_started_for_the_next() {
    let bench = Bench::hostile("", "");
    let died = reason(bench.call("h__die", json!({})).await);
    assert_eq!(died, "the call was cut off: it ended with exit status 3");
    let calls = |bench: &Bench| {
        let journal = bench.journal();
        journal
            .iter()
            .filter(|line| line.contains("tools/call"))
            .count()
    };
    assert_eq!(calls(&bench), 1);
    let echo = bench.call("h__echo", json!({"a": 1})).await.unwrap();
    assert_eq!(text(&echo), r#"{"a": 1}"#);
    assert_eq!(calls(&bench), 2);
    assert_eq!(bench.started().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_else_a_process_started_dies_with_it() {
    let bench = Bench::hostile("", "");
    let died = reason(bench.call("h__orphan", json!({})).await);
    assert_eq!(died, "the call was cut off: it ended with exit status 4");
    let journal = bench.journal();
    let orphan = journal.iter().find_map(|line| line.strip_prefix("orphan "));
    wait_for_end(orphan.unwrap().parse().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_message_ends_the_connection_and_is_not_repeated() {
    for (tool, part) in [
        (
            "h__garbage",
            "it wrote a line to standard output that is no JSON-RPC message",
        ),
        ("h__long", "expected at most 16777216 bytes"),
        ("h__values", "too many values: expected at most 500000"),
        ("h__close", "it "),
        ("h__flood", "more than 256 requests"),
    ] {
        let bench = Bench::hostile("", "");
        let reason = reason(bench.call(tool, json!({})).await);
        assert!(reason.starts_with("the call was cut off: "), "{reason}");
        assert!(reason.contains(part), "{tool}: {reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        for id in bench.started() {
            wait_for_end(id);
        }
        assert!(bench.call("h__echo", json!({})).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_hangs_is_cancelled_after_its_time() {
    // The call after it has the same time.
    let bench = Bench::hostile("", "timeout_ms = 3000");
    let late = bench.call("h__hang", json!({})).await;
    assert_eq!(late, Err(ToolError::TimedOut { timeout_ms: 3000 }));
    bench.wait_for("notifications/cancelled");
    assert!(bench.call("h__echo", json!({})).await.is_ok());
    assert_eq!(bench.started().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let bench = Bench::hostile("", "");
    let tool = bench.toolbox.find("h__hang").await.unwrap().unwrap();
    let call = tokio::spawn(async move { tool.call("{}").await });
    bench.wait_for("tools/call");
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    bench.wait_for("notifications/cancelled");
    assert!(bench.call("h__echo", json!({})).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_and_nonsense_are_errors_of_the_call_alone() {
    let env = "env = { KEY = \"hunter2-hidden\" }";
    let bench = Bench::hostile("", env);
    let refused = bench.call("h__refuse", json!({})).await;
    let message = "MCP server \"h\": no, for [hidden] (error -32050)";
    assert_eq!(refused, Err(ToolError::Failed(message.to_owned())));
    let wrong = bench.call("h__wrong", json!({})).await;
    assert!(matches!(wrong, Err(ToolError::Failed(_))), "{wrong:?}");
    // It asks for a sample of a model, and is told that there is none.
    let asked = bench.call("h__ask", json!({})).await.unwrap();
    let error: Value = serde_json::from_str(text(&asked)).unwrap();
    assert_eq!(error["code"], -32601, "{error}");
    assert_eq!(bench.started().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_gets_of_the_environment_what_it_is_given() {
    let env = "env = { KEY = \"hunter2-hidden\" }\npass_env = [\"CARGO_MANIFEST_DIR\", \"NOT_SET_AT_ALL\"]\ndir = \"work\"";
    let bench = Bench::hostile("", env);
    let work = bench.home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let leaked = bench.call("h__leak", json!({})).await.unwrap();
    let leaked: Value = serde_json::from_str(text(&leaked)).unwrap();
    let known = [
        "CARGO_MANIFEST_DIR",
        "HOME",
        "KEY",
        "LANG",
        "PATH",
        "TMPDIR",
        // Python sets it by itself.
        "LC_CTYPE",
    ];
    for name in leaked[0].as_array().unwrap() {
        assert!(known.contains(&name.as_str().unwrap()), "{name}");
    }
    let names = leaked[0].as_array().unwrap();
    assert!(names.contains(&json!("CARGO_MANIFEST_DIR")) && names.contains(&json!("PATH")));
    assert_eq!(leaked[1], "hunter2-hidden");
    assert_eq!(leaked[2], json!(work.canonicalize().unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_start_says_why_and_is_tried_again() {
    for (how, part) in [
        ("dead", "it ended with exit status 7"),
        ("noise", "no JSON-RPC message"),
        ("mute", "it was not ready within 3000 ms"),
    ] {
        // Long enough to write down that it was started.
        let time = if how == "mute" { 3_000 } else { 30_000 };
        let bench = Bench::hostile(how, &format!("start_timeout_ms = {time}"));
        for _ in 0..2 {
            let failed = bench.toolbox.find("h__echo").await.map(|_| Value::Null);
            let failed = reason(failed);
            assert!(failed.contains(part), "{how}: {failed}");
        }
        assert_eq!(bench.started().len(), 2, "{how}");
        for id in bench.started() {
            wait_for_end(id);
        }
    }
    let missing = Bench::new("[mcp_servers.h]\ncommand = [\"/no/such/program\"]");
    let failed = missing.toolbox.find("h__echo").await.map(|_| Value::Null);
    assert!(reason(failed).contains("cannot start \"/no/such/program\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_one_start_are_told_of_its_failure_together() {
    let bench = Bench::hostile("dead", "");
    let find = || bench.toolbox.find("h__echo");
    let (one, two, three, four) = tokio::join!(find(), find(), find(), find());
    assert!([one, two, three, four].iter().all(Result::is_err));
    assert_eq!(bench.started().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_with_its_toolbox() {
    // This one stays when its standard input is closed.
    for is_asked in [true, false] {
        let bench = Bench::hostile("stays", "");
        bench.call("h__echo", json!({})).await.unwrap();
        let ids = bench.started();
        if is_asked {
            bench.toolbox.shutdown().await;
        }
        drop(bench.toolbox);
        for id in ids {
            wait_for_end(id);
        }
    }
}

#[test]
fn a_server_ends_with_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bench = Bench::hostile("stays", "");
    runtime.block_on(bench.call("h__echo", json!({}))).unwrap();
    runtime.shutdown_timeout(Duration::ZERO);
    for id in bench.started() {
        wait_for_end(id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_error_does_not_fill_up() {
    let bench = Bench::hostile("chatty", "");
    assert!(bench.call("h__echo", json!({})).await.is_ok());
}
