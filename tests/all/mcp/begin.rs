//! What whoever starts the server is told, which is never on standard output.

use std::fs;

use serde_json::json;
use skillrun_test_artifacts::GREET;

use super::peer::write_prompt;
use crate::api::daemon::Daemon;
use crate::harness::Home;

#[test]
fn a_home_without_skills_is_said_to_have_none() {
    let home = Home::new(&[]);
    let ran = home.skillrun(&["mcp"]);
    let expected = format!("no skills that can be run in {}\n", home.path().display());
    assert_eq!((ran.exit, &*ran.stdout), (Some(0), ""));
    assert_eq!(ran.stderr, expected);
}

#[test]
fn a_skill_that_cannot_be_used_is_told_of() {
    let home = Home::new(&[GREET]);
    write_prompt(&home, "bad", "text", "[mcp]\nas = \"nothing\"\n");
    let request = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": { "_meta": super::requests::meta() },
    });
    let line = format!("{request}\n");
    let ran = home.skillrun_with_stdin(&["mcp"], line.as_bytes());
    assert!(
        ran.stderr.contains("mcp.as is \\\"nothing\\\""),
        "{}",
        ran.stderr
    );
    // The other skills are there, and nothing but the answer is on standard output.
    assert_eq!(ran.json()["result"]["tools"][0]["name"], "greet");
}

#[test]
fn a_daemon_without_the_server_says_how_to_have_it() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let answer = daemon.post("/mcp", &json!({}));
    assert_eq!((answer.status, &*answer.problem()), (404, "not_found"));
    let hint = answer.json()["hint"].to_string();
    assert!(hint.contains("skillrun serve --mcp"), "{hint}");
}

#[test]
fn a_home_that_is_no_folder_is_an_error() {
    let home = Home::new(&[]);
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let ran = home.skillrun(&["--home", file.to_str().unwrap(), "mcp"]);
    assert_eq!(ran.stdout, "");
    assert_ne!(ran.exit, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("file"), "{}", ran.stderr);
}
