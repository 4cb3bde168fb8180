//! From nothing to a skill that runs, in each language.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{Desk, cargo_target};

/// What is left of a case's verdict when time is taken away.
fn names(verdicts: &[Value]) -> Vec<(&str, &str, bool)> {
    verdicts
        .iter()
        .map(|verdict| {
            (
                verdict["case"].as_str().unwrap(),
                verdict["code"].as_str().unwrap(),
                verdict["passed"] == true,
            )
        })
        .collect()
}

/// Makes a project, tests and builds it, runs and installs what came out.
fn from_new_to_run(lang: &str) -> Desk {
    let desk = Desk::new();
    let made = desk.succeed(&["new", "my-words", "--lang", lang]);
    assert_eq!(made.stdout, "./my-words\n");
    let project = desk.path().join("my-words");
    let manifest = fs::read_to_string(project.join("skill.toml")).unwrap();
    assert!(
        manifest.contains(&format!("flavor = \"{lang}\"\n")),
        "{manifest}"
    );

    let verdicts = desk.verdicts(&["my-words"]);
    assert_eq!(
        names(&verdicts),
        [
            ("counts the words, and defines the first", "ok", true),
            ("refuses a text without words", "skill_error", true),
            ("refuses an input without a text", "invalid_input", true),
            ("does without a dictionary that fails", "ok", true),
        ],
        "{verdicts:?}"
    );

    let built = desk.succeed(&["build", "my-words", "--json"]).json();
    let dist = project.join("dist/my-words");
    assert_eq!(built["name"], "my-words");
    assert_eq!(
        built["folder"],
        dist.canonicalize().unwrap().to_str().unwrap()
    );
    let component = fs::read(dist.join("skill.wasm")).unwrap();
    assert_eq!(built["component_bytes"], component.len());
    let digest = skillrun::ledger::Digest::of(&component).to_string();
    assert_eq!(built["component_digest"], digest);
    let mut files: Vec<_> = fs::read_dir(&dist)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["SKILL.md", "skill.toml", "skill.wasm"]);
    let left: Vec<_> = fs::read_dir(project.join("dist"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["my-words"]);

    // Nothing is granted, and the skill is of use nevertheless.
    let input = r#"{"text":"to be or not to be","top":1}"#;
    let expected = json!({ "words": [{ "word": "be", "count": 2 }], "definition": null });
    let ran = desk.succeed(&["run", "my-words/dist/my-words", "--input", input, "--json"]);
    assert_eq!(ran.json()["output"], expected);
    desk.succeed(&["skills", "validate", "my-words/dist/my-words"]);
    desk.succeed(&["skills", "install", "my-words/dist/my-words"]);
    let ran = desk.succeed(&["run", "my-words", "--input", input, "--json"]);
    assert_eq!(ran.json()["output"], expected);
    desk
}

#[test]
fn a_skill_in_rust_goes_from_new_to_run() {
    let desk = from_new_to_run("rust");
    let project = desk.path().join("my-words");
    let tested = Command::new("cargo")
        .args(["test", "--offline", "--quiet"])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", cargo_target())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tested.stdout).into_owned();
    assert!(
        tested.status.success() && said.contains("3 passed"),
        "{said}{}",
        String::from_utf8_lossy(&tested.stderr)
    );
    // A test after a change tests what was changed.
    let source = project.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("has no words", "is wordless")).unwrap();
    let failed = desk.verdicts(&["my-words", "--filter", "without words"]);
    assert_eq!(
        failed[0]["problems"],
        json!(["error: expected one with \"no words\", got \"the text is wordless\""])
    );
}

#[test]
fn a_skill_in_typescript_goes_from_new_to_run() {
    let desk = from_new_to_run("ts");
    changes_are_tested(&desk);
}

/// What the sources export says which of both it is.
#[test]
fn an_agent_in_typescript_is_built_and_talked_with() {
    let desk = Desk::new();
    desk.succeed(&["new", "counter", "--lang", "ts"]);
    let agent = r#"
        import { agent, session } from "skillrun-sdk";
        export const sessionHandler = agent({
          name: "counter",
          version: "1.0.0",
          description: "Counts prompts",
          start() {
            let prompts = 0;
            return { prompt: () => session.emitText(`${++prompts}`) };
          },
        });
    "#;
    fs::write(desk.path().join("counter/src/main.ts"), agent).unwrap();
    desk.succeed(&["build", "counter"]);
    let words = ["agent", "chat", "counter/dist/counter", "--prior-session"];
    let ran = desk.succeed(&words[..3]);
    let (_, rest) = ran.stderr.split_once("--prior-session ").unwrap();
    let run_id = rest.split_whitespace().next().unwrap();
    let ran = desk.succeed(&[&words[..], &[run_id, "--json"]].concat());
    assert!(ran.stdout.contains("boot_ready"), "{ran:?}");
}

#[test]
fn a_skill_in_python_goes_from_new_to_run() {
    from_new_to_run("py");
}

/// What did not change is not built again, and what did is, unless that is asked for.
fn changes_are_tested(desk: &Desk) {
    let project = desk.path().join("my-words");
    let component = project.join("dist/my-words/skill.wasm");
    let made = || fs::metadata(&component).unwrap().modified().unwrap();
    let before = made();
    desk.verdicts(&["my-words"]);
    assert_eq!(made(), before);

    let source = project.join("src/main.ts");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("has no words", "is wordless")).unwrap();
    let filter = ["my-words", "--filter", "without words"];
    let untouched = desk.verdicts(&[&filter[..], &["--no-build"]].concat());
    assert_eq!(untouched[0]["passed"], true);
    let failed = desk.verdicts(&filter);
    assert_eq!(
        failed[0]["problems"],
        json!(["error: expected one with \"no words\", got \"the text is wordless\""])
    );
    assert_ne!(made(), before);
}
