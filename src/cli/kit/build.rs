//! From the sources of a skill to its component.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use super::language::Language;
use super::toolchain::{self, Toolchain};
use crate::cli::exit::Refused;
use crate::cli::printer::Printer;

/// The target that skills in Rust are built for.
const TARGET: &str = "wasm32-wasip2";
/// A small stack below the data, where an overflow traps at once, and memory from the start that an
/// ordinary call never grows.
const RUST_FLAGS: &str = r#"target.wasm32-wasip2.rustflags = ["-Clink-arg=-zstack-size=262144", "-Clink-arg=--initial-memory=1048576"]"#;
/// The oldest Node.js that the tools for TypeScript accept.
const NODE_MAJOR_MIN: u32 = 20;
/// What a build leaves behind in the project beside `dist`.
pub(super) const WORK_FOLDER: &str = "target/skillrun";
const NODE_TOOLS: [&str; 4] = ["jco", "tsc", "esbuild", "componentize-qjs"];
const INSTALL_RUST: &str =
    "install Rust from https://rustup.rs, then: rustup target add wasm32-wasip2";
const INSTALL_NODE: &str = "install Node.js 20 or newer, which brings npm";
const INSTALL_PYTHON: &str =
    "install Python 3.10 or newer with venv (on Debian: apt-get install python3-venv)";
const INSTALL_BASH: &str = "install bash";

/// Builds the component of a project and gives its path.
///
/// # Errors
/// A tool is missing or fails, which the error tells.
pub(super) fn component(project: &Path, printer: Printer) -> anyhow::Result<PathBuf> {
    match Language::of(project)? {
        Language::Rust => rust(project),
        Language::Ts => {
            let own = project.join("node_modules/.bin");
            let tools = Toolchain::of(std::slice::from_ref(&own));
            check_node(&tools)?;
            if NODE_TOOLS.iter().any(|tool| tools.find(tool).is_none()) {
                printer.note("installing the tools of package.json into node_modules");
                install_node(project, &tools)?;
            }
            with_script(project, "vendor/sdk-ts/build.sh", &tools, &NODE_TOOLS)
        }
        Language::Py => {
            let tools = Toolchain::of(&[project.join(".venv/bin")]);
            if tools.find("componentize-py").is_none() {
                printer.note("installing the tools of requirements.txt into .venv");
                install_python(project, &tools)?;
            }
            with_script(
                project,
                "vendor/sdk-py/build.sh",
                &tools,
                &["componentize-py"],
            )
        }
    }
}

