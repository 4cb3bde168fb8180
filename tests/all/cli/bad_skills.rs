//! A skill that cannot be run says why, and a run of it is on record all the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Files, Refusal, skill_md, write_skill};
use crate::harness::Home;

const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn an_unknown_skill_is_a_failed_run_and_the_nearest_name_is_told() {
    let home = Home::new(&[GREET]);
    for (name, hint) in [
        ("gret", "there is a skill \"greet\""),
        ("Greet", "there is a skill \"greet\""),
        ("something-else", "skillrun skills list"),
    ] {
        Refusal::new(&["run", name], 5, "not_found")
            .says(&["unknown skill", name])
            .hints(hint)
            .recorded()
            .check(&home);
    }
}

#[test]
fn what_is_not_there_is_said_without_a_run() {
    let home = Home::new(&[GREET]);
    for (arguments, says, hint) in [
        (&["run", "./nowhere/skill.wasm"][..], "nowhere", ""),
        (&["run", "nowhere.wasm"], "nowhere.wasm", ""),
        (&["run", ""], "expected the name of a skill", ""),
        (&["skills", "inspect", "gret"], "\"gret\"", "\"greet\""),
        (&["skills", "validate", "gret"], "gret", "skills list"),
        (
            &["runs", "inspect", "run_0190a0a0a0a07000800000000000ffff"],
            "ffff",
            "runs list",
        ),
        (
            &["runs", "tail", "run_0190a0a0a0a07000800000000000ffff"],
            "ffff",
            "runs list",
        ),
        (
            &["runs", "verify", "run_0190a0a0a0a07000800000000000ffff"],
            "ffff",
            "runs list",
        ),
        (&["runs", "verify", "run_1"], "\"run_1\"", "run_ and 32"),
    ] {
        Refusal::new(arguments, 5, "not_found")
            .says(&[says])
            .hints(hint)
            .check(&home);
    }
    assert!(home.run_ids().is_empty());
}

/// One skill for everything that can be wrong with its files; the name of the folder says what.
fn home_of_broken_skills() -> Home {
    let home = Home::new(&[GREET]);
    let broken = [
        ("text", b"hello".as_slice()),
        ("module", CORE_MODULE),
        ("empty", b""),
        ("cut", b"\0asm"),
        ("garbage", b"\0asm\x0d\0\x01\0garbage"),
    ];
    for (name, wasm) in broken {
        let manual = skill_md(name);
        write_skill(
            &home,
            name,
            &[("SKILL.md", manual.as_bytes()), ("skill.wasm", wasm)],
        );
    }
    let files: [(&str, &Files); 5] = [
        (
            "codeless",
            &[
                ("SKILL.md", b"---\nname: codeless\ndescription: d\n---\n"),
                ("skill.toml", b"[component]\nflavor = \"rust\"\n"),
            ],
        ),
        ("headless", &[("SKILL.md", b"Just text.\n")]),
        (
            "endless",
            &[("SKILL.md", b"---\nname: endless\ndescription: d\n")],
        ),
        (
            "yaml",
            &[("SKILL.md", b"---\nname: yaml\ndescription: [a, b\n---\n")],
        ),
        (
            "misnamed",
            &[("SKILL.md", b"---\nname: other\ndescription: d\n---\n")],
        ),
    ];
    for (name, files) in files {
        write_skill(&home, name, files);
    }
    write_skill(&home, "bare", &[]);
    symlink("/nowhere", home.skill("dangling")).unwrap();
    home
}

/// What is said of each, with line and column where there is a line.
const BROKEN: [(&str, &[&str]); 12] = [
    ("text", &["skill.wasm", "found text"]),
    ("module", &["skill.wasm", "core module"]),
    ("empty", &["skill.wasm", "empty file"]),
    ("cut", &["skill.wasm", "not a WebAssembly component"]),
    ("garbage", &["skill.wasm", "damaged component at byte"]),
    ("codeless", &["skill.wasm: no such file", "[component]"]),
    ("headless", &["SKILL.md:1:1", "no front matter"]),
    ("endless", &["SKILL.md:1:1", "front matter without end"]),
    ("yaml", &["SKILL.md:4:1", "malformed YAML"]),
    ("misnamed", &["SKILL.md:2:7", "\"other\"", "\"misnamed\""]),
    ("bare", &["SKILL.md", "no such file"]),
    ("dangling", &["dangling", "cannot be read"]),
];

#[test]
fn a_broken_skill_is_a_failed_run() {
    let home = home_of_broken_skills();
    for (name, says) in BROKEN {
        Refusal::new(&["run", name], 1, "load_error")
            .says(says)
            .hints(format!("skillrun skills validate {name}"))
            .recorded()
            .check(&home);
    }
}

