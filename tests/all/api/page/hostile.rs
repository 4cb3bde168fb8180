//! What skills and agents say that want to be more than text, and more than a page can bear.

use std::fs;

use serde_json::json;
use skillrun::ledger::{Event, NodeEnter, NodeExit, Origin, RunStatus};
use skillrun::runner::runtime_builder;

use super::super::streams::{begin, complete, log, store_of};
use super::*;
use crate::harness::eventually;

/// Markup that would run a script, in each way that there is.
const MARKUP: &str = "<script>globalThis.hit = 1</script><img src=x onerror='globalThis.hit = 1'><svg onload='globalThis.hit = 1'>";
/// Characters that turn what is around them, that take no room, and that stand in no line.
const BIDI: &str = "ab\u{202e}cd\u{2066}ef\u{200b}gh\u{0}ij\u{feff}";
/// Steps of one run.
const NODES: usize = 10_000;
/// Bytes of one line.
const LINE_BYTES: usize = 1024 * 1024;

#[test]
fn what_a_skill_says_is_text_and_stalls_nothing() {
    let home = home();
    let described = format!(
        "---\nname: greet\ndescription: '{}'\n---\n",
        MARKUP.replace('\'', "\"")
    );
    fs::write(home.skill("greet").join("SKILL.md"), described).unwrap();
    let daemon = Daemon::start(&home);
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "hostile");
    log(&recorder, &format!("{MARKUP}{BIDI}"));
    log(&recorder, &"x".repeat(LINE_BYTES));
    for number in 0..NODES {
        let node_id = format!("step:{MARKUP}#{number}");
        let enter = NodeEnter {
            node_id: node_id.clone(),
            node_name: format!("{MARKUP}{BIDI}"),
            span_id: None,
        };
        recorder.record(Origin::Guest, &Event::from(enter)).unwrap();
        let exit = NodeExit {
            node_id,
            duration_micros: 1,
            success: true,
        };
        recorder.record(Origin::Guest, &Event::from(exit)).unwrap();
    }
    complete(&recorder, RunStatus::Ok);
    let prompt = format!(
        "echo {MARKUP}{BIDI}\nemit-big {LINE_BYTES}\nreason {MARKUP}\nchunks {NODES} 0\npermission {MARKUP}"
    );
    let launch = json!({ "agent_profile_id": "probe-agent", "prompt": prompt });
    let execution = daemon.post("/api/agent/executions", &launch).json();
    eventually("a question", || {
        let open = daemon.get("/api/approvals").json();
        (open["approvals"].as_array()?.len() == 1).then_some(())
    });
    let run_id = recorder.run_id().to_string();
    let arguments = [run_id.as_str(), execution["id"].as_str().unwrap()];
    Script::start("hostile.mjs", &daemon, &arguments).run_alone();
}
