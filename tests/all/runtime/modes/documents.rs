use serde_json::json;

use super::house::{EVERYTHING, House};

#[tokio::test]
async fn documents_are_written_listed_and_read_by_their_session_alone() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "office").await;
    let written = json!({"name": "notes.md", "text": "# Notes\n"});
    let written = agent.tool("write_document", written).await.answer();
    let sha256 = written["sha256"].as_str().unwrap().to_owned();
    let listed = agent.tool("list_documents", json!({})).await.answer();
    assert_eq!(
        listed,
        json!({"documents": [{"name": "notes.md", "bytes": 8, "sha256": sha256}]})
    );
    let read = agent
        .tool("read_document", json!({"name": "notes.md"}))
        .await
        .answer();
    assert_eq!(read["text"], "# Notes\n");
    let other = house.launch(&process, "office").await;
    let listed = other.tool("list_documents", json!({})).await.answer();
    assert_eq!(listed, json!({"documents": []}));
    let kept = house
        .home
        .path()
        .join("documents")
        .join(agent.run_id.as_str());
    assert_eq!(
        std::fs::read_to_string(kept.join("notes.md")).unwrap(),
        "# Notes\n"
    );
    agent.ends_well().await;
}

#[tokio::test]
async fn a_document_that_changed_is_not_written_over_and_no_name_leads_out() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "office").await;
    let write =
        |text: &str, expected: &str| json!({"name": "a", "text": text, "expect_sha256": expected});
    agent
        .tool("write_document", write("one", ""))
        .await
        .answer();
    let refused = agent.tool("write_document", write("two", "")).await;
    assert_eq!(refused.refusal(), "conflict");
    for name in ["../a", "/etc/passwd", ".", "..", "A", "a/b", ".hidden"] {
        let refused = agent.tool("read_document", json!({ "name": name })).await;
        assert_eq!(refused.refusal(), "invalid", "{name}");
        let refused = agent
            .tool("write_document", json!({"name": name, "text": "x"}))
            .await;
        assert_eq!(refused.refusal(), "invalid", "{name}");
    }
    let refused = agent.tool("read_document", json!({"name": "b"})).await;
    assert_eq!(refused.refusal(), "not_found");
    agent.ends_well().await;
}
