//! `kill -9` at a random moment.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context, Result};

use super::driver::{Driver, Fault};
use super::{Scale, Tally, scratch};

/// Runs that are written at once.
const WRITERS: &str = "8";
/// Promises after which the process is killed at the latest.
const PROMISES_MAX: u64 = 300;

/// Numbers that look random and are the same every time.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 1 to `max`.
    pub(super) fn up_to(&mut self, max: u64) -> u64 {
        // The constants of a well-known linear congruential generator; its upper bits are good enough.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1 + (self.0 >> 33) % max
    }
}

pub(super) fn at_random(driver: &Driver, scale: Scale) -> Result<Option<Tally>> {
    let mut tally = Tally::default();
    let mut chance = Chance::new(1);
    let ledgers = scratch(driver)?;
    for _ in 0..scale.rounds() {
        super::driver::empty(&ledgers)?;
        driver.forget()?;
        let mut child = driver
            .command(&[], &["write", WRITERS], &ledgers)?
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the writer")?;
        let mut promises = BufReader::new(child.stdout.take().context("no output")?);
        let mut told = Vec::new();
        for _ in 0..chance.up_to(PROMISES_MAX) {
            promises.read_until(b'\n', &mut told)?;
        }
        child.kill()?;
        child.wait()?;
        // What it said before it was killed counts as well.
        while promises.read_until(b'\n', &mut told)? > 0 {}
        fs::File::create(driver.promises())?.write_all(&told)?;
        driver.check(&ledgers, Fault::Killed, &mut tally)?;
    }
    fs::remove_dir_all(&ledgers)?;
    Ok(Some(tally))
}
