use std::fs;

use serde_json::json;

use super::house::{EVERYTHING, House};

#[tokio::test]
async fn skills_are_listed_looked_at_and_switched() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    let listed = agent.tool("list_skills", json!({})).await.answer();
    let names: Vec<&str> = listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["greet", "probe", "probe-agent"]);
    let seen = agent
        .tool("inspect_skill", json!({"name": "probe"}))
        .await
        .answer();
    assert_eq!(seen["requests"], json!(["approval"]));
    assert_eq!(seen["may"], json!(["approval"]));
    assert_eq!(seen["enabled"], true);
    let off = agent
        .tool("disable_skill", json!({"name": "greet"}))
        .await
        .answer();
    assert_eq!(
        off,
        json!({"name": "greet", "enabled": false, "was_enabled": true, "in_use": true})
    );
    // At once, and in the file that other processes read.
    assert!(process.skills().current().get("greet").is_none());
    let refused = house.home.skillrun(&["run", "greet", "--input", "{}"]);
    assert!(refused.stderr.contains("disabled"), "{refused:?}");
    let seen = agent
        .tool("inspect_skill", json!({"name": "greet"}))
        .await
        .answer();
    assert_eq!(seen["enabled"], false);
    let on = agent
        .tool("enable_skill", json!({"name": "greet"}))
        .await
        .answer();
    assert_eq!(on["was_enabled"], false);
    assert!(process.skills().current().get("greet").is_some());
    for tool in ["inspect_skill", "enable_skill", "disable_skill"] {
        for name in ["none", "../greet"] {
            let refused = agent.tool(tool, json!({ "name": name })).await;
            assert_eq!(refused.refusal(), "not_found", "{tool}");
        }
    }
    agent.ends_well().await;
}

/// Enabling accepts nothing: a skill that changed since it was accepted stays refused.
#[tokio::test]
async fn a_changed_skill_is_not_accepted_by_enabling_it() {
    let house = House::new(EVERYTHING);
    let accepted = house.home.skillrun(&["skills", "pin", "greet", "--accept"]);
    assert_eq!(accepted.exit, Some(0), "{accepted:?}");
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    let file = house.home.skill("greet").join("SKILL.md");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\nMore.\n")).unwrap();
    agent
        .tool("enable_skill", json!({"name": "greet"}))
        .await
        .answer();
    let read = agent.tool("reload_skills", json!({})).await.answer();
    assert_eq!(
        read,
        json!({"skills": 2, "disabled": 0, "refused": 1, "in_use": true})
    );
    let listed = agent.tool("list_skills", json!({})).await.answer();
    assert_eq!(listed["refused"], json!(["greet"]));
    let refused = agent.tool("inspect_skill", json!({"name": "greet"})).await;
    assert_eq!(refused.refusal(), "not_found");
}

#[tokio::test]
async fn a_limit_is_set_in_the_file_and_in_use_and_nothing_else_changes() {
    let house = House::new(EVERYTHING);
    house.configure("# mine\n[skills.greet.limits] # few\nfuel = 1_000_000_000\n");
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    let path = house.home.path().join("config.toml");
    let before = fs::read_to_string(&path).unwrap();
    let asks = json!({"skill": "greet", "key": "host_calls", "value": 7});
    let set = agent.tool("set_limit", asks.clone()).await.answer();
    assert_eq!(
        set,
        json!({
            "skill": "greet", "key": "host_calls", "before": null, "value": 7,
            "in_force": {"value": 7, "source": "skill"},
        })
    );
    let after = fs::read_to_string(&path).unwrap();
    assert_eq!(after, format!("{before}host_calls = 7\n"));
    assert_eq!(agent.tool("set_limit", asks).await.answer()["before"], 7);
    let limits = agent
        .tool("get_limits", json!({"skill": "greet"}))
        .await
        .answer();
    assert_eq!(
        limits["limits"]["host_calls"],
        json!({"value": 7, "source": "skill", "max": 1_000_000})
    );
    let limits = agent.tool("get_limits", json!({})).await.answer();
    assert_eq!(limits["limits"]["host_calls"]["value"], 10_000);
    let run = process.runner().run(
        skillrun::runner::Caller::new(),
        skillrun::runner::StartOptions::new(
            "greet",
            skillrun::runner::JsonObject::parse("{\"name\":\"Ada\"}").unwrap(),
        ),
    );
    let run = run.await.unwrap();
    let started = house
        .home
        .events_of(run.run_id.as_str(), "run_started")
        .remove(0);
    assert_eq!(started["payload"]["limits"]["host_calls"]["value"], 7);
    agent.ends_well().await;
}

#[tokio::test]
async fn a_limit_that_cannot_be_had_leaves_everything_as_it_was() {
    let house = House::new(EVERYTHING);
    let process = house.process();
    let agent = house.launch(&process, "config").await;
    let path = house.home.path().join("config.toml");
    let set = async |skill: &str, value: u64| {
        let asks = json!({"skill": skill, "key": "host_calls", "value": value});
        agent.tool("set_limit", asks).await
    };
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(set("greet", 1_000_001).await.refusal(), "invalid");
    assert_eq!(set("none", 5).await.refusal(), "not_found");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    // What somebody else broke in the file is not taken over, and not written over either.
    for broken in [
        "[secrets.KEY]\nfile = \"missing\"\nurl = \"https://example.org/\"\nheader = \"x-key\"\n",
        "no_such_section = 1\n",
    ] {
        let text = format!("{broken}{before}");
        let text = match broken.starts_with('[') {
            true => format!("{before}{broken}"),
            false => text,
        };
        fs::write(&path, &text).unwrap();
        assert_eq!(set("greet", 5).await.refusal(), "failed");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let limits = agent
            .tool("get_limits", json!({"skill": "greet"}))
            .await
            .answer();
        assert_eq!(limits["limits"]["host_calls"]["source"], "default");
    }
    fs::write(&path, before).unwrap();
    agent.ends_well().await;
}
