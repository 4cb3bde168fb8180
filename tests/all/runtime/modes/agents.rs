use serde_json::json;
use skillrun::runtime::{CHILDREN_MAX, ExecutionStatus, Runtime as _};

use super::house::{EVERYTHING, House};

#[tokio::test]
async fn an_agent_launches_prompts_lists_and_stops_another() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let asks = json!({"agent": "probe-agent", "metadata": {"a": 1}, "mode": "office"});
    let launched = agent.tool("launch_agent", asks).await.answer();
    let child = launched["execution_id"].as_str().unwrap().to_owned();
    let asks = json!({"execution_id": child, "prompt": "echo one\nreason hidden\necho  two\nmeta"});
    let turn = agent.tool("prompt_agent", asks).await.answer();
    let text = turn["text"].as_str().unwrap();
    assert!(text.starts_with("one two{"), "{text}");
    assert!(
        text.contains(r#""a":1"#) && text.contains(r#""mode":"office""#),
        "{text}"
    );
    assert_eq!(
        (&turn["generation"], &turn["stop_reason"]),
        (&json!(1), &json!("end_turn"))
    );
    let asks = json!({"execution_id": child, "prompt": "fail broken it broke"});
    let turn = agent.tool("prompt_agent", asks).await.answer();
    assert_eq!(turn["stop_reason"], "error");
    assert!(
        turn["error"].as_str().unwrap().contains("it broke"),
        "{turn}"
    );
    let listed = agent.tool("list_agents", json!({})).await.answer();
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1);
    assert_eq!(listed["agents"][0]["execution_id"], child);
    assert_eq!(listed["agents"][0]["status"], "ready");
    let execution = process.runtime().get_execution(&child).await.unwrap();
    assert_eq!(execution.parent.unwrap().to_string(), agent.id);
    let asks = json!({"execution_id": child, "reason": "enough"});
    let stopped = agent.tool("stop_agent", asks.clone()).await.answer();
    assert_eq!(stopped["status"], "stopped");
    let execution = process.runtime().get_execution(&child).await.unwrap();
    assert_eq!(execution.stop_reason.as_deref(), Some("enough"));
    assert_eq!(agent.tool("stop_agent", asks).await.refusal(), "not_found");
    let asks = json!({"execution_id": child, "prompt": "echo"});
    assert_eq!(
        agent.tool("prompt_agent", asks).await.refusal(),
        "not_found"
    );
    agent.ends_well().await;
}

/// For an agent there are no others than those that it launched, not even its own execution.
#[tokio::test]
async fn only_children_of_ones_own_are_reached() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let other = house.launch(&process, "task").await;
    let agent = house.launch(&process, "task").await;
    for id in [&other.id, &agent.id] {
        let asks = json!({"execution_id": id, "prompt": "echo"});
        assert_eq!(
            agent.tool("prompt_agent", asks).await.refusal(),
            "not_found"
        );
        let asks = json!({"execution_id": id, "reason": "mine"});
        assert_eq!(agent.tool("stop_agent", asks).await.refusal(), "not_found");
    }
    let asks = json!({"execution_id": "../x", "reason": "mine"});
    assert_eq!(agent.tool("stop_agent", asks).await.refusal(), "invalid");
    assert_eq!(
        agent.tool("list_agents", json!({})).await.answer(),
        json!({"agents": []})
    );
    other.turn("echo still here").await;
}

/// What only a launcher outside may set, and the mode that only people give.
#[tokio::test]
async fn an_agent_cannot_launch_more_than_it_is() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let asks =
        json!({"agent": "probe-agent", "metadata": {"launch_request": {"limits": {"fuel": 1}}}});
    assert_eq!(agent.tool("launch_agent", asks).await.refusal(), "denied");
    let asks = json!({"agent": "probe-agent", "mode": "config"});
    let refused = agent.raw("launch_agent", &asks).await;
    assert!(refused.starts_with("error: invalid"), "{refused}");
    assert_eq!(house.home.run_ids().len(), 1);
    // All at once.
    let count = CHILDREN_MAX + 4;
    let many = format!("tools-many {count} skillrun__launch_agent {{\"agent\":\"probe-agent\"}}");
    let said = agent.turn(&many).await.concat();
    assert_eq!(said.matches("\"full\"").count(), 4, "{said}");
    assert_eq!(house.home.run_ids().len(), 1 + CHILDREN_MAX);
}

#[tokio::test]
async fn children_end_with_their_parent_and_a_prompt_with_its_turn() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let launched = agent
        .tool("launch_agent", json!({"agent": "probe-agent"}))
        .await
        .answer();
    let child = launched["execution_id"].as_str().unwrap().to_owned();
    let asks = json!({"execution_id": child, "prompt": "sleep 600000"});
    let turn = agent.begin(&format!("tool skillrun__prompt_agent {asks}"));
    let runs = async || {
        process
            .runtime()
            .get_execution(&child)
            .await
            .unwrap()
            .status
    };
    while runs().await != ExecutionStatus::Running {
        tokio::task::yield_now().await;
    }
    process.runtime().cancel_turn(&agent.id).await.unwrap();
    assert!(!turn.await.unwrap().unwrap().undone);
    while runs().await != ExecutionStatus::Ready {
        tokio::task::yield_now().await;
    }
    process.runtime().stop(&agent.id, "done").await.unwrap();
    assert_eq!(runs().await, ExecutionStatus::Stopped);
}
