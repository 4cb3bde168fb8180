use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::id::{ExecutionId, RunId};
use skillrun::runtime::modes::{
    CONFIG_TOOLS, Children, HostSettings, ModeParts, ModeToolset, OFFICE_TOOLS, RuntimeChildren,
    TASK_TOOLS,
};
use skillrun::runtime::{Mode, ModeTools as _, Runtime as _};

use super::house::{EVERYTHING, House};

/// Set to 1, it makes the test write the definitions anew.
const BLESS: &str = "SKILLRUN_BLESS";

const TASK: &str = "skillrun__ask_user skillrun__launch_agent skillrun__list_agents skillrun__prompt_agent \
    skillrun__run_skill skillrun__stop_agent skillrun__update_plan";
const CONFIG: &str = "skillrun__disable_skill skillrun__enable_skill skillrun__get_limits skillrun__inspect_skill \
    skillrun__list_skills skillrun__reload_skills skillrun__set_limit";
const OFFICE: &str = "skillrun__ask_user skillrun__list_documents skillrun__read_document \
    skillrun__record_decision skillrun__update_plan skillrun__write_document";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[tokio::test]
async fn each_mode_has_exactly_these_tools() {
    assert_eq!(words(TASK), TASK_TOOLS);
    assert_eq!(words(CONFIG), CONFIG_TOOLS);
    assert_eq!(words(OFFICE), OFFICE_TOOLS);
    let house = House::new(EVERYTHING);
    let process = house.process();
    for (mode, names) in [("task", TASK), ("config", CONFIG), ("office", OFFICE)] {
        let agent = house.launch(&process, mode).await;
        let said = agent.turn("tools").await.concat();
        assert_eq!(words(&said), words(names), "{mode}");
        agent.ends_well().await;
    }
    // Without a mode it is the first.
    let agent = house.launch(&process, "").await;
    assert_eq!(words(&agent.turn("tools").await.concat()), words(TASK));
}

/// Only what manifest and grants allow is told of, and can be called.
#[tokio::test]
async fn tools_of_a_mode_are_held_to_the_policy_of_the_agent() {
    let house = House::new(r#""tool:skillrun__list_*", "tool:skillrun__set_limit""#);
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    let listed = agent.turn("tools").await.concat();
    assert_eq!(
        words(&listed),
        ["skillrun__list_skills", "skillrun__set_limit"]
    );
    let refused = agent.raw("disable_skill", &json!({"name": "greet"})).await;
    assert!(refused.starts_with("error: denied"), "{refused}");
    assert!(process.skills().current().get("greet").is_some());
    let denied = agent.payloads("denied");
    assert_eq!(denied[0]["capability"], "tool:skillrun__disable_skill");
    agent.ends_well().await;
    // What was granted and not asked for is not there either.
    house.home.write_manifest(
        "probe-agent",
        "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"tool:skillrun__set_limit\"]\n",
    );
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    assert_eq!(agent.turn("tools").await.concat(), "skillrun__set_limit");
    let refused = agent.raw("list_skills", &json!({})).await;
    assert!(refused.starts_with("error: denied"), "{refused}");
}

/// In that very turn, and one that came can be called.
#[tokio::test]
async fn a_tool_that_left_with_a_change_of_mode_is_not_found() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "task").await;
    let turn = agent.begin(
        "tool skillrun__ask_user {\"question\":\"Go on?\"}\ntool skillrun__list_agents {}\ntool skillrun__list_skills {}",
    );
    agent.asked(&agent.run_id).await;
    let changed = process.runtime().set_mcp_mode(&agent.id, "config").await;
    assert!(changed.unwrap());
    // The call that had begun goes on.
    agent.decide(&agent.run_id, true, None, "yes").await;
    turn.await.unwrap().unwrap();
    let said = agent.said();
    assert!(said[0].contains("\"answered\":true"), "{said:?}");
    assert!(said[1].starts_with("error: not_found"), "{said:?}");
    assert!(said[2].contains("probe-agent"), "{said:?}");
    agent.ends_well().await;
}

