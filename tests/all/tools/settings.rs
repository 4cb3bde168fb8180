//! `[mcp_servers]` as `skillrun config` shows and tries it.

use crate::harness::Home;

const CONFIG: &str = r#"
[secrets.K]
env = "SKILLRUN_TEST_K"
url = "http://127.0.0.1:1/mcp"
header = "x-key"

[mcp_servers.one]
command = ["no-such-program-of-ours", "--stdio"]
env = { TOKEN = "hunter2-hidden" }
pass_env = ["SKILLRUN_TEST_NOT_SET"]
dir = "/no/such/folder"
tools = ["get_*"]
effects = { get_a = "read" }

[mcp_servers.two]
url = "http://127.0.0.1:1/mcp?key=hunter2-hidden"
secret = "K"
timeout_ms = 5
"#;

#[test]
fn servers_are_shown_without_what_is_hidden() {
    let home = Home::new(&[]);
    home.configure(CONFIG);
    let ran = home.skillrun(&["config", "show"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for part in [
        "mcp_servers.one.command",
        "no-such-program-of-ours",
        "mcp_servers.one.env",
        "TOKEN",
        "mcp_servers.one.tools",
        "get_*",
        "mcp_servers.one.effects.get_a",
        "mcp_servers.two.url",
        "mcp_servers.two.secret",
        "mcp_servers.two.timeout_ms",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    let json = home.skillrun(&["config", "show", "--json"]);
    assert!(!json.stdout.contains("hunter2"), "{}", json.stdout);
}

#[test]
fn what_cannot_be_started_is_found() {
    let home = Home::new(&[]);
    home.configure(CONFIG);
    let ran = home.skillrun(&["config", "check", "--json"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let found = ran.json()["findings"].to_string();
    for part in [
        "mcp_servers.one.command",
        "mcp_servers.one.dir",
        "mcp_servers.one.pass_env",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

#[test]
fn a_bad_value_stops_the_command_with_its_line() {
    let home = Home::new(&[]);
    home.configure("\n[mcp_servers.a]\ncommand = [\"x\"]\ntimeout_ms = 0\n");
    let ran = home.skillrun(&["config", "show"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    let expected = "line 4: mcp_servers.a.timeout_ms: expected 1 to 3600000";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert!(ran.stderr.contains("config.toml"), "{}", ran.stderr);
}
