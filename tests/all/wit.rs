//! The WIT package that skills are built against: frozen, documented, and taken by the tools of each
//! language that skills are written in.

mod answering_host;
mod answers;
mod documented;
pub(crate) mod examples;
mod foreign;
pub(crate) mod foreign_skill;
mod frozen;
mod generators;
mod surface;
pub(crate) mod triage;

use std::path::Path;
use std::process::Command;

use wit_parser::{PackageId, Resolve};

/// The worlds that a component can be built for.
const WORLDS: [&str; 2] = ["skill", "agent"];

/// The checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The package as the checkout has it.
fn package() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let (package, _files) = resolve.push_dir(root().join("wit")).unwrap();
    (resolve, package)
}

/// A package of one text.
fn package_of(text: &str) -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("sample.wit", text).unwrap();
    (resolve, package)
}

/// One of the pinned tools, to be started in the checkout. Without it the test fails: what was not
/// tried is not known to work.
#[track_caller]
pub(crate) fn tool(path: &str) -> Command {
    let path = root().join("target/toolchains").join(path);
    assert!(
        path.exists(),
        "{} is missing: run cargo xtask setup",
        path.display()
    );
    let mut command = Command::new(path);
    command.current_dir(root());
    command
}

/// Runs a command to its end and fails with all it said when it fails.
#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