struct Nowhere;

impl skillrun::runtime::modes::Host for Nowhere {
    fn runner(&self) -> Option<skillrun::runner::Runner> {
        None
    }
    fn runtime(&self) -> Option<Arc<dyn skillrun::runtime::Runtime>> {
        None
    }
    fn skills(&self) -> Option<skillrun::registry::SkillSet> {
        None
    }
    fn config(&self) -> Option<Arc<skillrun::config::Config>> {
        None
    }
    fn reload(
        &self,
        _config: skillrun::config::Config,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err("no".into())
    }
}

/// Models are told of these texts, and old records have them: they change on purpose only.
#[tokio::test]
async fn what_is_told_of_the_tools_is_what_it_was() {
    let host = Arc::new(Nowhere);
    let children: Arc<dyn Children> = Arc::new(RuntimeChildren::new(host.clone()));
    let toolset = ModeToolset::new(&ModeParts {
        children,
        settings: Arc::new(HostSettings::new(host)),
        documents_dir: "documents".into(),
    });
    let (toolset, run_id) = (toolset.unwrap(), RunId::generate());
    let execution = ExecutionId::new(&run_id, 1).unwrap();
    let mut modes = serde_json::Map::new();
    for mode in Mode::ALL {
        let surface = toolset.surface(mode, &execution);
        assert_eq!(surface.mode, mode.as_str());
        let mut tools = Vec::new();
        for tool in surface.tools.list(&["*"]).await.tools {
            let definition = tool.definition();
            let schema: Value = serde_json::from_str(&definition.input_schema).unwrap();
            is_strict(&definition.name, &schema);
            tools.push(json!({
                "name": definition.name,
                "description": definition.description,
                "effect": definition.effect,
                "keeps_record": tool.keeps_record(),
                "input_schema": schema,
            }));
        }
        modes.insert(mode.as_str().to_owned(), tools.into());
    }
    let text = format!("{}\n", serde_json::to_string_pretty(&modes).unwrap());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mode_tools.json");
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        fs::write(&golden, &text).unwrap();
    }
    let before = fs::read_to_string(&golden).unwrap();
    assert!(
        before == text,
        "the tools of the modes differ from {}",
        golden.display()
    );
}

/// Every object is closed, unless it is somebody else's; every string, array and number has an end.
fn is_strict(tool: &str, schema: &Value) {
    match schema["type"].as_str().unwrap() {
        "object" if schema.get("properties").is_none() => {}
        "object" => {
            assert_eq!(schema["additionalProperties"], false, "{tool}");
            for property in schema["properties"].as_object().unwrap().values() {
                is_strict(tool, property);
            }
        }
        "array" => {
            assert!(schema["maxItems"].is_u64(), "{tool}: {schema}");
            is_strict(tool, &schema["items"]);
        }
        "string" => {
            let is_bounded = schema["maxLength"].is_u64() || schema["enum"].is_array();
            assert!(is_bounded, "{tool}: {schema}");
        }
        "integer" => assert!(schema["maximum"].is_u64(), "{tool}: {schema}"),
        other => panic!("{tool}: {other}"),
    }
}

/// The schema is checked before anything is done.
#[tokio::test]
async fn arguments_that_do_not_fit_are_refused() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    for (tool, arguments) in [
        ("disable_skill", json!({})),
        ("disable_skill", json!({"name": "greet", "more": 1})),
        ("disable_skill", json!({"name": "x".repeat(65)})),
        (
            "set_limit",
            json!({"skill": "greet", "key": "no_such_limit", "value": 1}),
        ),
        (
            "set_limit",
            json!({"skill": "greet", "key": "host_calls", "value": 0}),
        ),
        (
            "set_limit",
            json!({"skill": "greet", "key": "host_calls", "value": "5"}),
        ),
    ] {
        let refused = agent.raw(tool, &arguments).await;
        assert!(refused.starts_with("error: invalid"), "{tool}: {refused}");
    }
    agent.ends_well().await;
}
