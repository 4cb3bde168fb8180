//! Ctrl-C, termination and kills: whatever happens to the process, the ledger says so.

use rustix::process::Signal;
use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::run_id;
use crate::harness::{Home, Running, eventually};

/// Clock ticks of processor time, 10 ms each, after which the component is long compiled.
const COMPILED_TICKS: u64 = 150;
/// Looks in a row without a tick of processor time, after which a process waits.
const IDLE_LOOKS: u32 = 30;

fn start(home: &Home, run_id: &str, verb: &Value) -> Running {
    let input = verb.to_string();
    let running = home.start(&[
        "run", "probe", "--json", "--run-id", run_id, "--input", &input,
    ]);
    home.wait_for_event(run_id, "run_started");
    running
}

/// Processor time of a process so far, in clock ticks.
fn cpu_ticks(running: &mut Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.child().id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let [user, system] = [11, 12].map(|field: usize| fields[field].parse::<u64>().unwrap());
    user + system
}

/// Waits until the guest computes.
fn wait_until_it_spins(running: &mut Running) {
    eventually("a guest that computes", || {
        (cpu_ticks(running) > COMPILED_TICKS).then_some(())
    });
}

/// Waits until the guest waits.
fn wait_until_it_waits(running: &mut Running) {
    let (mut ticks, mut idle) = (0, 0);
    eventually("a guest that waits", || {
        let now = cpu_ticks(running);
        idle = if now == ticks { idle + 1 } else { 0 };
        ticks = now;
        (idle == IDLE_LOOKS).then_some(())
    });
}

fn spin() -> Value {
    json!({ "verb": "spin" })
}

fn wait() -> Value {
    json!({ "verb": "sleep", "ms": 3_600_000 })
}

/// The last of case C5, and `interrupted` beside it: the signal, while the guest computes and while it
/// waits in a call of the host.
#[test]
fn a_signal_ends_the_run_and_is_recorded() {
    for (signal, code) in [(Signal::INT, "cancelled"), (Signal::TERM, "interrupted")] {
        for (verb, is_waiting) in [(spin(), false), (wait(), true)] {
            let home = Home::new(&[PROBE]);
            let id = run_id(1);
            let mut running = start(&home, &id, &verb);
            if is_waiting {
                wait_until_it_waits(&mut running);
            } else {
                wait_until_it_spins(&mut running);
            }
            running.signal(signal);
            let ran = running.end();
            assert_eq!(ran.exit, Some(130), "{ran:?}");
            let document = super::one_document(&ran);
            assert_eq!(document["code"], code, "{document}");
            assert_eq!(document["run_id"], id.as_str());

            let events = home.events(&id);
            let completed = &events.last().unwrap()["payload"];
            assert_eq!(
                (&completed["status"], &completed["code"]),
                (&json!(code), &json!(code))
            );
            assert_eq!(home.skillrun(&["runs", "verify", &id]).exit, Some(0));
        }
    }
}

#[test]
fn a_cancelled_run_is_told_to_a_person() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let mut running = home.start(&[
        "run",
        "probe",
        "--run-id",
        &id,
        "--input",
        &wait().to_string(),
    ]);
    home.wait_for_event(&id, "run_started");
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(130), ""), "{ran:?}");
    assert_eq!(
        ran.stderr,
        format!("error: run {id} was cancelled\nsee: skillrun runs inspect {id}\n")
    );
}

/// Case C24 at this surface: a run that was acknowledged is found, though its process was killed.
#[test]
fn a_killed_run_is_listed_inspected_and_verified() {
    let home = Home::new(&[PROBE]);
    let ids: Vec<String> = (1..=20).map(run_id).collect();
    for id in &ids {
        let mut running = start(&home, id, &spin());
        running.signal(Signal::KILL);
        assert_eq!(running.end().exit, None);

        let inspected = home.skillrun(&["--json", "runs", "inspect", id]).json();
        assert_eq!(inspected["run"]["status"], "running");
        assert_eq!(inspected["run"]["writer_pid"], Value::Null);
        assert_eq!(inspected["events"][0]["type"], "run_started");
        let verified = home.skillrun(&["--json", "runs", "verify", id]);
        assert_eq!(
            (verified.exit, &verified.json()["verdict"]),
            (Some(0), &json!("running"))
        );
    }
    let listed = home.skillrun(&["runs", "list"]);
    assert_eq!(listed.exit, Some(0), "{listed:?}");
    for id in &ids {
        let row = listed
            .stdout
            .lines()
            .find(|line| line.starts_with(id.as_str()));
        assert!(row.unwrap().contains("cut off"), "{listed:?}");
    }
}
