//! What the kit refuses, and that nothing half made is left behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Desk, write};
use crate::harness::Ran;

#[track_caller]
fn refused(ran: &Ran, exit: i32, parts: &[&str]) {
    assert_eq!(ran.exit, Some(exit), "{ran:?}");
    for part in parts {
        assert!(ran.stderr.contains(part), "{part:?}: {ran:?}");
    }
}

#[test]
fn a_name_that_is_none_or_taken_is_refused() {
    let desk = Desk::new();
    for name in ["", "-a", "Words", "a--b", "a/b", "..", &"a".repeat(65)] {
        let ran = desk.run(&["new", "--lang", "py", "--", name]);
        refused(&ran, 2, &["malformed skill name"]);
    }
    refused(
        &desk.run(&["new", "a", "--lang", "go"]),
        2,
        &["rust, ts, py"],
    );
    refused(
        &desk.run(&["new", "result", "--lang", "rust"]),
        2,
        &["Result"],
    );
    desk.succeed(&["new", "taken", "--lang", "py", "--dir", "made/here"]);
    let again = desk.run(&["new", "taken", "--lang", "ts", "--dir", "made/here"]);
    refused(&again, 2, &["made/here/taken exists already"]);
    assert!(!desk.path().join("made/here/taken/package.json").exists());
    write(&desk.path().join("file"), "");
    refused(
        &desk.run(&["new", "file", "--lang", "py"]),
        2,
        &["./file exists already"],
    );
    let below_a_file = desk.run(&["new", "a", "--lang", "py", "--dir", "file"]);
    refused(&below_a_file, 1, &["cannot make file/a"]);
    let mut names: Vec<_> = fs::read_dir(desk.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["file", "made"]);
}

#[test]
fn a_project_without_a_language_or_a_name_is_not_built() {
    let desk = Desk::new();
    refused(&desk.run(&["build", "gone"]), 5, &["no such folder: gone"]);
    refused(
        &desk.run(&["build"]),
        1,
        &["SKILL.md is missing", "skillrun new makes one"],
    );
    write(&desk.path().join("SKILL.md"), "no front matter");
    refused(&desk.run(&["build"]), 1, &["no valid front matter"]);
    let head = "---\nname: a\ndescription: b\n---\n";
    write(&desk.path().join("SKILL.md"), head);
    refused(
        &desk.run(&["build"]),
        2,
        &[
            "cannot tell the language",
            "Cargo.toml, src/main.ts, app.py",
        ],
    );
    write(&desk.path().join("app.py"), "");
    refused(
        &desk.run(&["build"]),
        1,
        &["vendor/sdk-py/build.sh is missing"],
    );
    assert!(!desk.path().join("dist").exists());
}

/// Runs a build that finds only these programs.
#[track_caller]
fn build_with(desk: &Desk, project: &str, programs: &[(&str, &str)]) -> Ran {
    let bin = desk.path().join("bin");
    let _old = fs::remove_dir_all(&bin);
    fs::create_dir(&bin).unwrap();
    for (name, script) in programs {
        let text = desk.path().join("program");
        write(&text, &format!("#!/bin/sh\n{script}\n"));
        // Another process writes it: one that a test beside this one is about to start may have been born with each
        // file that is open here, and what is open for writing cannot be run.
        let mut install = Command::new("install");
        let installed = install.args(["-m", "755"]).args([text, bin.join(name)]);
        assert!(installed.status().unwrap().success());
    }
    let mut build = desk.command(&["build", project]);
    build.env("PATH", &bin).env_remove("SKILLRUN_TOOLS");
    Ran::of(build.output().unwrap())
}

