//! The examples, which are programs of embedders, carried out.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use skillrun_test_artifacts::{GREET, PROBE_AGENT, TRIAGE};

use crate::harness::{Home, Ran, Running};

/// An example, as it is now: naming a test alone does not make cargo build the examples.
pub(crate) fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--examples"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success());
        // Cargo puts examples beside the binaries of the same profile.
        PathBuf::from(env!("CARGO_BIN_EXE_skillrun")).with_file_name("examples")
    });
    Command::new(folder.join(name))
}

fn run(command: &mut Command) -> Ran {
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran
}

#[test]
fn the_smallest_embedding_prints_a_result() {
    let home = Home::new(&[]);
    let ran = run(example("embed")
        .args([GREET.wasm, r#"{"name":"Ada"}"#])
        .arg(home.path())
        .arg("2"));
    assert_eq!(ran.json()["greeting"], "Hello, Ada!");
    assert_eq!(home.run_ids().len(), 2);
}

#[test]
fn tools_and_a_model_of_ones_own_are_called_and_on_record() {
    let home = Home::new(&[TRIAGE]);
    let ran = run(example("own_tools_and_model")
        .arg(home.path())
        .arg("the printer is slow"));
    let mut lines = ran.stdout.lines();
    let output: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(output["priority"], "normal");
    assert_eq!(output["applied"], true);
    let run_id = lines.next().unwrap();
    let names: Vec<_> = home
        .events_of(run_id, "tool_call")
        .iter()
        .map(|call| call["payload"]["name"].clone())
        .collect();
    assert_eq!(names, ["tickets__search", "tickets__set_priority"]);
    let asked = home.events_of(run_id, "llm_call");
    assert!(!asked.is_empty());
    assert!(
        asked
            .iter()
            .all(|call| call["payload"]["provider"] == "rules"),
        "{asked:?}"
    );
}

#[test]
fn an_executor_of_ones_own_is_recorded_like_any_other() {
    let home = Home::new(&[]);
    let ran = run(example("own_executor").arg(home.path()).arg("to be or not"));
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "1 run_started",
            "2 log",
            "3 run_completed",
            r#"{"words":4}"#,
            "1 on record"
        ]
    );
    let [run_id] = &*home.run_ids() else { panic!() };
    let verified = home.skillrun(&["runs", "verify", run_id]);
    assert_eq!(verified.exit, Some(0), "{verified:?}");
}

#[test]
fn a_daemon_of_ones_own_answers_over_http() {
    let home = Home::new(&[GREET]);
    let mut daemon = Running::of(example("http_daemon").arg(home.path()).stdin(Stdio::null()));
    let stdout = daemon.child().stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0 runs closed, 0 go on");
    let listening = lines.next().unwrap().unwrap();
    let address = listening.strip_prefix("listening on http://").unwrap();
    let client = crate::api::Client::new(address.parse().unwrap());
    assert_eq!(client.get("/readyz").status, 200);
    daemon.signal(rustix::process::Signal::INT);
    assert_eq!(daemon.end().exit, Some(0));
}

#[test]
fn an_agent_is_launched_prompted_and_stopped() {
    let home = Home::new(&[PROBE_AGENT]);
    let mut command = example("agent");
    let command = command.arg(home.path());
    let ran = run(command.args(["probe-agent", "remember x", "recall", "fail"]));
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\nx\n"), "{ran:?}");
    assert!(ran.stdout.contains("error: "), "{ran:?}");
    assert!(ran.stdout.ends_with("stopped\n"), "{ran:?}");
}
