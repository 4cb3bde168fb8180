//! Chats of programs: prompts on standard input, the answers on standard output.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;
use skillrun_test_artifacts::CHAT;

use super::{home, ledger, lines};
use crate::api::Daemon;
use crate::cli::terminal::read_until;
use crate::harness::{Home, Ran, Running};
use crate::http::server::{Server, Wire, wait_for_close};

fn chat(home: &Home, words: &[&str], prompts: &str) -> Ran {
    let words = [&["agent", "chat"], words].concat();
    home.skillrun_with_stdin(&words, prompts.as_bytes())
}

/// The ledger that a chat in this process says to go on with.
#[track_caller]
fn prior(ran: &Ran) -> String {
    let (_, rest) = ran.stderr.split_once("--prior-session ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn each_line_is_a_prompt_and_the_chat_can_be_taken_up_again() {
    let home = home("");
    let ran = chat(
        &home,
        &["probe-agent"],
        "remember x\n\necho a\n/plan\nremember y\n",
    );
    // A program has no commands: what looks like one is a prompt.
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert_eq!(ran.stdout, "a\n");
    assert!(
        ran.stderr.contains("nothing that this agent does"),
        "{ran:?}"
    );
    let run_id = prior(&ran);
    let end = home.events_of(&run_id, "run_completed");
    assert_eq!(end[0]["payload"]["status"], "interrupted");
    let ran = chat(
        &home,
        &["probe-agent", "--prior-session", &run_id],
        "recall\ncount",
    );
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(0), "x,y\n6\n"),
        "{ran:?}"
    );
    assert_eq!(prior(&ran), run_id);
    // The id of an execution names its ledger as well.
    let id = format!("exec_{}_2", run_id.strip_prefix("run_").unwrap());
    let ran = chat(&home, &["probe-agent", "--prior-session", &id], "recall");
    assert_eq!(ran.stdout, "x,y\n", "{ran:?}");
}

#[test]
fn with_json_every_event_is_a_line() {
    let home = home("");
    let ran = chat(&home, &["probe-agent", "--json"], "echo a\n");
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let events = lines(&ran);
    let names: Vec<&str> = events
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    let expected = [
        "session_status",
        "boot_ready",
        "running",
        "message_chunk",
        "complete",
        "ready",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[3]["text"], "a");
}

#[test]
fn grants_mode_and_folder_are_those_of_the_command_line() {
    let home = home("");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = [
        "probe-agent",
        "--workspace",
        path,
        "--mode",
        "office",
        "--model",
        "m",
    ];
    let prompts = "write /workspace/note.txt hello\nmeta\n";
    let ran = chat(&home, &words, prompts);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("note.txt")).unwrap(),
        "hello"
    );
    for expected in [
        r#""mode":"office""#,
        r#""model":"m""#,
        r#""workspace":"/workspace""#,
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {ran:?}");
    }
    std::fs::write(folder.path().join("seen.txt"), "granted").unwrap();
    let grant = format!("fs:rw:{path}=/workspace");
    let ran = chat(
        &home,
        &["probe-agent", "--grant", &grant],
        "read /workspace/seen.txt\n",
    );
    assert_eq!(ran.stdout, "granted\n", "{ran:?}");
    let ran = chat(
        &home,
        &["probe-agent", "--ephemeral"],
        "ls /workspace\necho .\n",
    );
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with(".\n"), "{ran:?}");
}

#[test]
fn what_cannot_be_talked_with_is_said() {
    let home = home("");
    for (words, exit, says) in [
        (vec!["nobody"], 5, "nobody"),
        (vec!["greet"], 1, "no agent"),
        (
            vec!["probe-agent", "--workspace", "/no/such"],
            2,
            "/no/such",
        ),
        (
            vec!["probe-agent", "--prior-session", "x"],
            2,
            "expected run_",
        ),
        (
            vec![
                "probe-agent",
                "--prior-session",
                "run_00000000000070008000000000000000",
            ],
            2,
            "prior_session",
        ),
        (
            vec!["exec_00000000000070008000000000000000_1"],
            5,
            "no execution",
        ),
    ] {
        let ran = chat(&home, &words, "");
        assert_eq!(ran.exit, Some(exit), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{words:?}: {ran:?}");
    }
    let ran = chat(&home, &["probe-agent"], "exit 3\necho never\n");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(!ran.stderr.contains("--prior-session"), "{ran:?}");
}

#[test]
fn with_a_daemon_that_carries_the_agent_out_and_keeps_it() {
    let home = home("");
    let _daemon = Daemon::start(&home);
    let ran = chat(&home, &["probe-agent"], "remember x\necho a\n");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), "a\n"), "{ran:?}");
    let (_, rest) = ran.stderr.split_once("skillrun agent chat ").unwrap();
    let id = rest.split_whitespace().next().unwrap().to_owned();
    super::until(&home, &id, "ready");
    let ran = chat(&home, &[&id], "recall\n");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), "x\n"), "{ran:?}");
    let started = home.events_of(&ledger(&id), "run_started");
    assert_eq!(started[0]["payload"]["session"]["execution_id"], json!(id));
    let ran = chat(&home, &["probe-agent", "--grant", "approval"], "");
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("config.toml"), "{ran:?}");
    assert_eq!(home.skillrun(&["agent", "stop", &id]).exit, Some(0));
    let ran = chat(&home, &[&id], "");
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is not live"), "{ran:?}");
}