#[test]
fn validate_shows_what_is_wrong_and_where() {
    let home = home_of_broken_skills();
    for (name, says) in BROKEN {
        let ran = home.skillrun(&["skills", "validate", name]);
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        assert!(ran.stdout.starts_with("error: "), "{ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.ends_with("is not valid\n"));
        for part in says {
            assert!(ran.stdout.contains(part), "{part:?}: {ran:?}");
        }
        let ran = home.skillrun(&["--json", "skills", "validate", name]);
        let document = super::one_document(&ran);
        assert_eq!((ran.exit, &document["valid"]), (Some(1), &json!(false)));
        let finding = &document["findings"][0];
        assert_eq!(finding["severity"], "error");
        if let Some((_, place)) = says[0].split_once(".md:") {
            let found = format!("{}:{}", finding["line"], finding["column"]);
            assert_eq!(found, place, "{name}");
        }
    }
    let ran = home.skillrun(&["skills", "validate", "greet"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_broken_skill_does_not_hide_the_others() {
    let home = home_of_broken_skills();
    fs::write(home.path().join("skills/README"), "no skill").unwrap();
    let ran = home.skillrun(&["skills", "list"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let listed: Vec<&str> = ran.stdout.lines().collect();
    assert!(listed[0].starts_with("NAME") && listed[1].starts_with("greet "));
    assert_eq!(listed.len(), 2, "{ran:?}");
    let complaints = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "));
    assert_eq!(complaints.count(), BROKEN.len(), "{ran:?}");

    let ran = home.skillrun(&["--json", "skills", "list"]);
    let document = super::one_document(&ran);
    assert_eq!(document["skills"][0]["name"], "greet");
    let refused = document["refused"].as_array().unwrap();
    assert_eq!(refused.len(), BROKEN.len());
    let (hello, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{hello}");
}

#[test]
fn a_skills_folder_that_is_a_file_is_named() {
    let home = Home::new(&[]);
    fs::write(home.path().join("skills"), "a file").unwrap();
    let ran = home.skillrun(&["skills", "list"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
    assert!(
        ran.stderr
            .contains("skills: cannot be read: Not a directory")
    );
}

/// A path is what it is: it is refused before there is a run.
#[test]
fn a_path_that_is_no_skill_is_refused() {
    let home = home_of_broken_skills();
    for (name, says) in [("text", "found text"), ("module", "core module")] {
        let path = home.skill(name).join("skill.wasm").display().to_string();
        Refusal::new(&["run", &path], 1, "load_error")
            .says(&[says])
            .hints("skillrun skills validate /")
            .check(&home);
    }
    assert!(home.run_ids().is_empty());
}

/// The probe with every `from` in it replaced by as long a text, as a tool of another version would
/// have written it.
fn altered_probe(home: &Home, file: &str, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(PROBE.wasm).unwrap();
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter_map(|(at, window)| (window == from.as_bytes()).then_some(at))
        .collect();
    assert!(!places.is_empty(), "{from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let path = home.path().join(file);
    fs::write(&path, bytes).unwrap();
    path
}

/// Case C18.
#[test]
fn a_component_for_another_host_is_told_what_it_wants_and_what_there_is() {
    let home = Home::new(&[]);
    let empty = home.path().join("nothing.wasm");
    fs::write(&empty, EMPTY_COMPONENT).unwrap();
    let altered = |file, from, to| altered_probe(&home, file, from, to);
    let run = "skillrun:skill/run@0.1.0";
    let handler = "skillrun:skill/handler@0.1.0";
    for (path, says) in [
        (
            altered("newer.wasm", run, "skillrun:skill/run@0.9.0"),
            ["imports skillrun:skill/run@0.9.0", "has version 0.1.0"],
        ),
        (
            altered("export.wasm", handler, "skillrun:skill/handler@0.2.0"),
            ["exports skillrun:skill/handler@0.2.0", "has version 0.1.0"],
        ),
        (
            altered("foreign.wasm", "wasi:cli/", "acme:cli/"),
            ["imports acme:cli/", "this host does not have"],
        ),
        (empty, ["exports no skillrun:skill/handler@0.1.0", "none"]),
    ] {
        let path = path.display().to_string();
        Refusal::new(&["run", &path], 1, "load_error")
            .says(&says)
            .recorded()
            .check(&home);
    }
}

#[test]
fn a_skill_of_prose_cannot_be_run() {
    let home = Home::new(&[]);
    let manual = skill_md("prose");
    write_skill(&home, "prose", &[("SKILL.md", manual.as_bytes())]);
    Refusal::new(&["run", "prose"], 1, "load_error")
        .says(&["prompt-only"])
        .recorded()
        .check(&home);
    let ran = home.skillrun(&["skills", "inspect", "prose"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

/// Only the engine can tell that a component is no skill, so a validation asks it.
#[test]
fn a_component_that_is_no_skill_is_not_valid() {
    let home = Home::new(&[GREET]);
    let wasm = home.skill("greet").join("skill.wasm");
    fs::write(&wasm, wat::parse_str("(component)").unwrap()).unwrap();
    let path = wasm.to_str().unwrap();
    for argument in ["greet", path] {
        let ran = home.skillrun(&["skills", "validate", argument, "--json"]);
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        let document = ran.json();
        assert_eq!(document["valid"], false);
        let problem = document["findings"][0]["problem"].as_str().unwrap();
        assert!(
            problem.contains("exports no skillrun:skill/handler"),
            "{problem}"
        );
    }
}
