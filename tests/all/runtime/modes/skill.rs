use serde_json::{Value, json};

use super::house::{EVERYTHING, House, told};

#[tokio::test]
async fn a_skill_is_run_inside_the_run_of_the_execution() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let asks = json!({"skill": "greet", "input": {"name": "Ada"}});
    let answer = agent.tool("run_skill", asks).await.answer();
    assert!(answer["output"].to_string().contains("Ada"), "{answer}");
    let calls = agent.payloads("tool_call");
    let inner = calls.iter().find(|call| call["kind"] == "skill").unwrap();
    assert_eq!(inner["call_id"], "skill#1.t1.1");
    let child = inner["child_run_id"].as_str().unwrap();
    let started = house.home.events_of(child, "run_started").remove(0);
    assert_eq!(started["payload"]["parent_run_id"], agent.run_id.as_str());
    agent.ends_well().await;
}

/// A tool is no way around what the manifest asks for and the operator granted.
#[tokio::test]
async fn a_skill_that_the_agent_may_not_call_is_not_run() {
    let house = House::new(r#""tool:*", "skill:probe""#);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let asks = json!({"skill": "greet", "input": {}});
    assert_eq!(agent.tool("run_skill", asks).await.refusal(), "denied");
    for (skill, word) in [("../greet", "denied"), ("probe", "failed")] {
        let asks = json!({"skill": skill, "input": {"verb": "no-such-verb"}});
        let refused = agent.tool("run_skill", asks).await;
        assert_eq!(refused.refusal(), word, "{refused:?}");
    }
    let denied = agent.payloads("denied");
    assert_eq!(denied[0]["capability"], "skill:greet");
    assert_eq!(denied[0]["call_id"], "skill#1.t1.1");
    let asks = json!({"agent": "greet"});
    assert_eq!(agent.tool("launch_agent", asks).await.refusal(), "denied");
    assert_eq!(house.home.run_ids().len(), 2);
    agent.ends_well().await;
}

#[tokio::test]
async fn a_run_inside_is_held_to_the_budget_of_the_execution() {
    let house = House::new(EVERYTHING);
    house.configure("[skills.probe-agent.limits]\nnesting_depth = 1\nhost_calls = 3\n[limits]\nnesting_depth = 1\n");
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let run = json!({"skill": "probe", "input": {"verb": "calls", "calls": [
        {"call": "tool", "name": "none", "arguments": "{}"},
        {"call": "tool", "name": "none", "arguments": "{}"},
        {"call": "tool", "name": "none", "arguments": "{}"},
    ]}});
    let refused = agent.tool("run_skill", run).await;
    assert_eq!(refused.refusal(), "failed", "{refused:?}");
    let message = refused.value["message"].as_str().unwrap();
    assert!(message.contains("host_call_limit"), "{message}");
}

/// The other run is cancelled with the turn, and so is the call.
#[tokio::test]
async fn a_run_inside_goes_with_the_turn() {
    use skillrun::runtime::Runtime as _;
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let run = json!({"skill": "probe", "input": {"verb": "calls", "calls": [
        {"call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": null},
    ]}});
    let turn = agent.begin(&format!("tool skillrun__run_skill {run}"));
    let child = child_of(&agent).await;
    agent.asked(&child.parse().unwrap()).await;
    process.runtime().cancel_turn(&agent.id).await.unwrap();
    assert!(!turn.await.unwrap().unwrap().undone);
    let end = house.home.events_of(&child, "run_completed").remove(0);
    assert_eq!(end["payload"]["status"], "cancelled");
    assert!(
        agent.said()[0].starts_with("error: cancelled"),
        "{:?}",
        agent.said()
    );
    agent.ends_well().await;
}

/// It is the same run that goes on, and its answer that is told.
#[tokio::test]
async fn a_run_inside_goes_on_when_the_execution_is_taken_up() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let run = json!({"skill": "probe", "input": {"verb": "calls", "calls": [
        {"call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": null},
    ]}});
    let _turn = agent.begin(&format!("tool skillrun__run_skill {run}"));
    let child = child_of(&agent).await;
    agent.asked(&child.parse().unwrap()).await;
    process.shutdown().await;
    let process = house.process();
    let mut spec = skillrun::runtime::LaunchSpec::default();
    spec.agent_profile_id = "probe-agent".to_owned();
    spec.prior_session = agent.run_id.to_string();
    let agent = house.launched(&process, spec).await;
    agent
        .decide(&child.parse().unwrap(), true, None, "because")
        .await;
    agent.ready().await;
    let answer = told(&agent.said()[0]).answer();
    assert!(answer["output"].to_string().contains("because"), "{answer}");
    let calls = agent.payloads("tool_call");
    let children: Vec<&Value> = calls
        .iter()
        .filter(|call| call["kind"] == "skill")
        .map(|call| &call["child_run_id"])
        .collect();
    assert!(children.iter().all(|one| **one == *child), "{children:?}");
    agent.ends_well().await;
}

async fn child_of(agent: &super::house::Agent<'_>) -> String {
    let begun = || {
        let calls = agent.payloads("tool_call").into_iter();
        let mut children =
            calls.filter_map(|call| call["child_run_id"].as_str().map(str::to_owned));
        children
            .next()
            .filter(|child| agent.house.home.ledger(child).exists())
    };
    crate::resume::library::eventually("a run inside", begun).await
}
