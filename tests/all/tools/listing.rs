//! What is listed, and which servers are started for it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::tools::{HostTool, ToolError};

use super::Bench;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tools_are_listed_page_by_page() {
    let bench = Bench::hostile(
        "many",
        "tools = [\"tool_*\"]\neffects = { tool_7 = \"read\" }",
    );
    let listing = bench.toolbox.list(&["h__*"]).await;
    assert_eq!(listing.tools.len(), 1000);
    let long = |tool: &skillrun::tools::Tool| tool.definition().description.len() == 4096;
    assert!(listing.tools.iter().all(long));
    let tool = bench.toolbox.find("h__tool_7").await.unwrap().unwrap();
    assert_eq!(tool.definition().effect, Effect::Read);
    let asked = bench.journal();
    let pages = asked.iter().filter(|line| line.contains("tools/list"));
    assert_eq!(pages.count(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_never_ends_is_given_up() {
    for (how, part) in [
        ("endless", "more than 1000 pages"),
        ("empty-pages", "more than 1000 pages"),
        ("no-list", "its list of tools is none"),
    ] {
        let bench = Bench::hostile(how, "");
        let listing = bench.toolbox.list(&["*"]).await;
        assert!(listing.tools.is_empty());
        let [(server, reason)] = listing.unreachable.as_slice() else {
            panic!("{listing:?}")
        };
        assert_eq!(server, "h");
        assert!(reason.contains(part), "{how}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_granted_is_left_out_and_a_schema_that_is_none_checks_nothing() {
    let bench = Bench::hostile("names", "");
    assert_eq!(bench.names("*").await, ["h__broken", "h__good"]);
    let broken = bench.toolbox.find("h__broken").await.unwrap().unwrap();
    broken.check("{\"a\": 1}").unwrap();
    assert!(broken.check("1").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_server_that_may_have_the_tool_is_started() {
    let bench = Bench::hostile("", "tools = [\"echo\", \"d*\"]");
    for pattern in ["g__*", "h_x*", "echo", "h__hang"] {
        assert!(bench.names(pattern).await.is_empty(), "{pattern}");
    }
    for name in ["h__hang", "g__echo", "echo", "h__", "h"] {
        assert!(bench.toolbox.find(name).await.unwrap().is_none(), "{name}");
    }
    assert!(bench.started().is_empty());
    assert_eq!(bench.names("*__e*").await, ["h__echo"]);
    assert_eq!(bench.names("h*").await, ["h__die", "h__echo"]);
    assert_eq!(bench.started().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_so_is_asked_again_what_it_has() {
    let bench = Bench::hostile("", "");
    assert!(bench.toolbox.find("h__changed").await.unwrap().is_none());
    bench.call("h__change", json!({})).await.unwrap();
    // The server says it beside its answer, so it may be heard after that.
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(5));
    let heard = async {
        while bench.toolbox.find("h__changed").await.unwrap().is_none() {
            looks.tick().await;
        }
    };
    let time = std::time::Duration::from_secs(60);
    tokio::time::timeout(time, heard).await.unwrap();
    let asked = bench.journal();
    let lists = asked.iter().filter(|line| line.contains("tools/list"));
    assert_eq!(lists.count(), 2);
}

struct Own;

#[async_trait]
impl HostTool for Own {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "h__echo".to_owned(),
            description: "own".to_owned(),
            input_schema: "{}".to_owned(),
            effect: Effect::Read,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        Ok(ToolAnswer {
            content: "[]".to_owned(),
            is_error: false,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_of_the_host_takes_the_place_of_a_servers() {
    let bench = Bench::hostile("", "");
    let toolbox = bench.toolbox.clone().with_host_tool(Arc::new(Own)).unwrap();
    let listing = toolbox.list(&["h__e*"]).await;
    assert_eq!(listing.tools.len(), 1);
    assert_eq!(listing.tools[0].definition().description, "own");
    let found = toolbox.find("h__echo").await.unwrap().unwrap();
    assert_eq!(found.call("{}").await.unwrap().content, "[]");
}
