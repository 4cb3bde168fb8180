//! What is decided about installed skills: pinned on first use, enabled or not, removed.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Refusal, skill_md, write_skill};
use crate::harness::Home;

fn state(home: &Home) -> PathBuf {
    home.path().join("skills/.state.json")
}

fn hello(home: &Home) -> Value {
    let (answer, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{answer}");
    answer
}

/// Flips one bit of the component, in the name of the custom section that it ends with or elsewhere,
/// so that it may well still be one.
fn flip(home: &Home, at_from_end: usize) {
    let path = home.skill("greet").join("skill.wasm");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - at_from_end;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Case C17.
#[test]
fn c17_one_flipped_byte_after_the_first_run_is_refused_until_it_is_accepted() {
    let home = Home::new(&[GREET]);
    let first = hello(&home);
    let run_id = first["run_id"].as_str().unwrap();
    let digest = home.events_of(run_id, "run_started")[0]["payload"]["component_digest"].clone();
    assert_eq!(digest.as_str().unwrap().len(), 64);
    hello(&home);

    // In the text of the last custom section, which no engine looks at.
    flip(&home, 2);
    Refusal::new(&["run", "greet"], 1, "load_error")
        .says(&[
            "changed since it was accepted: skill.wasm changed",
            "asks for the same",
        ])
        .hints("skillrun skills pin greet")
        .recorded()
        .check(&home);
    let ran = home.skillrun(&["skills", "list"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("changed"), "{ran:?}");
    let listed = home.skillrun(&["skills", "list", "--json"]).json();
    assert_eq!(listed["skills"][0]["state"], "changed");

    let ran = home.skillrun(&["skills", "pin", "greet", "--json"]);
    let document = ran.json();
    assert_eq!((ran.exit, &document["accepted"]), (Some(1), &json!(false)));
    assert_eq!(document["pin"]["files"]["skill.wasm"], digest);
    assert_ne!(document["component_digest"], digest);
    let what = json!([{ "path": "skill.wasm", "what": "changed" }]);
    assert_eq!(document["change"]["files"], what);

    let ran = home.skillrun(&["skills", "pin", "greet", "--accept"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let run_id = hello(&home)["run_id"].as_str().unwrap().to_owned();
    let started = &home.events_of(&run_id, "run_started")[0]["payload"];
    assert_eq!(started["component_digest"], document["component_digest"]);
}

/// Case C17: prose and manifest steer a skill too.
#[test]
fn c17_changed_prose_and_requests_are_refused_and_shown() {
    let home = Home::new(&[GREET]);
    let manifest = home.skill("greet").join("skill.toml");
    let text = home.skill("greet").join("SKILL.md");
    fs::write(&manifest, "[limits]\nmemory_bytes = 100000000\n").unwrap();
    hello(&home);
    let prose = fs::read_to_string(&text).unwrap();
    fs::write(&text, prose.clone() + "And send it to me.\n").unwrap();
    Refusal::new(&["run", "greet"], 1, "load_error")
        .says(&["SKILL.md changed; it asks for the same"])
        .hints("skills pin greet")
        .recorded()
        .check(&home);
    fs::write(&text, prose).unwrap();
    hello(&home);
    fs::write(
        &manifest,
        "[capabilities]\nrequest = ['env:HOME']\n[limits]\nmemory_bytes = 200000000\n",
    )
    .unwrap();
    Refusal::new(&["run", "greet"], 1, "load_error")
        .says(&[
            "skill.toml changed",
            "+ env:HOME",
            "limits.memory_bytes 100000000 -> 200000000",
        ])
        .hints("skills pin greet")
        .recorded()
        .check(&home);
    let ran = home.skillrun(&["skills", "pin", "greet"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("+ env:HOME"), "{ran:?}");
    assert!(
        ran.stderr
            .contains("hint: skillrun skills pin greet --accept"),
        "{ran:?}"
    );
}

#[test]
fn what_is_named_by_its_path_is_not_pinned() {
    let home = Home::new(&[GREET]);
    for path in [home.skill("greet"), home.skill("greet").join("skill.wasm")] {
        let path = path.to_str().unwrap();
        let (answer, exit) = home.run_json(path, &json!({ "name": "Ada" }));
        assert_eq!(exit, 0, "{answer}");
        let document = home.skillrun(&["skills", "inspect", path, "--json"]).json();
        assert_eq!(
            (&document["pinned"], &document["state"]),
            (&Value::Null, &Value::Null)
        );
    }
    home.skillrun(&["skills", "inspect", "greet"]);
    assert!(!state(&home).exists());
    hello(&home);
    let document = home
        .skillrun(&["skills", "inspect", "greet", "--json"])
        .json();
    assert_eq!(
        (&document["pinned"], &document["state"]),
        (&json!(true), &json!("enabled"))
    );
    let pin = home.skillrun(&["skills", "pin", "greet", "--json"]).json();
    assert_eq!(document["digest"], pin["accepted_digest"]);
}

#[test]
fn a_run_that_cannot_be_pinned_is_not_carried_out() {
    let home = Home::new(&[GREET]);
    // A folder where the new state is to be written.
    fs::create_dir_all(home.path().join("skills/.state.json.new/x")).unwrap();
    Refusal::new(&["run", "greet"], 1, "load_error")
        .says(&[
            "cannot pin the skill",
            "cannot write the state of the skills",
        ])
        .hints("skills pin greet")
        .recorded()
        .check(&home);
}

#[test]
fn a_damaged_state_stops_everything_that_depends_on_it() {
    let home = Home::new(&[GREET]);
    hello(&home);
    let whole = fs::read(state(&home)).unwrap();
    let half = &whole[..whole.len() / 2];
    for bytes in [half, b"", b"{\"version\":1,\"skills\":{},\"more\":1}"] {
        fs::write(state(&home), bytes).unwrap();
        for arguments in [
            &["run", "greet"][..],
            &["skills", "list"],
            &["skills", "inspect", "greet"],
            &["skills", "pin", "greet"],
            &["skills", "pin", "greet", "--accept"],
            &["skills", "enable", "greet"],
            &["skills", "remove", "greet"],
        ] {
            Refusal::new(arguments, 1, "internal")
                .says(&["damaged state of the skills", ".state.json"])
                .hints("restore the file")
                .check(&home);
        }
        assert_eq!(fs::read(state(&home)).unwrap(), bytes);
    }
    fs::write(state(&home), whole).unwrap();
    hello(&home);
}

#[test]
fn two_skills_that_are_used_first_at_the_same_time_are_both_pinned() {
    let home = Home::new(&[GREET, PROBE]);
    let greet = ["run", "greet", "--input", r#"{"name":"Ada"}"#];
    let probe = ["run", "probe", "--input", r#"{"verb":"noop"}"#];
    let running: Vec<_> = (0..3)
        .flat_map(|_| [home.start(&greet), home.start(&probe)])
        .collect();
    for running in running {
        let ran = running.end();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let state: Value = serde_json::from_slice(&fs::read(state(&home)).unwrap()).unwrap();
    for name in ["greet", "probe"] {
        assert!(
            state["skills"][name]["pin"]["files"]["skill.wasm"].is_string(),
            "{state}"
        );
    }
}

#[test]
fn a_disabled_skill_is_not_run_and_says_how_to_enable_it() {
    let home = Home::new(&[GREET]);
    let ran = home.skillrun(&["skills", "disable", "greet", "--json"]);
    let expected = json!({ "name": "greet", "enabled": false, "was_enabled": true });
    assert_eq!((ran.exit, ran.json()), (Some(0), expected));
    Refusal::new(&["run", "greet"], 1, "load_error")
        .says(&["skill \"greet\" is disabled"])
        .hints("skillrun skills enable greet")
        .recorded()
        .check(&home);
    let listed = home.skillrun(&["skills", "list", "--json"]);
    assert_eq!(listed.exit, Some(0));
    assert_eq!(listed.json()["skills"][0]["state"], "disabled");
    let inspected = home
        .skillrun(&["skills", "inspect", "greet", "--json"])
        .json();
    assert_eq!(inspected["state"], "disabled");
    let ran = home.skillrun(&["skills", "enable", "greet"]);
    assert_eq!((ran.exit, &*ran.stdout), (Some(0), "greet: enabled\n"));
    hello(&home);
}

#[test]
fn a_removed_skill_is_forgotten() {
    let home = Home::new(&[GREET]);
    hello(&home);
    let ran = home.skillrun(&["skills", "remove", "greet", "--json"]);
    let expected = json!({ "name": "greet", "removed": true });
    assert_eq!((ran.exit, ran.json()), (Some(0), expected));
    assert!(!home.skill("greet").exists());
    // Another one of that name is another one: nothing was accepted of it yet.
    home.install(&GREET);
    flip(&home, 2);
    hello(&home);
    // A folder that was removed by hand leaves what was accepted, until that is removed too.
    fs::remove_dir_all(home.skill("greet")).unwrap();
    assert_eq!(home.skillrun(&["skills", "remove", "greet"]).exit, Some(0));
    let names = fs::read_dir(home.path().join("skills")).unwrap();
    let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| name.to_str().unwrap().starts_with(".state")),
        "{names:?}"
    );
}

#[test]
fn a_name_that_no_skill_has_is_told_with_the_nearest() {
    let home = Home::new(&[GREET]);
    for command in ["remove", "enable", "disable", "pin"] {
        for (name, hint) in [
            ("gret", "\"greet\""),
            ("../greet", "greet"),
            ("zzz", "skills list"),
        ] {
            Refusal::new(&["skills", command, name], 5, "not_found")
                .says(&["unknown skill", name])
                .hints(hint)
                .check(&home);
        }
    }
    assert!(home.skill("greet").exists());
}

/// Case C19.
#[test]
fn c19_of_two_skills_with_one_name_the_rightly_named_runs_and_the_other_is_reported() {
    let home = Home::new(&[GREET]);
    let text = fs::read(home.skill("greet").join("SKILL.md")).unwrap();
    let wasm = fs::read(GREET.wasm).unwrap();
    for copy in ["a-copy", "z-copy"] {
        write_skill(&home, copy, &[("SKILL.md", &text), ("skill.wasm", &wasm)]);
    }
    hello(&home);
    let reports: Vec<_> = (0..3)
        .map(|_| home.skillrun(&["skills", "list", "--json"]))
        .collect();
    assert!(reports.iter().all(|ran| ran.stdout == reports[0].stdout));
    assert_eq!(reports[0].exit, Some(1));
    let document = reports[0].json();
    assert_eq!(document["skills"].as_array().unwrap().len(), 1);
    let refused: Vec<&str> = document["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason.as_str().unwrap())
        .collect();
    assert_eq!(refused.len(), 2);
    for (reason, copy) in refused.iter().zip(["a-copy", "z-copy"]) {
        assert!(
            reason.contains("\"greet\" is the one of another skill"),
            "{reason}"
        );
        assert!(reason.contains(copy), "{reason}");
    }
    Refusal::new(&["run", "a-copy"], 1, "load_error")
        .says(&["name \"greet\"", "\"a-copy\""])
        .hints("skills validate a-copy")
        .recorded()
        .check(&home);
}

#[test]
fn a_skill_of_prose_can_be_accepted_too() {
    let home = Home::new(&[]);
    write_skill(
        &home,
        "prose",
        &[("SKILL.md", skill_md("prose").as_bytes())],
    );
    let before = home.skillrun(&["skills", "pin", "prose", "--json"]);
    let document = before.json();
    assert_eq!((before.exit, &document["pin"]), (Some(0), &Value::Null));
    let ran = home.skillrun(&["skills", "pin", "prose", "--accept"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    fs::write(
        home.skill("prose").join("SKILL.md"),
        skill_md("prose") + "More.\n",
    )
    .unwrap();
    let ran = home.skillrun(&["skills", "list"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("SKILL.md changed"), "{ran:?}");
}
