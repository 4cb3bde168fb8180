//! What clients are told of changes.

#![expect(
    deprecated,
    reason = "clients of 2025-11-25 and older subscribe to addresses"
)]

use std::fs;

use rmcp::model::{
    CallToolRequestParams, ReadResourceRequestParams, ResourceContents, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::Subscription;
use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use super::peer::{Era, Peer, daemon, object, refused, word, write_prompt};
use crate::harness::Home;

/// All that can be listened to, and these addresses.
async fn listening(peer: &Peer, uris: &[&str]) -> Subscription {
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscriptions(uris.iter().copied());
    peer.client.listen(filter.build()).await.unwrap()
}

async fn next(subscription: &mut Subscription) -> String {
    word(&subscription.next().await.unwrap().unwrap())
}

/// Goes on reading until it was told both, and of no other list.
fn is_told(told: &mut Vec<String>, word: String) -> bool {
    assert_ne!(word, "tools");
    told.push(word);
    ["prompts", "resources"]
        .iter()
        .all(|one| told.iter().any(|told| told == one))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_which_lists_changed() {
    let home = Home::new(&[GREET]);
    let daemon = daemon(&home);
    let stdio = Peer::stdio(&home, Era::Sessions).await;
    let http = Peer::http(&daemon, Era::Sessions).await;
    let newer = Peer::http(&daemon, Era::Stateless).await;
    let newer_stdio = Peer::stdio(&home, Era::Stateless).await;
    let mut streams = [
        listening(&newer, &["skill://greet/SKILL.md", "skill://none/SKILL.md"]).await,
        listening(&newer_stdio, &[]).await,
    ];
    let accepted = streams[0].acknowledged().resource_subscriptions.clone();
    assert_eq!(accepted, Some(vec!["skill://greet/SKILL.md".to_owned()]));

    write_prompt(&home, "brief", "text", "");
    for peer in [&stdio, &http] {
        let mut told = Vec::new();
        while !is_told(&mut told, peer.told().await) {}
        let prompts = peer.client.list_all_prompts().await.unwrap();
        assert_eq!(prompts[0].name, "brief");
    }
    for stream in &mut streams {
        let mut told = Vec::new();
        while !is_told(&mut told, next(stream).await) {}
    }

    let text = fs::read_to_string(home.skill("greet").join("SKILL.md")).unwrap();
    fs::write(
        home.skill("greet").join("SKILL.md"),
        format!("{text}\nmore\n"),
    )
    .unwrap();
    let stream = &mut streams[0];
    while next(stream).await != "skill://greet/SKILL.md" {}
}

/// What a run is, as its resource says.
async fn status(peer: &Peer, uri: &str) -> String {
    let read = peer
        .client
        .read_resource(ReadResourceRequestParams::new(uri));
    let read = read.await.unwrap();
    let [ResourceContents::TextResourceContents { text, .. }] = &*read.contents else {
        panic!("{read:?}");
    };
    let run: Value = serde_json::from_str(text).unwrap();
    run["status"].as_str().unwrap().to_owned()
}

/// The address of a run that goes on, once there is one.
async fn going_on(peer: &Peer) -> String {
    loop {
        let listed = peer.client.list_all_resources().await.unwrap();
        let run = listed.into_iter().find(|one| {
            let description = one.description.as_deref().unwrap_or_default();
            one.uri.starts_with("skillrun://runs/") && description.contains("running")
        });
        if let Some(run) = run {
            return run.uri;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_when_a_run_that_they_watch_ends() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    for era in [Era::Sessions, Era::Stateless] {
        let peer = Peer::http(&daemon, era).await;
        let arguments = object(json!({ "verb": "spin" }));
        let call = CallToolRequestParams::new("probe").with_arguments(arguments);
        let caller = peer.client.peer().clone();
        let call = tokio::spawn(async move { caller.call_tool(call).await });
        let uri = going_on(&peer).await;
        let id = uri.strip_prefix("skillrun://runs/").unwrap();
        let cancel = || {
            let path = format!("/api/agent/runs/{id}/cancel");
            assert_eq!(daemon.post(&path, &json!({})).status, 202);
        };
        match era {
            Era::Sessions => {
                let none = SubscribeRequestParams::new("test://none");
                let none = refused(peer.client.subscribe(none).await);
                assert_eq!(none.code.0, -32002);
                peer.client
                    .subscribe(SubscribeRequestParams::new(&uri))
                    .await
                    .unwrap();
                cancel();
                assert_eq!(peer.told().await, uri);
                peer.client
                    .unsubscribe(UnsubscribeRequestParams::new(&uri))
                    .await
                    .unwrap();
            }
            Era::Stateless => {
                let mut stream = listening(&peer, &[&uri]).await;
                cancel();
                // It is told of what it may have missed at first, and then of the end.
                while status(&peer, &uri).await == "running" {
                    assert_eq!(next(&mut stream).await, uri);
                }
            }
        }
        assert!(call.await.unwrap().unwrap().is_error.unwrap_or(false));
    }
}
