//! Faults at a chosen system call, by `strace`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::driver::{Driver, Fault, empty};
use super::{Scale, Tally, scratch};
use crate::process::{say, succeeds};

/// Every system call by which a ledger or its index changes, or is opened.
const CALLS: [&str; 11] = [
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "openat",
    "renameat",
    "mkdirat",
    "ftruncate",
    "flock",
    "unlinkat",
    "utimensat",
];
/// Failures, and the calls that they happen to. Short writes cannot be had this way: the kernel would
/// say that it wrote what it did not.
const FAILURES: [(&str, &str); 5] = [
    ("fdatasync", "error=EIO"),
    ("fsync", "error=EIO"),
    ("write", "error=ENOSPC"),
    ("write", "error=EIO"),
    ("renameat", "error=EIO"),
];
/// Calls of one kind that a process makes at most; more would be a loop.
const CALLS_MAX: usize = 2000;

fn strace_is_missing() -> Result<bool> {
    let missing = !succeeds("strace", &["-qq", "-o", "/dev/null", "true"]);
    if missing {
        say("  skipped: strace is not installed, or may not trace here")?;
    }
    Ok(missing)
}

/// Kills the writer of a few runs at its first, second, third … call of each kind.
pub(super) fn kill_once(driver: &Driver, _: Scale) -> Result<Option<Tally>> {
    if strace_is_missing()? {
        return Ok(None);
    }
    let ledgers = scratch(driver)?;
    let mut tally = Tally::default();
    for call in CALLS {
        each_until_the_end(|number| {
            empty(&ledgers)?;
            driver.forget()?;
            let ended = inject(driver, "once", &ledgers, call, "signal=KILL", number)?;
            driver.check(&ledgers, Fault::Killed, &mut tally)?;
            Ok(!ended.was_injected)
        })?;
    }
    fs::remove_dir_all(&ledgers)?;
    Ok(Some(tally))
}

/// Kills the recovery of torn and abandoned ledgers likewise, and lets the next one do the rest.
pub(super) fn kill_recovery(driver: &Driver, _: Scale) -> Result<Option<Tally>> {
    if strace_is_missing()? {
        return Ok(None);
    }
    let template = driver.folder().join("abandoned");
    empty(&template)?;
    driver.forget()?;
    // Each is killed a little later in its work, so that there are different things to recover.
    for number in 2..6 {
        inject(
            driver,
            "once",
            &template,
            "fdatasync",
            "signal=KILL",
            number,
        )?;
    }
    for (number, entry) in fs::read_dir(&template)?.enumerate() {
        let path = entry?.path();
        let is_ledger = path.extension().is_some_and(|ending| ending == "jsonl");
        if is_ledger && !fs::read_to_string(&path)?.contains("run_completed") {
            let mut file = fs::File::options().append(true).open(path)?;
            file.write_all(if number % 2 == 0 {
                b"{\"v\":1,\"run"
            } else {
                b"\0\0\0\0\n\0\0"
            })?;
        }
    }
    let promises = fs::read(driver.promises())?;
    let ledgers = scratch(driver)?;
    let mut tally = Tally::default();
    for call in CALLS {
        each_until_the_end(|number| {
            empty(&ledgers)?;
            copy(&template, &ledgers)?;
            fs::write(driver.promises(), &promises)?;
            let ended = inject(driver, "recover", &ledgers, call, "signal=KILL", number)?;
            driver.check(&ledgers, Fault::Killed, &mut tally)?;
            Ok(!ended.was_injected)
        })?;
    }
    fs::remove_dir_all(&ledgers)?;
    Ok(Some(tally))
}

/// Lets each sync and each write fail in turn. The writer has to notice, and to stop.
pub(super) fn fail(driver: &Driver, _: Scale) -> Result<Option<Tally>> {
    if strace_is_missing()? {
        return Ok(None);
    }
    let ledgers = scratch(driver)?;
    let mut tally = Tally::default();
    for (call, failure) in FAILURES {
        each_until_the_end(|number| {
            empty(&ledgers)?;
            driver.forget()?;
            let ended = inject(driver, "once", &ledgers, call, failure, number)?;
            if !ended.was_injected && !ended.was_successful {
                bail!("the writer failed without a fault");
            }
            driver.check(&ledgers, Fault::Killed, &mut tally)?;
            Ok(!ended.was_injected)
        })?;
    }
    fs::remove_dir_all(&ledgers)?;
    Ok(Some(tally))
}

/// Tries the first, second, third … call until `attempt` says that there was none with that number.
fn each_until_the_end(mut attempt: impl FnMut(usize) -> Result<bool>) -> Result<()> {
    for number in 1..CALLS_MAX {
        if attempt(number)? {
            return Ok(());
        }
    }
    bail!("more than {CALLS_MAX} calls of one kind");
}

struct Injected {
    was_injected: bool,
    was_successful: bool,
}

/// Runs a part of the driver with a fault at one call. Calls are counted for each thread.
fn inject(
    driver: &Driver,
    part: &str,
    ledgers: &Path,
    call: &str,
    fault: &str,
    number: usize,
) -> Result<Injected> {
    let log = driver.folder().join("strace");
    let log = log.to_str().context("the folder's path is not UTF-8")?;
    let (trace, inject) = (
        format!("trace={call}"),
        format!("inject={call}:{fault}:when={number}"),
    );
    let strace = [
        "strace", "-f", "-qq", "-o", log, "-e", &trace, "-e", &inject,
    ];
    let mut command: Command = driver.command(&strace, &[part], ledgers)?;
    let status = command.status().context("cannot start strace")?;
    let told = fs::read_to_string(log)?;
    Ok(Injected {
        was_injected: told.contains("INJECTED") || told.contains("+++ killed by SIGKILL"),
        was_successful: status.success(),
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
