//! Everything that must hold before a change goes in, step by step.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{cargo, run, say, succeeds};
use crate::{guest_toolchains, guests, wasm_target};

/// One part of `cargo xtask test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Installs what is missing.
    Setup,
    /// rustfmt changes nothing.
    Format,
    /// Clippy is silent: everything, the library without features, the guests and their tests.
    Lints,
    /// The documentation builds without a warning, so no link in it is dead; that of the SDK too.
    Docs,
    /// Licences, duplicate versions and sources of the dependencies.
    Licences,
    /// All tests, first those of the guests themselves. They come last, so that a log ends with their result.
    Tests,
}

impl Step {
    /// Every step by the name it has on the command line, in the order in which they run.
    pub(crate) const ALL: [(&str, Self); 6] = [
        ("setup", Self::Setup),
        ("format", Self::Format),
        ("lints", Self::Lints),
        ("docs", Self::Docs),
        ("licences", Self::Licences),
        ("tests", Self::Tests),
    ];

    /// The step with that name.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, step)| *step)
            .with_context(|| {
                let names = Self::ALL.map(|(name, _)| name).join(", ");
                format!("unknown step {name:?}: expected one of {names}")
            })
    }

    /// Runs it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Setup => setup(),
            Self::Format => format(),
            Self::Lints => lints(),
            Self::Docs => docs(),
            Self::Licences => licences(),
            Self::Tests => tests(),
        }
    }
}

/// Runs every step and stops at the first that fails.
pub(crate) fn run_all() -> Result<()> {
    for (name, step) in Step::ALL {
        say(&format!("\n== {name}"))?;
        step.run().with_context(|| format!("step {name} failed"))?;
    }
    say("\n== all steps passed")
}

/// Installs what the tests need and the machine lacks.
pub(crate) fn setup() -> Result<()> {
    wasm_target::ensure()?;
    guest_toolchains::ensure()
}

fn format() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&[
        "fmt",
        "--all",
        "--check",
        "--manifest-path",
        guests::MANIFEST,
    ]))
}

fn lints() -> Result<()> {
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    run(&mut cargo(&[
        "clippy",
        "--lib",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ]))?;
    run(guests::cargo("clippy", &["--workspace"]).args(["--", "-D", "warnings"]))?;
    run(guests::native_cargo("clippy").args(["--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    run(guests::native_cargo("doc")
        .arg("--no-deps")
        .env("RUSTDOCFLAGS", "-D warnings"))
}

fn licences() -> Result<()> {
    if !succeeds("cargo-deny", &["--version"]) {
        return say("  skipped: cargo-deny is not installed (cargo install --locked cargo-deny)");
    }
    run(Command::new("cargo-deny").args(["check", "licenses", "bans", "sources"]))
}

fn tests() -> Result<()> {
    run(&mut guests::native_cargo("test"))?;
    run(&mut cargo(&["test", "--workspace", "--doc"]))?;
    run(&mut cargo(&[
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--examples",
    ]))
}
