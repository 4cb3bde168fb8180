//! A disk that is full in the middle of a line, and has room again.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::driver::{Driver, Fault, empty};
use super::{Scale, Tally};
use crate::process::{say, succeeds};

/// Sizes of the disk in KiB that are tried, so that it is full in the middle of different things.
const SIZES_KIB: std::ops::Range<usize> = 300..340;
/// What is taken away to make room again.
const BALLAST_BYTES: usize = 128 * 1024;

pub(super) fn fill(driver: &Driver, _: Scale) -> Result<Option<Tally>> {
    let disk = driver.folder().join("disk");
    empty(&disk)?;
    let path = disk.to_str().context("the folder's path is not UTF-8")?;
    let mut tally = Tally::default();
    for kib in SIZES_KIB {
        let size = format!("size={kib}k");
        if !succeeds("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path]) {
            say("  skipped: mounting is not allowed here")?;
            return Ok(None);
        }
        let done = fill_once(driver, &disk, &mut tally);
        if !succeeds("umount", &[path]) {
            bail!("cannot unmount {path}");
        }
        done?;
    }
    Ok(Some(tally))
}

fn fill_once(driver: &Driver, disk: &std::path::Path, tally: &mut Tally) -> Result<()> {
    driver.forget()?;
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES])?;
    let ledgers = disk.join("runs");
    let mut child = driver
        .command(&[], &["fill"], &ledgers)?
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().context("no standard error")?);
    stderr.read_line(&mut said)?;
    fs::remove_file(&ballast)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"\n")?;
    }
    let status = child.wait()?;
    if said.trim() != "full" || !status.success() {
        bail!("the writer did not go on when there was room again: {said} {status}");
    }
    driver.check(&ledgers, Fault::Killed, tally)
}