fn rust(project: &Path) -> anyhow::Result<PathBuf> {
    let tools = Toolchain::of(&[]);
    let mut cargo = tools.command("cargo", INSTALL_RUST)?;
    cargo
        .current_dir(project)
        .args(["build", "--release", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--config", RUST_FLAGS]);
    // What was set for builds of this machine's own programs is wrong for this one.
    for (name, _) in std::env::vars_os() {
        let inherited = name.to_string_lossy();
        if inherited.contains("RUSTFLAGS") || inherited.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(&name);
        }
    }
    let messages = toolchain::run(&mut cargo).map_err(|error| {
        // It is what rustc says of a target whose std is not there.
        let is_absent = format!("{error:#}").contains("can't find crate for `core`")
            || format!("{error:#}").contains("can't find crate for `std`");
        match is_absent {
            true => Refused::failed(format!("{error:#}"))
                .with_hint(format!("rustup target add {TARGET}"))
                .into(),
            false => error,
        }
    })?;
    artifact(project, &messages)
}

/// What Cargo says about one thing that it made.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The component among what Cargo says that it made of the project's own package.
fn artifact(project: &Path, messages: &[u8]) -> anyhow::Result<PathBuf> {
    let manifest = fs::canonicalize(project.join("Cargo.toml"))?;
    let lines = messages.split(|byte| *byte == b'\n');
    let made = lines.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let own = made.filter(|message| {
        message.reason == "compiler-artifact"
            && fs::canonicalize(&message.manifest_path).is_ok_and(|path| path == manifest)
    });
    let is_component = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wasm");
    let components = own.flat_map(|message| message.filenames);
    let components: Vec<PathBuf> = components.filter(is_component).collect();
    match components.as_slice() {
        [component] => Ok(component.clone()),
        others => {
            let message = format!(
                "cargo made {} components of {}: expected one",
                others.len(),
                manifest.display()
            );
            let hint = "Cargo.toml says crate-type = [\"cdylib\"] under [lib], and has no [[bin]]";
            Err(Refused::failed(message).with_hint(hint).into())
        }
    }
}

fn check_node(tools: &Toolchain) -> anyhow::Result<()> {
    let mut node = tools.command("node", INSTALL_NODE)?;
    let said = toolchain::run(node.arg("--version"))?;
    let version = String::from_utf8_lossy(&said).trim().to_owned();
    match major(&version) {
        Some(major) if major >= NODE_MAJOR_MIN => Ok(()),
        _ => {
            let message = format!("node {version} is too old: {NODE_MAJOR_MIN} or newer is needed");
            Err(Refused::failed(message).with_hint(INSTALL_NODE).into())
        }
    }
}

/// The first number of a version such as `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Installs what package.json names. Scripts of packages are code of strangers that would run outside of
/// any sandbox, and none of the tools needs its own.
fn install_node(project: &Path, tools: &Toolchain) -> anyhow::Result<()> {
    let is_locked = project.join("package-lock.json").is_file();
    let mut npm = tools.command("npm", INSTALL_NODE)?;
    npm.current_dir(project)
        .arg(if is_locked { "ci" } else { "install" })
        .args(["--ignore-scripts", "--no-audit", "--no-fund"]);
    toolchain::run(&mut npm)?;
    Ok(())
}

fn install_python(project: &Path, tools: &Toolchain) -> anyhow::Result<()> {
    let mut python = tools.command("python3", INSTALL_PYTHON)?;
    python.current_dir(project).args(["-m", "venv", ".venv"]);
    toolchain::run(&mut python).map_err(|error| {
        let failed = Refused::failed(format!("{error:#}"));
        anyhow::Error::from(failed.with_hint(INSTALL_PYTHON))
    })?;
    let mut pip = Command::new(project.join(".venv/bin/pip"));
    pip.current_dir(project)
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--require-hashes", "--only-binary", ":all:"])
        .args(["-r", "requirements.txt"]);
    toolchain::run(&mut pip)?;
    Ok(())
}

/// Builds with the script of the SDK, which the project holds a copy of.
fn with_script(
    project: &Path,
    script: &str,
    tools: &Toolchain,
    needed: &[&str],
) -> anyhow::Result<PathBuf> {
    for part in [script, "wit"] {
        if !project.join(part).exists() {
            let message = format!("{} is missing", project.join(part).display());
            let hint = "skillrun new makes a project that has a copy of the SDK and of wit";
            return Err(Refused::failed(message).with_hint(hint).into());
        }
    }
    for tool in needed {
        let hint = "remove node_modules or .venv of the project, and build again";
        tools.command(tool, hint)?;
    }
    let work = project.join(WORK_FOLDER);
    let component = work.join("skill.wasm");
    // One of an earlier build must not be taken for what this one made.
    match fs::remove_file(&component) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", component.display()));
        }
        _ => {}
    }
    let mut bash = tools.command("bash", INSTALL_BASH)?;
    // The stack of a tool says nothing about the skill.
    bash.env_remove("RUST_BACKTRACE")
        .current_dir(project)
        .args([script, ".", "wit", WORK_FOLDER]);
    toolchain::run_as(script, &mut bash)?;
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::{RUST_FLAGS, major};

    #[test]
    fn skills_are_linked_as_the_examples_are() {
        let config = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/guest-skills/.cargo/config.toml"
        ));
        let [config, flags]: [toml::Table; 2] =
            [config, RUST_FLAGS].map(|text| text.parse().unwrap());
        assert_eq!(config, flags);
    }

    #[test]
    fn the_major_version_is_the_first_number() {
        for (text, expected) in [
            ("v20.20.2", Some(20)),
            ("v8", Some(8)),
            ("20.1", None),
            ("", None),
        ] {
            assert_eq!(major(text), expected, "{text:?}");
        }
    }
}
