//! Builds the guests that the tests run, in their own workspace and their own target folder, and
//! writes down where they are.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The guests, by package name. Each must have a module of that name in `tests/all/guests`, with `_` for `-`.
const GUESTS: [&str; 12] = [
    "calc",
    "chat",
    "command",
    "conformance",
    "fan-out",
    "fetch",
    "greet",
    "handoff",
    "notes",
    "probe",
    "probe-agent",
    "triage",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let guests = root.join("guest-skills");
    for watched in ["guest-skills", "wit"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let target = target_dir(&root)?.join("guests");
    build(&guests, &target)?;

    let mut code = String::new();
    let module = |guest: &str| guest.replace('-', "_");
    for guest in GUESTS {
        // A library's file is named after its module, a program's after its package; no program here has
        // a hyphen in its name.
        let wasm = target
            .join("wasm32-wasip2/release")
            .join(format!("{}.wasm", module(guest)));
        let folder = guests.join(guest);
        writeln!(
            code,
            "/// The component of the guest `{guest}` and the folder of its sources.\n\
             pub const {}: Guest = Guest {{ name: {guest:?}, wasm: {wasm:?}, folder: {folder:?} }};",
            module(guest).to_uppercase()
        )?;
    }
    let names = GUESTS.map(module).join(", ");
    writeln!(
        code,
        "/// Calls a macro with the names of all guests, so that it can name something for each.\n\
         #[macro_export]\nmacro_rules! for_all_guests {{ ($callback:ident) => {{ $callback! {{ {names} }} }}; }}"
    )?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("guests.rs"), code)?;
    Ok(())
}

/// The target folder of the workspace: the parent of `build/` above `OUT_DIR`'s profile.
fn target_dir(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => Ok(root.join(dir)),
        None => Ok(root.join("target")),
    }
}

fn build(guests: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(guests)
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            "wasm32-wasip2",
            "--target-dir",
        ])
        .arg(target);
    for guest in GUESTS {
        cargo.args(["--package", guest]);
    }
    // Flags and settings for the host's build are wrong for the guests'.
    for (name, _) in env::vars_os() {
        let inherited = name.to_string_lossy();
        if inherited.contains("RUSTFLAGS") || inherited.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status()?;
    if status.success() {
        Ok(())
    } else {
        Err("cannot build the guests: run `cargo xtask setup`, which installs the target wasm32-wasip2".into())
    }
}
