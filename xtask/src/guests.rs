//! The skills of `guest-skills`, a workspace of its own because it is built for another target.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::{self, run, target_folder};

/// The workspace's manifest, as seen from the checkout.
pub(crate) const MANIFEST: &str = "guest-skills/Cargo.toml";

const TARGET: &str = "wasm32-wasip2";

/// Guests that export their functions on every target, and so are built for theirs alone.
const WASM_ONLY: [&str; 5] = ["bindings-check", "calc", "command", "probe", "probe-agent"];

/// A cargo command on the guests. They have a target folder of their own, so that they can be built
/// while cargo holds the lock on the host's. It runs in their folder, where their linker's flags are
/// set; flags meant for the host's linker would break theirs.
pub(crate) fn cargo(subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = process::cargo(&[subcommand, "--release", "--locked"]);
    command
        .current_dir(process::root().join("guest-skills"))
        .args(["--target", TARGET, "--target-dir"])
        .arg(target_folder().join("guests"))
        .args(arguments)
        .env_remove("RUSTFLAGS");
    command
}

/// A cargo command on the SDK and the skills that are written with it, for the machine that tests them: the
/// SDK's mock is their host there.
pub(crate) fn native_cargo(subcommand: &str) -> Command {
    let mut command = process::cargo(&[subcommand, "--locked", "--workspace"]);
    command
        .current_dir(process::root().join("guest-skills"))
        .args(["--features", "skillrun-sdk/mock", "--target-dir"])
        .arg(target_folder().join("guests"))
        .env_remove("RUSTFLAGS");
    for package in WASM_ONLY {
        command.args(["--exclude", package]);
    }
    command
}

/// Builds one guest and answers where its component is.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    run(&mut cargo("build", &["--package", name]))?;
    let folder = target_folder().join("guests").join(TARGET).join("release");
    // A library's file is named after its module; no program here has a hyphen in its name.
    Ok(folder.join(format!("{}.wasm", name.replace('-', "_"))))
}
