//! The messages of clients of both eras.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Which revision a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Sessions,
    Stateless,
}

impl Era {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Sessions => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

/// The first message of a session, and the second.
pub(crate) fn beginning() -> [Value; 2] {
    let params = json!({
        "protocolVersion": Era::Sessions.version(),
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "0" },
    });
    [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ]
}

/// The name of the tool that is called.
pub(crate) const TOOL: &str = "greet";

pub(crate) fn call(era: Era, id: usize) -> Value {
    let mut params = json!({ "name": TOOL, "arguments": { "name": "Ada" } });
    if era == Era::Stateless {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": era.version(),
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// Refuses what does not say that somebody was greeted.
pub(crate) fn greeted(answer: &[u8]) -> Result<()> {
    let expected = b"\"structuredContent\"";
    let is_there = answer.windows(expected.len()).any(|part| part == expected);
    ensure!(is_there, "no greeting: {}", String::from_utf8_lossy(answer));
    Ok(())
}
