//! Runs as resources.

use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents};
use serde_json::{Value, json};
use skillrun_test_artifacts::GREET;

use super::peer::{Era, Peer, all_peers, object, refused};
use crate::api::daemon::Daemon;
use crate::harness::Home;

/// The JSON at an address.
async fn read(peer: &Peer, uri: &str) -> Value {
    let asked = ReadResourceRequestParams::new(uri);
    let result = peer.client.read_resource(asked).await.unwrap();
    let [
        ResourceContents::TextResourceContents {
            uri: own,
            mime_type,
            text,
            ..
        },
    ] = &*result.contents
    else {
        panic!("{result:?}");
    };
    assert_eq!(
        (&**own, mime_type.as_deref()),
        (uri, Some("application/json"))
    );
    serde_json::from_str(text).unwrap()
}

/// Calls `greet`, and gives the address of its run.
async fn greeted(peer: &Peer) -> String {
    let arguments = object(json!({ "name": "Ada" }));
    let call = CallToolRequestParams::new("greet").with_arguments(arguments);
    let called = serde_json::to_value(peer.client.call_tool(call).await.unwrap()).unwrap();
    let link = called["content"].as_array().unwrap().last().unwrap();
    assert_eq!(link["type"], "resource_link");
    link["uri"].as_str().unwrap().to_owned()
}

async fn a_run_is_what_it_is_over_http(daemon: &Daemon, peer: &Peer) {
    let uri = greeted(peer).await;
    let id = uri.strip_prefix("skillrun://runs/").unwrap();
    let shown = daemon.get(&format!("/api/agent/runs/{id}")).json();
    assert_eq!(read(peer, &uri).await, shown["run"]);
    assert_eq!(read(peer, &format!("{uri}/events")).await, shown);
    let rest = read(peer, &format!("{uri}/events?after=1")).await;
    assert_eq!(rest["events"][0]["seq"], 2);

    let listed = peer.client.list_all_resources().await.unwrap();
    let run = listed.iter().find(|listed| listed.uri == uri).unwrap();
    assert_eq!(run.name, id);
    let ids = peer
        .client
        .complete_resource_simple("skillrun://runs/{id}", "id", id);
    assert_eq!(ids.await.unwrap(), [id]);
}

/// What is not there, or not the client's, is not there.
async fn nothing_else_is_shown(peer: &Peer, other: &str) {
    let code = match peer.era {
        Era::Sessions => -32002,
        Era::Stateless => -32602,
    };
    for uri in [
        other,
        &format!("{other}/events"),
        "skillrun://runs/run_0190a0a0a0a07000800000000000002a",
        "skillrun://runs/../config.toml",
        "skillrun://secrets",
        "test://none",
        "skill://none/SKILL.md",
        "skill://greet/skill.wasm",
        "file:///etc/passwd",
        "",
    ] {
        let error = refused(
            peer.client
                .read_resource(ReadResourceRequestParams::new(uri))
                .await,
        );
        assert_eq!(error.code.0, code, "{uri}: {error:?}");
        assert_eq!(error.data.unwrap()["uri"], uri);
    }
    let listed = peer.client.list_all_resources().await.unwrap();
    assert!(listed.iter().all(|listed| listed.uri != other));
    let templates = peer.client.list_all_resource_templates().await.unwrap();
    let templates: Vec<&str> = templates.iter().map(|one| &*one.uri_template).collect();
    assert_eq!(
        templates,
        [
            "skillrun://runs/{id}",
            "skillrun://runs/{id}/events{?after}"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reads_the_runs_that_it_began() {
    let home = Home::new(&[GREET]);
    home.configure("[mcp]\npage_size = 50\n");
    let (own, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{own}");
    let other = format!("skillrun://runs/{}", own["run_id"].as_str().unwrap());
    let (daemon, peers) = all_peers(&home).await;
    for peer in &peers {
        a_run_is_what_it_is_over_http(&daemon, peer).await;
        nothing_else_is_shown(peer, &other).await;
    }
}
