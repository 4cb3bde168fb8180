//! The wasm32-wasip2 target, which every guest is built for.

use std::process::Command;

use anyhow::Result;

use crate::process::{root, run};

/// Makes sure that cargo can build for it. The script tries what is cheapest first and says what it
/// does; how, stands at its head.
pub(crate) fn ensure() -> Result<()> {
    run(Command::new("bash").arg(root().join("xtask/install-wasip2.sh")))
}
