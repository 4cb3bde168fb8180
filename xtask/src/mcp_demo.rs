//! The part of the demo for assistants: the skill as a tool of an MCP client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::demo::{SKILL, skillrun};
use crate::process::say;

/// What a client sends: who it is, and a call of the tool.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Calls the skill in `home` as a client of MCP does that starts its servers.
pub(crate) fn show(home: &Path) -> Result<()> {
    say("\n== The same skill as a tool of an MCP client, on standard input and output")?;
    say("$ skillrun mcp")?;
    let mut server = skillrun(home)
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start skillrun mcp")?;
    let mut input = server.stdin.take().context("skillrun takes nothing")?;
    let output = server.stdout.take().context("skillrun says nothing")?;
    let mut lines = BufReader::new(output).lines();
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{SKILL}","arguments":{{"name":"Alan"}}}}}}"#
    );
    let mut answer = String::new();
    for message in [INITIALIZE, INITIALIZED, &call] {
        say(&format!("--> {message}"))?;
        writeln!(input, "{message}").context("the server takes nothing")?;
        if message != INITIALIZED {
            answer = lines.next().context("the server ended")??;
            say(&format!("<-- {answer}"))?;
        }
    }
    ensure!(answer.contains("Alan"), "the tool did not answer");
    drop(input);
    let ended = server.wait().context("cannot wait for the server")?;
    ensure!(ended.success(), "the server ended as {ended}");
    Ok(())
}