#[test]
fn the_flags_that_a_chat_had_are_in_what_it_says_to_go_on_with() {
    let home = home("");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["probe-agent", "--workspace", path, "--grant", "env:A"];
    let ran = chat(&home, &words, "echo a\n");
    let run_id = prior(&ran);
    let command = format!(
        "to go on: skillrun agent chat probe-agent --prior-session {run_id} --workspace {path} --grant env:A\n"
    );
    assert!(ran.stderr.ends_with(&command), "{ran:?}");
}

#[test]
fn a_question_of_which_tools_there_are_is_not_shown_as_a_call_of_one() {
    let home = home("");
    let words = ["probe-agent", "--grant", "tool:skillrun__update_plan"];
    let ran = chat(&home, &words, "tools\n");
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let calls = home.events_of(&prior(&ran), "tool_call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    let is_call = |line: &str| line.starts_with("tool: ") || line.starts_with("  ->");
    assert!(!ran.stderr.lines().any(is_call), "{ran:?}");
}

/// A piece of an answer, as a model server streams it.
fn piece(text: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// An answer in two pieces, as a model server streams it.
fn answer(wire: &mut dyn Wire) -> std::io::Result<()> {
    let body = format!(
        "{}{}data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":5}}}}\n\ndata: [DONE]\n\n",
        piece("Good "),
        piece("day.")
    );
    write!(
        wire,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A home with the agent `chat` and its model.
fn home_with_model(server: &Server) -> Home {
    let home = Home::new(&[CHAT]);
    home.configure(&format!(
        "[capabilities]\ngrant = [\"llm:local/*\"]\n[model_providers.local]\napi = \"openai\"\nurl = \"{}\"\n[model_aliases]\ndefault = \"local/small\"\n",
        server.url("/v1")
    ));
    home
}

/// A model server whose answer to `Hello` breaks off after a piece, and no other does.
fn server_that_breaks_off() -> Server {
    Server::start(|seen, wire| {
        let body = String::from_utf8_lossy(&seen.body);
        if body.contains("And now?") {
            return answer(wire);
        }
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        write!(wire, "{head}{}", piece("Good "))?;
        wire.flush()?;
        wait_for_close(wire);
        Ok(())
    })
}

/// A chat whose process is killed while the agent speaks; its ledger.
fn killed_in_mid_answer(home: &Home) -> String {
    let mut command = home.command(&["agent", "chat", "chat"]);
    let mut chat = Running::of(command.stdin(Stdio::piped()));
    let mut keys = chat.child().stdin.take().unwrap();
    keys.write_all(b"Hello\n").unwrap();
    read_until(&mut chat, "Good ");
    chat.signal(Signal::KILL);
    chat.end();
    home.run_ids().pop().unwrap()
}

#[test]
fn a_chat_whose_answer_broke_off_goes_on_where_it_was() {
    let server = server_that_breaks_off();
    let home = home_with_model(&server);
    let run_id = killed_in_mid_answer(&home);
    let ran = chat(&home, &["chat", "--prior-session", &run_id], "And now?\n");
    // The turn that was cut off ends with an error, and nobody is asked again.
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(1), "Good day.\n"),
        "{ran:?}"
    );
    let asked = server.seen();
    assert_eq!(asked.len(), 2);
    let last = String::from_utf8(asked[1].body.clone()).unwrap();
    for said in ["Hello", "Good ", "And now?"] {
        assert!(last.contains(said), "{said}: {last}");
    }
}

#[test]
fn one_whose_answer_broke_off_is_launched_again() {
    let server = server_that_breaks_off();
    let home = home_with_model(&server);
    let run_id = killed_in_mid_answer(&home);
    let _daemon = Daemon::start(&home);
    let words = ["agent", "launch", "chat", "--wait"];
    let prior = ["--prior-session", &run_id];
    let ran = home.skillrun(&[&words[..], &prior].concat());
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let id = ran.stdout.trim_end().to_owned();
    let ran = home.skillrun(&["agent", "prompt", &id, "And now?"]);
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(0), "Good day.\n"),
        "{ran:?}"
    );
    let ran = home.skillrun(&["agent", "launch", "chat", "--retry-ambiguous"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--prior-session"), "{ran:?}");
}

#[test]
fn the_agent_chat_talks_with_a_model_and_remembers_what_was_said() {
    let server = Server::start(|_, wire| answer(wire));
    let home = home_with_model(&server);
    let ran = chat(&home, &["chat"], "Hello\nAnd now?\n");
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(0), "Good day.\nGood day.\n"),
        "{ran:?}"
    );
    let asked = server.seen();
    let last = String::from_utf8(asked[1].body.clone()).unwrap();
    for said in ["Hello", "Good day.", "And now?"] {
        assert!(last.contains(said), "{said}: {last}");
    }
    let ran = chat(
        &home,
        &["chat", "--prior-session", &prior(&ran)],
        "Still there?\n",
    );
    assert_eq!(
        (ran.exit, ran.stdout.as_str()),
        (Some(0), "Good day.\n"),
        "{ran:?}"
    );
    let asked = server.seen();
    let last = String::from_utf8(asked[2].body.clone()).unwrap();
    assert!(
        last.contains("And now?") && last.contains("Still there?"),
        "{last}"
    );
}
