//! Power cuts: an ext4 of its own that is shut down without writing what it still holds.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::driver::{Driver, Fault, empty};
use super::kill::Chance;
use super::{Scale, Tally};
use crate::process::{say, succeeds};

const IMAGE_BYTES: u64 = 64 * 1024 * 1024;
const WRITERS: &str = "8";
const PROMISES_MAX: u64 = 300;
/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: not even the journal is written.
const SHUTDOWN: &str = r#"open(my $d, "<", $ARGV[0]) or die $!; my $f = pack("L", 2); ioctl($d, 0x8004587D, $f) or die $!;"#;

pub(super) fn cut(driver: &Driver, scale: Scale) -> Result<Option<Tally>> {
    let (image, disk) = (driver.folder().join("ext4"), driver.folder().join("disk"));
    empty(&disk)?;
    let path = |path: &Path| -> Result<String> {
        Ok(path
            .to_str()
            .context("the folder's path is not UTF-8")?
            .to_owned())
    };
    let (image_path, disk_path) = (path(&image)?, path(&disk)?);
    fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
    let mount = || succeeds("mount", &["-o", "loop", &image_path, &disk_path]);
    if !succeeds("perl", &["-e", "1"])
        || !succeeds("mkfs.ext4", &["-q", "-F", &image_path])
        || !mount()
    {
        say("  skipped: it takes perl, mkfs.ext4 and the right to mount")?;
        return Ok(None);
    }
    let mut tally = Tally::default();
    let mut chance = Chance::new(2);
    let ledgers = disk.join("runs");
    let mut round = || -> Result<()> {
        empty(&ledgers)?;
        let told = write_until(driver, &ledgers, chance.up_to(PROMISES_MAX), || {
            succeeds("perl", &["-e", SHUTDOWN, &disk_path])
        })?;
        fs::write(driver.promises(), told)?;
        if !succeeds("umount", &[&disk_path]) || !mount() {
            bail!("the file system does not come back");
        }
        driver.check(&ledgers, Fault::Cut, &mut tally)
    };
    let done = (0..scale.rounds()).try_for_each(|_| round());
    if !succeeds("umount", &[&disk_path]) {
        bail!("cannot unmount {disk_path}");
    }
    done?;
    Ok(Some(tally))
}

/// Starts the writer, cuts the power after so many promises, and gives those. The process outlives the
/// cut, as it would not outlive a real one, so that what it says afterwards counts for nothing.
fn write_until(
    driver: &Driver,
    ledgers: &Path,
    count: u64,
    cut: impl FnOnce() -> bool,
) -> Result<Vec<u8>> {
    let mut child = driver
        .command(&[], &["write", WRITERS], ledgers)?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut promises = BufReader::new(child.stdout.take().context("no output")?);
    let mut told = Vec::new();
    for _ in 0..count {
        promises.read_until(b'\n', &mut told)?;
    }
    let is_cut = cut();
    child.kill()?;
    child.wait()?;
    if !is_cut {
        bail!("the file system cannot be shut down");
    }
    Ok(told)
}
