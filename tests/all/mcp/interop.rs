//! Clients that others made: of the official Python package and of FastMCP, and the command line of the inspector.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use skillrun_test_artifacts::GREET;

use super::fixtures;
use super::peer::daemon;
use super::suite::{NODE, toolchain};
use crate::api::daemon::Daemon;
use crate::harness::{Home, Ran};
use crate::tools::python;

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/mcp/clients/sdk.py");
const FAST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/mcp/clients/fast.py");
const INSPECTOR: &str = "@modelcontextprotocol/inspector/cli/build/cli.js";

/// What every client sees to hold.
const CHECKS: [&str; 9] = [
    "lists",
    "structured",
    "mixed",
    "reads",
    "reports",
    "logs",
    "questions",
    "errors",
    "cancellation",
];

/// All fixtures, and a skill whose result is an object.
fn home() -> Home {
    let home = fixtures::home();
    let folder = tempfile::tempdir().unwrap();
    let head = "---\nname: welcome\ndescription: Greets by name.\n---\n";
    fs::write(folder.path().join("SKILL.md"), head).unwrap();
    fs::write(
        folder.path().join("skill.toml"),
        "[component]\nworld = \"0.1\"\n",
    )
    .unwrap();
    home.install_as(&GREET, "welcome", folder.path());
    home
}

fn url(daemon: &Daemon) -> String {
    format!("http://{}/mcp", daemon.address)
}

/// The revisions that Python clients are told to speak, and those that they come to speak then.
const PYTHON_ERAS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("auto", "2026-07-28")];

/// Runs a script once for each revision, and asserts that it spoke that and saw everything, and what else there is to
/// see in the newer one.
#[track_caller]
fn python_sees_all(script: &str, way: &[OsString], newer: &[&str]) {
    for (era, revision) in PYTHON_ERAS {
        let mut command = Command::new(python());
        let output = command.arg(script).arg(era).args(way).output().unwrap();
        let ran = Ran::of(output);
        let mut expected = vec![revision];
        expected.extend(CHECKS);
        if era != "legacy" {
            expected.extend(newer);
        }
        let seen: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(seen, expected, "{}", ran.stderr);
        assert_eq!(ran.exit, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn the_python_package_is_a_client_on_stdio() {
    let home = home();
    let way = [env!("CARGO_BIN_EXE_skillrun").into(), home.path().into()];
    python_sees_all(SDK, &[&way[..], &["mcp".into()]].concat(), &[]);
}

#[test]
fn the_python_package_is_a_client_over_http() {
    let home = home();
    let daemon = daemon(&home);
    python_sees_all(SDK, &[url(&daemon).into()], &[]);
}

/// What most clients are configured by, with one server.
fn configured(home: &Home, server: &Value) -> PathBuf {
    let path = home.path().join("client.json");
    let servers = json!({ "mcpServers": { "skillrun": server } });
    fs::write(&path, servers.to_string()).unwrap();
    path
}

/// The server that a client starts.
fn started(home: &Home) -> Value {
    json!({
        "command": env!("CARGO_BIN_EXE_skillrun"),
        "args": ["--home", home.path(), "mcp"],
    })
}

const TOKEN: &str = "a-token-of-a-test";

/// A daemon that wants a token.
fn daemon_with_token(home: &Home) -> Daemon {
    fs::write(home.path().join("token"), TOKEN).unwrap();
    let serve = "[serve]\ntoken_file = \"token\"\n";
    home.configure(&format!("{}{serve}", fixtures::CONFIG));
    daemon(home)
}

#[test]
fn fastmcp_is_a_client_on_stdio() {
    let home = home();
    let config = configured(&home, &started(&home));
    python_sees_all(FAST, &[config.into()], &["skills"]);
}

#[test]
fn fastmcp_is_a_client_over_http_with_a_token() {
    let home = home();
    let daemon = daemon_with_token(&home);
    let headers = json!({ "Authorization": format!("Bearer {TOKEN}") });
    let server = json!({ "url": url(&daemon), "headers": headers });
    let config = configured(&home, &server);
    python_sees_all(FAST, &[config.into()], &["skills"]);
}

/// What the inspector's command line prints for one request.
#[track_caller]
fn inspected(way: &[&str], arguments: &[&str]) -> Value {
    let node = toolchain(NODE);
    // It starts processes of its own by the name `node`.
    let mut path = OsString::from(node.parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new(&node)
        .arg(toolchain(INSPECTOR))
        .arg("--cli")
        .args(way)
        .args(arguments)
        .env("PATH", path)
        .output()
        .unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.exit, Some(0), "{arguments:?}: {ran:?}");
    ran.json()
}

/// The names in a list.
fn names<'a>(listed: &'a Value, list: &str, key: &str) -> Vec<&'a str> {
    let items = listed[list].as_array().unwrap();
    items.iter().map(|it| it[key].as_str().unwrap()).collect()
}

/// Asks for everything that the inspector's command line can ask for.
#[track_caller]
fn the_inspector_sees_all(way: &[&str]) {
    let ask = |arguments: &[&str]| inspected(way, arguments);
    let listed = ask(&["--method", "tools/list"]);
    assert!(names(&listed, "tools", "name").contains(&"welcome"));
    let call = ["--method", "tools/call", "--tool-name", "welcome"];
    let called = ask(&[&call[..], &["--tool-arg", "name=Ada"]].concat());
    assert_eq!(
        called["structuredContent"]["greeting"], "Hello, Ada!",
        "{called}"
    );
    let run = called["content"][1]["uri"].as_str().unwrap();
    let read = ask(&["--method", "resources/read", "--uri", run]);
    assert_eq!(read["contents"][0]["uri"], run, "{read}");
    let unfit = ask(&call);
    assert_eq!(unfit["isError"], true, "{unfit}");

    let listed = ask(&["--method", "resources/list"]);
    assert!(names(&listed, "resources", "uri").contains(&"test://static-text"));
    let listed = ask(&["--method", "resources/templates/list"]);
    let template = &"skillrun://runs/{id}";
    assert!(names(&listed, "resourceTemplates", "uriTemplate").contains(template));
    let listed = ask(&["--method", "prompts/list"]);
    assert!(names(&listed, "prompts", "name").contains(&"test_simple_prompt"));
    let get = ["--method", "prompts/get", "--prompt-name"];
    let got = ask(&[&get[..], &["test_simple_prompt"]].concat());
    assert_eq!(got["messages"][0]["role"], "user", "{got}");
    ask(&["--method", "logging/setLevel", "--log-level", "info"]);
}

#[test]
fn the_inspector_is_a_client_on_stdio() {
    let home = home();
    let config = configured(&home, &started(&home));
    the_inspector_sees_all(&["--config", config.to_str().unwrap(), "--server", "skillrun"]);
}

#[test]
fn the_inspector_is_a_client_over_http_with_a_token() {
    let home = home();
    let daemon = daemon_with_token(&home);
    let header = format!("Authorization: Bearer {TOKEN}");
    the_inspector_sees_all(&[&url(&daemon), "--transport", "http", "--header", &header]);
}
