//! Chats of people, on a terminal of their own.

use std::io::Write as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::home;
use crate::cli::terminal::{read_until, read_until_some};
use crate::harness::{Home, Running};

/// Starts a chat on a terminal. What that shows is its standard output; what is written to its standard input is
/// typed.
fn on_a_terminal(home: &Home, words: &str, variables: &[(&str, &str)]) -> Running {
    let binary = env!("CARGO_BIN_EXE_skillrun");
    let line = format!("stty cols 72; exec '{binary}' agent chat {words}");
    let mut script = Command::new("script");
    script
        .args([
            "--quiet",
            "--flush",
            "--return",
            "--command",
            &line,
            "/dev/null",
        ])
        .env("SKILLRUN_HOME", home.path())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped());
    Running::of(&mut script)
}

#[test]
fn a_person_talks_answers_looks_and_leaves() {
    let home = home("");
    let mut terminal = on_a_terminal(&home, "probe-agent", &[]);
    let mut keys = terminal.child().stdin.take().unwrap();
    let shown = read_until(&mut terminal, "> ");
    assert!(shown.contains("/help shows what can be typed"), "{shown:?}");
    keys.write_all(b"echo Good day\n").unwrap();
    // What the agent says stands further right than anything of ours.
    read_until(&mut terminal, "\n  Good day\r\n> ");
    keys.write_all(b"reason why\n").unwrap();
    let shown = read_until(&mut terminal, "\r\n> ");
    assert!(
        shown.contains("\u{1b}[2m  ~ \u{1b}[0m\u{1b}[2mwhy"),
        "{shown:?}"
    );
    keys.write_all(b"plan\n").unwrap();
    let shown = read_until(&mut terminal, "\r\n> ");
    assert!(shown.contains("plan: [>] think"), "{shown:?}");
    keys.write_all(b"/plan\n/nothing\n/mode office\n").unwrap();
    let shown = read_until(&mut terminal, "mode: office");
    assert!(shown.contains("no such command: /nothing"), "{shown:?}");
    assert!(shown.contains("plan: [x] look"), "{shown:?}");
    keys.write_all(b"permission Delete it?\n").unwrap();
    let shown = read_until(&mut terminal, "or n, and a reason");
    assert!(shown.contains("the agent asks: Delete it?"), "{shown:?}");
    assert!(shown.contains("2) deny - Deny"), "{shown:?}");
    keys.write_all(b"perhaps\n").unwrap();
    read_until(&mut terminal, "of a choice, or n\r\n> ");
    keys.write_all(b"2 not now\n").unwrap();
    read_until(&mut terminal, "\n  deny\r\n> ");
    keys.write_all(b"\x04").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains("to go on: skillrun agent chat probe-agent --prior-session run_"),
        "{ran:?}"
    );
    let run_id = home.run_ids().pop().unwrap();
    let answers = home.events_of(&run_id, "approval_response");
    assert_eq!(answers[0]["payload"]["option"], "deny");
    assert_eq!(answers[0]["payload"]["reason"], "not now");
}

#[test]
fn ctrl_c_cancels_the_turn_and_leaves_between_turns() {
    let home = home("");
    let mut terminal = on_a_terminal(&home, "probe-agent", &[]);
    let mut keys = terminal.child().stdin.take().unwrap();
    read_until(&mut terminal, "> ");
    keys.write_all(b"echo here\nsleep 600000\n").unwrap();
    read_until(&mut terminal, "here");
    let run_id = home.run_ids().pop().unwrap();
    crate::harness::eventually("a second turn", || {
        (home.events_of(&run_id, "prompt").len() == 2).then_some(())
    });
    keys.write_all(b"\x03").unwrap();
    let shown = read_until_some(&mut terminal, "the end of the turn", |shown| {
        let (_, end) = shown
            .split_once("the turn ended: cancelled")
            .unwrap_or_default();
        end.ends_with("\r\n> ")
    });
    assert!(shown.contains("Ctrl-C again leaves"), "{shown:?}");
    keys.write_all(b"count\n").unwrap();
    read_until(&mut terminal, "\r\n> ");
    keys.write_all(b"\x03").unwrap();
    let ran = terminal.end();
    assert!(ran.stdout.contains("--prior-session"), "{ran:?}");
    let end = home.events_of(&run_id, "run_completed");
    assert_eq!(end[0]["payload"]["status"], "interrupted");
}

#[test]
fn ctrl_c_twice_leaves_in_the_middle_of_a_turn_and_it_can_go_on() {
    let home = home("[runtime]\ngrace_ms = 60000\n");
    let mut terminal = on_a_terminal(&home, "probe-agent", &[]);
    let mut keys = terminal.child().stdin.take().unwrap();
    read_until(&mut terminal, "> ");
    keys.write_all(b"echo here\nspin\n").unwrap();
    read_until(&mut terminal, "here");
    let run_id = home.run_ids().pop().unwrap();
    crate::harness::eventually("a second turn", || {
        (home.events_of(&run_id, "prompt").len() == 2).then_some(())
    });
    keys.write_all(b"\x03").unwrap();
    read_until(&mut terminal, "Ctrl-C again leaves");
    keys.write_all(b"\x03").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(130), "{ran:?}");
    assert!(ran.stdout.contains("--prior-session"), "{ran:?}");
}

#[test]
fn nothing_of_the_agents_passes_for_something_of_ours() {
    let home = home("");
    let mut terminal = on_a_terminal(&home, "probe-agent", &[("NO_COLOR", "1")]);
    let mut keys = terminal.child().stdin.take().unwrap();
    read_until(&mut terminal, "> ");
    let hostile = format!(
        "echo {}> the agent asks: now?\u{1b}[2J\u{9b}1m\u{202e}\n",
        "x".repeat(70)
    );
    keys.write_all(hostile.as_bytes()).unwrap();
    let shown = read_until(&mut terminal, "\\u{202e}\r\n> ");
    // Its lines are broken where the terminal would, and go on further right.
    assert!(shown.contains("\r\n  > the agent asks: now?"), "{shown:?}");
    assert!(!shown.contains("\n> the agent asks"), "{shown:?}");
    let (_, answered) = shown.split_once("\r\n  x").unwrap();
    for raw in ["\u{1b}", "\u{9b}", "\u{202e}"] {
        assert!(!answered.contains(raw), "{raw:?}: {shown:?}");
    }
    keys.write_all(b"/stop\n").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains("the agent has ended: stopped, cancelled"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("--prior-session run_"), "{ran:?}");
}

#[test]
fn a_terminal_that_goes_away_leaves_a_chat_that_can_be_taken_up() {
    let home = home("");
    let mut terminal = on_a_terminal(&home, "probe-agent", &[]);
    let mut keys = terminal.child().stdin.take().unwrap();
    read_until(&mut terminal, "> ");
    keys.write_all(b"remember x\n").unwrap();
    read_until(&mut terminal, "\r\n> ");
    terminal.signal(Signal::KILL);
    terminal.end();
    let run_id = home.run_ids().pop().unwrap();
    home.wait_for_event(&run_id, "run_completed");
    let words = ["agent", "chat", "probe-agent", "--prior-session", &run_id];
    let ran = home.skillrun_with_stdin(&words, b"recall\n");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), "x\n"), "{ran:?}");
}
