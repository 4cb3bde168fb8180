//! The tools that turn the package into source code of each language, on both worlds.
//!
//! For Rust the world `skill` is proven by every guest that the tests build.

use std::env;
use std::process::Command;

use super::{WORLDS, root, succeed, tool};

#[test]
fn rust_takes_the_agent_world() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(root().join("guest-skills"))
        .args([
            "build",
            "--locked",
            "--release",
            "--package",
            "bindings-check",
        ])
        .args(["--target", "wasm32-wasip2", "--target-dir"])
        .arg(root().join("target/guests"));
    // Settings of the host's build are wrong for a guest.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.contains("RUSTFLAGS") || text.starts_with("CARGO_PROFILE_") {
            build.env_remove(name);
        }
    }
    succeed(&mut build);
}

#[test]
fn typescript_takes_both_worlds() {
    for world in WORLDS {
        let folder = tempfile::tempdir().unwrap();
        succeed(
            tool("node_modules/.bin/jco")
                .args([
                    "guest-types",
                    "wit",
                    "--quiet",
                    "--world-name",
                    world,
                    "--out-dir",
                ])
                .arg(folder.path()),
        );
        // The types of the world's interfaces lie beside it, and it refers to them.
        succeed(
            tool("node_modules/.bin/tsc")
                .args(["--noEmit", "--strict", "--types", ""])
                .args(["--target", "es2023", "--lib", "es2023,esnext.disposable"])
                .arg(folder.path().join(format!("{world}.d.ts"))),
        );
    }
}

#[test]
fn python_takes_both_worlds() {
    for world in WORLDS {
        let folder = tempfile::tempdir().unwrap();
        succeed(
            tool("python/bin/componentize-py")
                .args(["--quiet", "--wit-path", "wit", "--world", world, "bindings"])
                .arg(folder.path()),
        );
        // What comes with it is written for the interpreter inside the component, which is newer.
        succeed(
            tool("python/bin/python")
                .args(["-m", "compileall", "-q"])
                .arg(folder.path().join("wit_world")),
        );
    }
}