#[test]
fn a_tool_that_is_missing_too_old_or_fails_is_told() {
    let desk = Desk::new();
    for lang in ["rust", "ts", "py"] {
        desk.succeed(&["new", lang, "--lang", lang]);
    }
    let none: &[(&str, &str)] = &[];
    for (project, programs, parts) in [
        (
            "rust",
            none,
            &["cargo is missing", "https://rustup.rs", "rustup target add"][..],
        ),
        (
            "rust",
            &[(
                "cargo",
                "echo \"error[E0463]: can't find crate for \\`core\\`\" >&2; exit 101",
            )],
            &[
                "cargo failed",
                "E0463",
                "hint: rustup target add wasm32-wasip2",
            ],
        ),
        (
            "rust",
            &[("cargo", "exit 0")],
            &["cargo made 0 components", "cdylib"],
        ),
        ("ts", none, &["node is missing", "Node.js 20"]),
        (
            "ts",
            &[("node", "echo v18.1.0")],
            &["node v18.1.0 is too old", "20 or newer"],
        ),
        (
            "ts",
            &[("node", "echo v20.1.0")],
            &["npm is missing", "Node.js 20"],
        ),
        (
            "ts",
            &[("node", "echo v20.1.0"), ("npm", "echo $@ >&2; exit 7")],
            &["npm failed", "ci --ignore-scripts"],
        ),
        ("py", none, &["python3 is missing", "venv"]),
        (
            "py",
            &[("python3", "echo no ensurepip; exit 1")],
            &["no ensurepip", "python3-venv"],
        ),
        ("py", &[("componentize-py", "exit 0")], &["bash is missing"]),
    ] {
        let ran = build_with(&desk, project, programs);
        refused(&ran, 1, parts);
        assert!(
            !desk.path().join(project).join("dist").exists(),
            "{project}"
        );
    }
}

#[test]
fn a_source_that_is_wrong_is_shown_with_what_the_tool_says() {
    let desk = Desk::new();
    desk.succeed(&["new", "broken", "--lang", "ts"]);
    let source = desk.path().join("broken/src/main.ts");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("first.word }", "first.wrd }")).unwrap();
    let ran = desk.run(&["build", "broken"]);
    refused(&ran, 1, &["build.sh failed", "src/main.ts(", "wrd"]);
    let ran = desk.run(&["build", "broken", "--json"]);
    assert_eq!(ran.json()["code"], "build", "{ran:?}");
}

#[test]
fn what_is_no_valid_skill_takes_the_place_of_none() {
    let desk = Desk::new();
    desk.succeed(&["new", "words", "--lang", "ts"]);
    desk.succeed(&["build", "words"]);
    let project = desk.path().join("words");
    let component = project.join("dist/words/skill.wasm");
    let before = fs::metadata(&component).unwrap().modified().unwrap();

    let manifest = project.join("skill.toml");
    write(&manifest, "[schemas]\ninput = \"schemas/gone.json\"\n");
    refused(
        &desk.run(&["build", "words"]),
        1,
        &["schemas/gone.json is missing"],
    );
    write(&manifest, "[limit]\n");
    refused(
        &desk.run(&["build", "words"]),
        1,
        &["not a valid skill", "words/skill.toml:1:2", "limit"],
    );
    assert_eq!(
        fs::metadata(&component).unwrap().modified().unwrap(),
        before
    );

    write(&manifest, "[schemas]\ninput = \"schemas/input.json\"\n");
    write(&project.join("schemas/input.json"), "{}");
    write(&project.join("references/a/b.md"), "b");
    write(&project.join("references/.hidden"), "h");
    desk.succeed(&["build", "words"]);
    let dist = project.join("dist/words");
    assert!(dist.join("schemas/input.json").exists() && dist.join("references/a/b.md").exists());
    assert!(!dist.join("references/.hidden").exists());
}

#[test]
fn cases_that_are_none_are_refused_before_anything_is_built() {
    let desk = Desk::new();
    desk.succeed(&["new", "words", "--lang", "py"]);
    let tests = desk.path().join("words/tests");
    let test = |more: &[&str]| desk.run(&[&["test", "words"], more].concat());
    write(
        &tests.join("typo.json"),
        "{\n  \"input\": {},\n  \"expects\": {}\n}\n",
    );
    refused(
        &test(&[]),
        2,
        &["tests/typo.json:3:11: unknown field `expects`", "`expect`"],
    );
    fs::remove_file(tests.join("typo.json")).unwrap();
    refused(
        &test(&["--filter", "nothing"]),
        5,
        &["no case has \"nothing\""],
    );
    refused(
        &test(&["--no-build"]),
        5,
        &["dist/words is not there", "skillrun build"],
    );
    fs::remove_dir_all(&tests).unwrap();
    refused(&test(&[]), 2, &["has 0 files that end in .json"]);
    assert!(!Path::new(&desk.path().join("words/dist")).exists());
}
