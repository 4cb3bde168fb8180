//! Which skills there are, and what each is.

use std::fs;

use serde_json::json;
use skillrun_test_artifacts::{GREET, PROBE};

use super::daemon::Daemon;
use crate::harness::{Home, eventually};

#[test]
fn skills_are_listed_and_those_that_are_refused_with_what_is_wrong() {
    let home = Home::new(&[GREET, PROBE]);
    let prose = home.skill("prose");
    fs::create_dir_all(&prose).unwrap();
    fs::write(
        prose.join("SKILL.md"),
        "---\nname: prose\ndescription: Only words.\n---\nDo it.\n",
    )
    .unwrap();
    let wrong = home.skill("wrong");
    fs::create_dir_all(&wrong).unwrap();
    fs::write(wrong.join("SKILL.md"), "---\nname: other\n---\n").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", wrong.join("skill.toml")).unwrap();
    home.write_manifest("probe", "[expose]\napi = false\n");
    let disabled = home.skillrun(&["skills", "disable", "greet"]);
    assert_eq!(disabled.exit, Some(0), "{disabled:?}");
    let daemon = Daemon::start(&home);
    let answer = daemon.get("/api/skills");
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    for path in [home.path().to_str().unwrap(), "/etc/hostname"] {
        assert!(!text.contains(path), "{path}: {text}");
    }
    let document = answer.json();
    let skills = document["skills"].as_array().unwrap();
    let names: Vec<_> = skills.iter().map(|skill| &skill["name"]).collect();
    assert_eq!(names, ["greet", "prose"]);
    assert_eq!(skills[0]["enabled"], false);
    assert_eq!(skills[0]["component_digest"].as_str().unwrap().len(), 64);
    assert_eq!(
        (&skills[1]["enabled"], &skills[1]["flavor"]),
        (&json!(true), &json!("prompt"))
    );
    assert!(skills[1].get("component_digest").is_none(), "{document}");
    let refused = document["refused"].as_array().unwrap();
    assert_eq!(refused[0]["name"], "wrong");
    assert_eq!(
        refused[0]["findings"].as_array().unwrap().len(),
        refused[0]["findings_total"]
    );
    assert!(text.contains("differs from the folder's"), "{text}");

    let closer = daemon.get("/api/skills/wrong");
    assert_eq!(
        (closer.status, closer.problem().as_str()),
        (422, "not_runnable")
    );
    for absent in ["probe", "no-skill", "..%2Fgreet", "gre%00et"] {
        let answer = daemon.get(&format!("/api/skills/{absent}"));
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (404, "not_found"),
            "{absent}"
        );
    }
    let disabled = daemon.get("/api/skills/greet").json();
    assert!(disabled.get("descriptor").is_none(), "{disabled}");
    let prose = daemon.get("/api/skills/prose").json();
    assert!(prose.get("failure").is_none(), "{prose}");
}

#[test]
fn a_skill_is_shown_with_its_schemas_its_policy_and_its_limits() {
    let home = Home::new(&[PROBE]);
    let given = home.path().join("given");
    fs::create_dir_all(&given).unwrap();
    home.write_manifest(
        "probe",
        "[capabilities]\nrequest = [\"fs:ro:*=/data\", \"env:LANG\"]\n[limits]\nwall_time_ms = 1234\n",
    );
    home.configure(&format!(
        "[limits]\nmemory_bytes = 100000000\n[skills.probe]\ngrant = [\"fs:ro:{}=/data\"]\n",
        given.display()
    ));
    let daemon = Daemon::start(&home);
    let answer = daemon.get("/api/skills/probe");
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(!text.contains(home.path().to_str().unwrap()), "{text}");
    let document = answer.json();
    assert_eq!(document["skill"]["pinned"], true);
    let descriptor = &document["descriptor"];
    assert_eq!(descriptor["version"], "0.1.0", "{document}");
    assert_eq!(descriptor["input_schema"], json!(null), "{document}");
    let policy = &document["policy"];
    assert_eq!(policy["requested"], json!(["fs:ro:*=/data", "env:LANG"]));
    assert_eq!(policy["effective"], json!(["fs:ro:*=/data"]));
    assert_eq!(policy["missing"], json!(["env:LANG"]));
    assert_eq!(
        policy["granted"],
        json!([{ "capability": "fs:ro:*=/data", "source": "skill" }])
    );
    let limits = &document["limits"];
    assert_eq!(
        limits["wall_time_ms"],
        json!({ "value": 1234, "source": "manifest" })
    );
    assert_eq!(
        limits["memory_bytes"],
        json!({ "value": 100_000_000, "source": "config" })
    );
    assert_eq!(limits["fuel"]["source"], "default");
}

#[test]
fn a_component_that_cannot_be_loaded_is_shown_with_that() {
    let home = Home::new(&[GREET]);
    // A component by its first bytes, and nothing that an engine can run.
    fs::write(home.skill("greet").join("skill.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    let daemon = Daemon::start(&home);
    let document = eventually("the skill", || {
        let answer = daemon.get("/api/skills/greet");
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(document["failure"]["code"], "load_error", "{document}");
    assert!(!document.to_string().contains(home.path().to_str().unwrap()));
}
