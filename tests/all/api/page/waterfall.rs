//! One run on the page: what it did and waited for, and what a person does with it.

use serde_json::{Value, json};
use skillrun::ledger::RunStatus;
use skillrun::runner::runtime_builder;

use super::super::streams::{begin, complete, log, store_of};
use super::*;
use crate::harness::Reserved;

/// Events that a run has beyond those that the page shows.
const BEYOND: usize = 100;
/// Events of one run that the page shows.
const SHOWN: usize = 200_000;

/// A home in which `probe` may call `asker`, which is the same and may ask people.
fn inside() -> Home {
    let home = Home::new(&[PROBE]);
    home.install_as(&PROBE, "asker", PROBE.folder.as_ref());
    let head = "---\nname: asker\ndescription: Asks a person.\n---\n";
    fs::write(home.skill("asker").join("SKILL.md"), head).unwrap();
    home.write_manifest("asker", "[capabilities]\nrequest = [\"approval\"]\n");
    home.write_manifest("probe", "[capabilities]\nrequest = [\"skill:asker\"]\n");
    home.configure(
        "[capabilities]\ngrant = [\"skill:asker\", \"approval\"]\n[runs]\non_restart = \"interrupt\"\n",
    );
    home
}

fn started(daemon: &Daemon, input: &Value) -> String {
    let body = json!({ "skill_name": "probe", "input": input });
    let started = daemon.post("/api/agent/runs", &body);
    assert_eq!(started.status, 202, "{started:?}");
    started.json()["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_is_looked_into_answered_resumed_cancelled_and_run_again() {
    let home = inside();
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let mut daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
    let run = |input: Value| started(daemon.as_ref().unwrap(), &input);
    let question = json!({ "call": "ask", "prompt": "Send from inside?", "payload": "{}" });
    let asks = json!({ "verb": "calls", "calls": [question] }).to_string();
    let call = json!({ "call": "skill", "skill": "asker", "input": asks });
    let parent = run(json!({ "verb": "calls", "calls": [call] }));
    let value = "<b>ü</b>".repeat(20_000);
    let large = run(json!({ "verb": "echo", "value": value }));
    let failed = run(json!({ "verb": "tool", "name": "files__delete" }));
    let sleeper = run(json!({ "verb": "sleep", "ms": 600_000 }));
    for ended in [&large, &failed] {
        home.wait_for_event(ended, "run_completed");
    }
    let client = Client::new(reserved.address);
    let arguments = [&*parent, &sleeper, &large, &failed];
    Script::start("waterfall.mjs", &client, &arguments).run(|asked| {
        assert_eq!(asked, "restart");
        daemon = None;
        daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
        String::new()
    });
    let runs = client.get("/api/agent/runs?skill=probe&limit=1").json();
    let again = runs["runs"][0]["run_id"].as_str().unwrap();
    assert_ne!(again, large);
    let input = |run_id: &str| home.events_of(run_id, "run_started")[0]["payload"]["input"].clone();
    assert!(input(&large)["blob"].is_string());
    assert_eq!(input(again), input(&large));
    drop(daemon);
}

/// Of a run with more events than can be shown the end is shown, and what it means.
#[test]
fn a_run_without_measure_has_its_end_on_the_page() {
    let home = home();
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "long");
    for _ in 0..SHOWN + BEYOND {
        log(&recorder, "x");
    }
    complete(&recorder, RunStatus::Error);
    let daemon = Daemon::start(&home);
    let run_id = recorder.run_id().to_string();
    Script::start("long.mjs", &daemon, &[&run_id]).run_alone();
}

#[test]
fn what_happened_when_is_worked_out_rightly() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/api/page/timeline.mjs");
    let output = Command::new(toolchain(NODE)).arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
