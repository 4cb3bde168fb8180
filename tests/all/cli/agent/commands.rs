//! Executions of the daemon, by commands.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::{home, json, ledger, lines, until};
use crate::api::Daemon;
use crate::harness::{Home, eventually};

/// Launches the agent and waits until it is ready.
#[track_caller]
fn launched(home: &Home, more: &[&str]) -> String {
    let words = ["agent", "launch", "probe-agent", "--wait"];
    let ran = home.skillrun(&[&words, more].concat());
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.stdout.trim_end().to_owned()
}

#[test]
fn an_agent_is_launched_prompted_shown_and_stopped() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let ran = home.skillrun(&[
        "agent",
        "launch",
        "probe-agent",
        "--wait",
        "--session",
        "s-1",
        "--metadata",
        r#"{"color":"red"}"#,
        "--mode",
        "office",
        "--backend",
        "in-process",
        "--ephemeral",
        "--json",
    ]);
    let launched = json(&ran);
    let id = launched["id"].as_str().unwrap();
    assert_eq!(launched["session_id"], "s-1");

    let ran = home.skillrun(&["agent", "prompt", id, "echo first\nreason why\necho second"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    // The text and nothing else is data.
    assert_eq!(ran.stdout, "firstsecond\n");
    let turn = json(&home.skillrun(&["agent", "prompt", id, "--json", "plan\nmeta"]));
    assert_eq!(turn["prompt_generation"], 2);
    assert_eq!(turn["stop_reason"], "end_turn");
    assert!(
        turn["text"].as_str().unwrap().contains(r#""color":"red""#),
        "{turn}"
    );
    let ran = home.skillrun(&["agent", "prompt", id, "plan"]);
    assert!(ran.stderr.contains("plan: [x] look"), "{ran:?}");

    let ran = home.skillrun(&["agent", "show", id]);
    for expected in [
        "ready",
        "probe-agent",
        "s-1",
        "office",
        "/workspace",
        &ledger(id),
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {ran:?}");
    }
    let listed = json(&home.skillrun(&["agent", "list", "--status", "ready", "--json"]));
    assert_eq!(listed["executions"][0]["id"], id);
    assert!(home.skillrun(&["agent", "list"]).stdout.contains(id));

    let set = json(&home.skillrun(&["agent", "mode", id, "config", "--json"]));
    assert_eq!(
        set,
        json!({ "id": id, "mcp_mode": "config", "changed": true })
    );
    let ran = home.skillrun(&["agent", "cancel", id]);
    assert!(ran.stdout.contains("no turn goes on"), "{ran:?}");
    let ran = home.skillrun(&["agent", "stop", id, "--children"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let stopped = json(&home.skillrun(&["agent", "stop", id, "--reason", "enough", "--json"]));
    assert_eq!(stopped["status"], "stopped");
    assert_eq!(until(&home, id, "stopped")["stop_reason"], "enough");
    let ran = home.skillrun(&["agent", "stop", id, "--json"]);
    assert_eq!(
        (ran.exit, &ran.json()["code"]),
        (Some(5), &json!("not_found"))
    );
}

#[test]
fn a_turn_that_goes_wrong_is_told_by_the_exit_code() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let id = launched(&home, &[]);
    let prompt = |text: &str| home.skillrun(&["agent", "prompt", &id, text]);
    for (text, exit, says) in [
        ("echo a\nfail no_luck it did not work", 1, "it did not work"),
        ("stop refusal", 3, "refusal"),
        ("stop token_limit", 4, "token_limit"),
        ("", 2, "prompt"),
    ] {
        let ran = prompt(text);
        assert_eq!(ran.exit, Some(exit), "{text}: {ran:?}");
        assert!(ran.stderr.contains(says), "{text}: {ran:?}");
    }
    let hostile = prompt("echo a\u{1b}[2J\u{202e}b");
    assert_eq!(hostile.stdout, "a\\u{1b}[2J\\u{202e}b\n");

    // One that is not waited for goes on by itself.
    let ran = home.skillrun(&["agent", "prompt", &id, "--no-wait", "sleep 600000"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    until(&home, &id, "running");
    let ran = home.skillrun(&["agent", "cancel", &id]);
    assert!(ran.stdout.contains("is over"), "{ran:?}");
    // Whoever interrupts the command takes the prompt back.
    let mut running = home.start(&["agent", "prompt", &id, "sleep 600000"]);
    until(&home, &id, "running");
    running.signal(Signal::INT);
    running.end();
    until(&home, &id, "ready");
    let ran = prompt("exit 1");
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let shown = until(&home, &id, "failed");
    assert_eq!(shown["exit_code"], 1);
}

#[test]
fn a_prompt_comes_from_a_file_or_from_standard_input() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let file = home.path().join("prompt.txt");
    fs::write(&file, "echo from the file\n").unwrap();
    let named = format!("@{}", file.display());
    let ran = home.skillrun(&[
        "agent",
        "launch",
        "probe-agent",
        "--wait",
        "--prompt",
        &named,
    ]);
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(0), "from the file\n"),
        "{ran:?}"
    );
    let id = ran.stderr.lines().next().unwrap();
    let ran = home.skillrun_with_stdin(&["agent", "prompt", id, "-"], b"echo typed");
    assert_eq!(ran.stdout, "typed\n", "{ran:?}");
    let ran = home.skillrun(&["agent", "prompt", id, "@/no/such/file"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
}

#[test]
fn without_a_daemon_it_is_said_what_to_do_and_what_was_is_shown() {
    let home = home("");
    let mut daemon = Daemon::start(&home);
    let id = launched(&home, &["--session", "s-1"]);
    home.skillrun(&["agent", "prompt", &id, "echo a"]);
    let before = json(&home.skillrun(&["agent", "show", &id, "--json"]));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end(), Some(0));
    for words in [
        vec!["agent", "launch", "probe-agent"],
        vec!["agent", "prompt", &id, "count"],
        vec!["agent", "cancel", &id],
        vec!["agent", "stop", &id],
        vec!["agent", "mode", &id, "config"],
    ] {
        let ran = home.skillrun(&[&words[..], &["--json"]].concat());
        assert_eq!(ran.exit, Some(1), "{words:?}: {ran:?}");
        assert_eq!(ran.json()["code"], "conflict");
        let hint = ran.json()["hint"].as_str().unwrap().to_owned();
        assert!(
            hint.contains("skillrun serve") && hint.contains("agent chat"),
            "{hint}"
        );
    }
    let after = json(&home.skillrun(&["agent", "show", &id, "--json"]));
    assert_eq!(after["status"], "stopped");
    assert_eq!(after["stop_reason"], "interrupted");
    for key in ["session_id", "started_at", "metadata", "prompt_generation"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    let listed = json(&home.skillrun(&["agent", "list", "--session", "s-1", "--json"]));
    assert_eq!(listed["executions"][0], after);
    let events = lines(&home.skillrun(&["agent", "events", &id, "--json"]));
    let names: Vec<&str> = events
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"session_status"));
    assert_eq!(names.last(), Some(&"stopped"));
    let after_all = events.last().unwrap()["seq"].to_string();
    let rest = home.skillrun(&["agent", "events", &id, "--after", &after_all]);
    assert_eq!((rest.exit, rest.stdout.as_str()), (Some(0), ""));
    let text = home.skillrun(&["agent", "events", &id, "--follow"]).stdout;
    assert_eq!(text.lines().count(), events.len(), "{text}");

    let absent = "exec_00000000000070008000000000000000_1";
    for words in [["agent", "show", absent], ["agent", "events", absent]] {
        assert_eq!(home.skillrun(&words).exit, Some(5));
    }
    for words in [
        vec!["agent", "show", "exec_1"],
        vec!["agent", "list", "--limit", "0"],
        vec!["agent", "list", "--limit", "-1"],
        vec!["agent"],
    ] {
        assert_eq!(home.skillrun(&words).exit, Some(2), "{words:?}");
    }
}

#[test]
fn events_are_followed_until_the_execution_has_ended() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let id = launched(&home, &[]);
    let following = home.start(&["agent", "events", &id, "--follow", "--json"]);
    // What is there by now is printed without waiting for more.
    let now = lines(&home.skillrun(&["agent", "events", &id, "--json"]));
    assert_eq!(now.last().unwrap()["type"], "boot_ready");
    home.skillrun(&["agent", "prompt", &id, "echo a"]);
    json(&home.skillrun(&["agent", "stop", &id, "--json"]));
    let ran = following.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let events = lines(&ran);
    assert_eq!(events.last().unwrap()["type"], "stopped");
    let told = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(
        (told("message_chunk"), told("complete")),
        (1, 1),
        "{events:?}"
    );
}

#[test]
fn what_cannot_be_launched_is_said() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let launch = |more: &[&str]| {
        let ran = home.skillrun(&[&["agent", "launch"], more, &["--json"]].concat());
        (
            ran.exit.unwrap(),
            ran.json()["code"].as_str().unwrap().to_owned(),
        )
    };
    for (more, exit, code) in [
        (vec!["nobody"], 5, "not_found"),
        (vec!["probe-agent", "--backend", "bare-metal"], 2, "usage"),
        (vec!["probe-agent", "--session", "../s"], 2, "usage"),
        (vec!["probe-agent", "--metadata", "[]"], 2, "usage"),
        (vec!["probe-agent", "--workspace", "/no/such"], 2, "usage"),
        (
            vec!["probe-agent", "--workspace", "/", "--ephemeral"],
            2,
            "usage",
        ),
    ] {
        assert_eq!(launch(&more), (exit, code.to_owned()), "{more:?}");
    }
    assert_eq!(home.run_ids(), Vec::<String>::new());
    let id = launched(&home, &["--session", "s-1"]);
    assert_eq!(
        launch(&["probe-agent", "--session", "s-1"]),
        (1, "conflict".to_owned())
    );
    // One that fails at its start is told to whoever waits for it.
    let metadata = r#"{"start":"fail"}"#;
    let ran = home.skillrun(&[
        "agent",
        "launch",
        "probe-agent",
        "--wait",
        "--metadata",
        metadata,
    ]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("start failed"), "{ran:?}");
    eventually("the first one", || {
        (until(&home, &id, "ready")["id"] == id).then_some(())
    });
}
