use serde_json::json;
use skillrun::call::TurnStop;
use skillrun::runtime::Runtime as _;

use super::house::{EVERYTHING, House, told};

#[tokio::test]
async fn a_plan_is_told_to_whoever_watches() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "office").await;
    let entries = json!([
        {"description": "look", "status": "completed"},
        {"description": "act", "status": "pending", "priority": 2},
    ]);
    let answer = agent
        .tool("update_plan", json!({ "entries": entries }))
        .await;
    assert_eq!(answer.answer(), json!({"steps": 2}));
    let told = agent.payloads("session_update");
    let plan = told.iter().find(|told| told["kind"] == "plan").unwrap();
    assert_eq!(
        plan["entries"],
        json!([
            {"description": "look", "status": "completed", "priority": 0},
            {"description": "act", "status": "pending", "priority": 2},
        ])
    );
    agent.ends_well().await;
}

#[tokio::test]
async fn a_question_is_answered_in_words_or_by_a_choice() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let turn = agent.begin("tool skillrun__ask_user {\"question\":\"Which colour?\"}");
    agent
        .decide(&agent.run_id, true, None, "green, please")
        .await;
    turn.await.unwrap().unwrap();
    let answer = told(&agent.said()[0]).answer();
    assert_eq!(
        answer,
        json!({"answered": true, "option": null, "text": "green, please", "automatic": false})
    );
    let options = json!([{"id": "r", "label": "Red"}, {"id": "g", "label": "Green"}]);
    let asks = json!({"question": "Which colour?", "options": options});
    let turn = agent.begin(&format!("tool skillrun__ask_user {asks}"));
    agent.decide(&agent.run_id, true, Some("g"), "").await;
    turn.await.unwrap().unwrap();
    assert_eq!(told(&agent.said()[1]).answer()["option"], "g");
    let turn = agent.begin("tool skillrun__ask_user {\"question\":\"Which colour?\"}");
    agent.decide(&agent.run_id, false, None, "not now").await;
    turn.await.unwrap().unwrap();
    let answer = told(&agent.said()[2]).answer();
    assert_eq!(
        (&answer["answered"], &answer["text"]),
        (&json!(false), &json!("not now"))
    );
    let asked = agent.payloads("approval_request");
    assert_eq!(asked[0]["approval_id"], "approval#1.t1.1");
    assert_eq!(asked[1]["options"], options);
    agent.ends_well().await;
}

/// Where nobody is asked, the agent is told so.
#[tokio::test]
async fn nobody_answers_where_a_policy_does() {
    let house = House::new(EVERYTHING);
    house.configure("[approvals]\npolicy = \"yes\"\n");
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let answer = agent
        .tool("ask_user", json!({"question": "Which colour?"}))
        .await
        .answer();
    assert_eq!(
        (&answer["answered"], &answer["automatic"]),
        (&json!(false), &json!(true))
    );
    let options = json!([{"id": "r", "label": "Red"}]);
    let asks = json!({"question": "Which colour?", "options": options});
    let answer = agent.tool("ask_user", asks).await.answer();
    assert_eq!(
        (&answer["answered"], &answer["option"]),
        (&json!(true), &json!("r"))
    );
    agent.ends_well().await;
}

#[tokio::test]
async fn a_question_goes_with_its_turn() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let turn = agent.begin("tool skillrun__ask_user {\"question\":\"Go on?\"}\necho after");
    let approval_id = agent.asked(&agent.run_id).await;
    process.runtime().cancel_turn(&agent.id).await.unwrap();
    let turn = turn.await.unwrap().unwrap();
    assert_eq!(
        (turn.stop_reason, turn.undone),
        (TurnStop::Cancelled, false)
    );
    assert!(
        agent.said()[0].starts_with("error: cancelled"),
        "{:?}",
        agent.said()
    );
    let answers = agent.payloads("approval_response");
    assert_eq!(
        (&answers[0]["approval_id"], &answers[0]["source"]),
        (&json!(approval_id), &json!("cancelled"))
    );
    let results = agent.payloads("tool_result");
    assert_eq!(results[0]["error"]["kind"], "cancelled", "{results:?}");
    agent.ends_well().await;
}

#[tokio::test]
async fn a_decision_is_on_record_as_the_hosts_word() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "office").await;
    let decision =
        json!({"title": "Colour", "decision": "Green.", "rationale": "It was asked for."});
    let answer = agent.tool("record_decision", decision).await;
    assert_eq!(answer.answer(), json!({"recorded": true}));
    let events = house.home.events_of(agent.run_id.as_str(), "custom");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["source"], "host");
    assert_eq!(
        events[0]["payload"],
        json!({"name": "decision", "data": {
            "title": "Colour", "decision": "Green.", "rationale": "It was asked for.",
            "call_id": "tool#1.1",
        }})
    );
    agent.ends_well().await;
}
