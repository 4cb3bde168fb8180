//! Ledgers that end after each line of a turn, as those of processes do that were killed there.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::house::{EVERYTHING, House};

/// Leaves these lines of a ledger, as if there had never been others.
fn cut(house: &House, path: &Path, lines: &[&str]) {
    fs::write(path, lines.join("\n") + "\n").unwrap();
    // It knows which line was the last, once somebody has asked for a list.
    let _forgotten = fs::remove_file(house.home.path().join("runs/index.db"));
}

/// Whatever line was the last, the turn goes on to the same answers, and nothing is done twice.
#[tokio::test]
async fn what_tools_did_is_not_done_twice() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "office").await;
    let decision = json!({"title": "t", "decision": "d", "rationale": "r"});
    let document = json!({"name": "a", "text": "one", "expect_sha256": ""});
    let prompt = format!(
        "tool skillrun__record_decision {decision}\n\
         tool skillrun__ask_user {{\"question\":\"Go on?\"}}\n\
         tool skillrun__write_document {document}\n\
         tool skillrun__update_plan {{\"entries\":[]}}\nnow"
    );
    let turn = agent.begin(&prompt);
    agent.decide(&agent.run_id, true, None, "yes").await;
    turn.await.unwrap().unwrap();
    let (run_id, said) = (agent.run_id.clone(), agent.said());
    process.shutdown().await;
    drop((agent, process));
    let path = house.home.ledger(run_id.as_str());
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let at = |kind: &str| {
        let is_it = |line: &&str| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["type"] == kind
        };
        lines.iter().position(is_it).unwrap()
    };
    let (first, last) = (at("prompt") + 1, at("turn_completed"));
    assert!(last - first >= 12, "{whole}");
    for kept in first..=last {
        cut(&house, &path, &lines[..kept]);
        let process = house.process();
        process.runtime().recover().await;
        let agent = house.taken_up(&process, &run_id, "office").await;
        agent.ready().await;
        let now = agent.said();
        // Only the time may be another one.
        assert_eq!(now[..4], said[..4], "{kept}");
        assert_eq!(agent.payloads("custom").len(), 1, "{kept}");
        assert_eq!(agent.payloads("approval_response").len(), 1, "{kept}");
        agent.ends_well().await;
        process.shutdown().await;
        drop(process);
    }
}

#[tokio::test]
async fn a_skill_is_run_once_wherever_its_call_was_cut_off() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let run = json!({"skill": "greet", "input": {"name": "Ada"}});
    agent.turn(&format!("tool skillrun__run_skill {run}")).await;
    let (run_id, said) = (agent.run_id.clone(), agent.said());
    process.shutdown().await;
    drop((agent, process));
    let path = house.home.ledger(run_id.as_str());
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let is_child = |line: &&str| line.contains("\"child_run_id\"");
    let from = lines.iter().position(is_child).unwrap() + 1;
    for kept in from..from + 3 {
        cut(&house, &path, &lines[..kept]);
        let process = house.process();
        process.runtime().recover().await;
        let agent = house.taken_up(&process, &run_id, "task").await;
        agent.ready().await;
        assert_eq!(agent.said(), said, "{kept}");
        assert_eq!(house.home.run_ids().len(), 2, "{kept}");
        agent.ends_well().await;
        process.shutdown().await;
        drop(process);
    }
}
