//! The client that browsers have, as the package `eventsource` has it too.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use skillrun::ledger::RunStatus;

use super::super::daemon::Daemon;
use super::*;
use crate::harness::{Home, Reserved, eventually};

/// A process that ends with the test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn eventsource_goes_on_over_a_restart_and_stops_when_all_is_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = Home::new(&[]);
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let first = Daemon::of(&home, &mut home.command(&serve));
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "watched");
    let output = home.path().join("events");
    let _node = Node(
        Command::new("node")
            .arg(root.join("tests/all/api/streams/eventsource.mjs"))
            .arg(root.join("target/toolchains/node_modules/eventsource/dist/index.js"))
            .arg(format!(
                "http://{listen}/api/agent/runs/{}/events",
                recorder.run_id()
            ))
            .arg("run_started,log,run_completed")
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .spawn()
            .unwrap(),
    );
    let mut expected = String::new();
    let mut seen = |line: &str| {
        expected.push_str(line);
        expected.push('\n');
        eventually(line, || {
            let text = fs::read_to_string(&output).unwrap();
            text.starts_with(&expected).then_some(())
        });
    };
    seen("1 run_started 1");
    log(&recorder, "before");
    seen("2 log 2");
    drop(first);
    log(&recorder, "while nobody serves");
    let _second = Daemon::of(&home, &mut home.command(&serve));
    seen("3 log 3");
    complete(&recorder, RunStatus::Ok);
    seen("4 run_completed 4");
    seen("end ok");
    // It asks once more, and is told that there is nothing.
    seen("closed");
}
