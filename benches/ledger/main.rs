//! What a ledger costs over the bare system calls.
//!
//! Beside each other, in turn: events of ours, and a control that writes the same bytes to a file of
//! its own with `write` and `fdatasync`. Printed are medians over rounds and ratios; the machine's noise
//! is in both sides of a ratio. The folder is made where the crate is built, on a real disk.
//! `cargo bench --bench ledger`, or with a word after `--` only what begins with it: `durable`,
//! `start`, `written`, `scan`, `index`, `million`.

mod folder;
mod rates;
mod raw;

use std::path::Path;

use anyhow::Result;
use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::ledger::{Event, Log, RunStarted, Store, StoreOptions};

/// A part of the benchmark, in a folder of its own.
type Part = fn(&Path) -> Result<()>;

const PARTS: [(&str, Part); 6] = [
    ("durable", rates::durable),
    ("start", rates::start),
    ("written", rates::written),
    ("scan", folder::scan),
    ("index", folder::index),
    ("million", folder::million),
];

fn main() -> Result<()> {
    // `cargo bench` adds a flag of its own.
    let wanted = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    for (name, part) in PARTS {
        if wanted
            .as_deref()
            .is_none_or(|wanted| name.starts_with(wanted))
        {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
            part(folder.path())?;
        }
    }
    Ok(())
}

fn store(folder: &Path, durability: Durability) -> Result<Store> {
    Ok(Store::open(StoreOptions {
        runs_dir: folder.join("runs"),
        durability,
        clock: Clock::system(),
    })?)
}

fn started() -> RunStarted {
    RunStarted {
        skill: "bench".to_owned(),
        ..RunStarted::default()
    }
}

/// An event whose line has about 400 bytes.
fn event() -> Event {
    Log {
        message: "x".repeat(120).into(),
        ..Log::default()
    }
    .into()
}
