//! Prompts and completion.

use rmcp::model::GetPromptRequestParams;
use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::peer::{Peer, all_peers, object, refused, write_prompt};
use crate::harness::Home;

const BRIEF: &str = r#"
[mcp]
title = "A brief"
[schemas.input]
type = "object"
required = ["who"]
[schemas.input.properties.who]
type = "string"
description = "Whom it is for"
[schemas.input.properties.tone]
enum = ["warm", "wry", "cold"]
"#;

/// The text of a skill without a component, with its arguments put in.
async fn a_text_is_a_prompt(peer: &Peer) {
    let prompts = peer.client.list_all_prompts().await.unwrap();
    let brief = prompts
        .iter()
        .find(|prompt| prompt.name == "brief")
        .unwrap();
    let listed = serde_json::to_value(brief).unwrap();
    let expected = json!({
        "name": "brief",
        "title": "A brief",
        "description": "Of brief.",
        "arguments": [
            { "name": "tone", "required": false },
            { "name": "who", "description": "Whom it is for", "required": true },
        ],
    });
    assert_eq!(listed, expected);

    let arguments = object(json!({ "who": "{{tone}} <b>" }));
    let asked = GetPromptRequestParams::new("brief").with_arguments(arguments);
    let prompt = peer.client.get_prompt(asked).await.unwrap();
    let prompt = serde_json::to_value(prompt).unwrap();
    let message = json!({ "role": "user", "content": { "type": "text", "text": "For {{tone}} <b>, ![{{x}}](y)\n" } });
    assert_eq!(prompt["messages"], json!([message]));

    let missing = peer.client.get_prompt(GetPromptRequestParams::new("brief"));
    let missing = refused(missing.await);
    assert_eq!(missing.code.0, -32602);
    assert_eq!(missing.message, "arguments: who is missing");
    let none = refused(
        peer.client
            .get_prompt(GetPromptRequestParams::new("none"))
            .await,
    );
    assert_eq!(none.code.0, -32602);
}

async fn arguments_are_completed(peer: &Peer) {
    let values = peer
        .client
        .complete_prompt_simple("brief", "tone", "w")
        .await;
    assert_eq!(values.unwrap(), ["warm", "wry"]);
    let values = peer
        .client
        .complete_prompt_simple("brief", "who", "a")
        .await;
    assert_eq!(values.unwrap(), Vec::<String>::new());
    for (prompt, argument) in [("none", "tone"), ("brief", "none")] {
        let error = refused(
            peer.client
                .complete_prompt_simple(prompt, argument, "")
                .await,
        );
        assert_eq!(error.code.0, -32602);
    }
}

/// A component makes the messages, in a run.
async fn a_component_is_a_prompt(home: &Home, peer: &Peer) {
    let get = |arguments| {
        let asked = GetPromptRequestParams::new("try").with_arguments(object(arguments));
        peer.client.get_prompt(asked)
    };
    let prompt = get(json!({ "verb": "echo", "value": "hi" })).await.unwrap();
    let prompt = serde_json::to_value(prompt).unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "hi");
    let run_id = prompt["_meta"]["skillrun/run_id"].as_str().unwrap();
    let started = home.events_of(run_id, "run_started");
    assert_eq!(
        started[0]["payload"]["client"]["surface"], "mcp",
        "{started:?}"
    );

    let failed = refused(get(json!({ "verb": "fail", "message": "no", "code": "c" })).await);
    assert_eq!((failed.code.0, &*failed.message), (-32603, "no"));
    let none = refused(get(json!({ "verb": "about" })).await);
    assert!(none.message.contains("no prompt"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_texts_and_what_components_make() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[mcp]\nas = \"prompt\"\nname = \"try\"\n");
    write_prompt(&home, "brief", "For {{who}}, ![{{x}}](y)\n", BRIEF);
    let (_daemon, peers) = all_peers(&home).await;
    for peer in &peers {
        a_text_is_a_prompt(peer).await;
        arguments_are_completed(peer).await;
        a_component_is_a_prompt(&home, peer).await;
        assert!(peer.client.list_all_tools().await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_read_page_by_page_and_a_made_up_cursor_is_refused() {
    let home = Home::new(&[]);
    home.configure("[mcp]\npage_size = 2\n");
    for name in ["a", "b", "c", "d", "e"] {
        write_prompt(&home, name, "text", "");
    }
    let (_daemon, peers) = all_peers(&home).await;
    for peer in &peers {
        let prompts = peer.client.list_all_prompts().await.unwrap();
        let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        let first = peer.client.list_prompts(None).await.unwrap();
        assert_eq!(first.prompts.len(), 2);
        for cursor in [Some("made up".to_owned()), first.next_cursor] {
            let asked = rmcp::model::PaginatedRequestParams::default().with_cursor(cursor);
            let error = refused(peer.client.list_resources(Some(asked)).await);
            assert_eq!(error.code.0, -32602);
        }
    }
}
