//! The one checker of what must hold after every fault.
//!
//! - I1 every promised record is there, byte for byte
//! - I2 at most one torn end is dropped, kept aside and reported
//! - I3 numbers without gap or repeat, I4 the chain verifies, I5 one end, last
//! - I6 every run that was promised is found by its id and in the list
//! - I7 after the start-up scan no run goes on that nobody carries out
//! - I8 a recorded result is never taken back, so its effect is never carried out again
//!
//! I3, I4 and I5 are what `verify` checks; I8 is I1 of the result's event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Digest, Entry, Event, Head, Position, RunQuery, RunState, Store, StoreError, StoreOptions,
    TORN_TAIL, TornTailReport, Verdict,
};

/// How much was promised of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// It survives a power cut.
    Durable,
    /// It survives the end of the process.
    Written,
}

/// A record that its writer was told is in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    pub(crate) run_id: RunId,
    /// The record's number and digest.
    pub(crate) head: Head,
    pub(crate) strength: Strength,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strength = match self.strength {
            Strength::Durable => "durable",
            Strength::Written => "written",
        };
        let Head { seq, sha256 } = self.head;
        write!(f, "{} {seq} {sha256} {strength}", self.run_id)
    }
}

impl FromStr for Promise {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let parse = || {
            let [run_id, seq, sha256, strength] =
                line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            Some(Self {
                run_id: run_id.parse().ok()?,
                head: Head {
                    seq: seq.parse().ok()?,
                    sha256: sha256.parse().ok()?,
                },
                strength: match strength {
                    "durable" => Strength::Durable,
                    "written" => Strength::Written,
                    _ => return None,
                },
            })
        };
        parse().ok_or_else(|| io::Error::other(format!("not a promise: {line:?}")))
    }
}

/// What was done to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was ended; what was written is there.
    Killed,
    /// The power was cut; what was durable is there.
    Cut,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "killed" => Ok(Self::Killed),
            "cut" => Ok(Self::Cut),
            other => Err(format!("unknown fault {other:?}")),
        }
    }
}

/// What was checked, and what did not hold.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) runs: usize,
    pub(crate) promises: usize,
    pub(crate) torn: usize,
    pub(crate) closed: usize,
    pub(crate) violations: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "runs {} promises {} torn {} closed {} violations {}",
            self.runs,
            self.promises,
            self.torn,
            self.closed,
            self.violations.len()
        )
    }
}

/// Checks a folder whose writers are gone, closes what they left, and checks it again.
pub(crate) async fn check(folder: &Path, promises: &[Promise], fault: Fault) -> Outcome {
    let mut outcome = Outcome::default();
    let options = StoreOptions {
        runs_dir: folder.to_owned(),
        durability: Durability::Sync,
        clock: Clock::system(),
    };
    match Store::open(options) {
        Ok(store) => {
            let mut checker = Checker {
                store,
                folder,
                kept: kept_of(promises, fault),
                outcome: &mut outcome,
            };
            if let Err(error) = checker.run().await {
                checker
                    .outcome
                    .violations
                    .push(format!("unreadable: {error}"));
            }
        }
        Err(error) => outcome.violations.push(format!("cannot open: {error}")),
    }
    outcome
}

/// The records that have to be there, by run. What is durable makes everything before it durable.
fn kept_of(promises: &[Promise], fault: Fault) -> BTreeMap<RunId, BTreeMap<u64, Digest>> {
    let mut kept: BTreeMap<RunId, BTreeMap<u64, Digest>> = BTreeMap::new();
    let mut last: BTreeMap<&RunId, u64> = BTreeMap::new();
    for promise in promises {
        if fault == Fault::Killed || promise.strength == Strength::Durable {
            let seq = last.entry(&promise.run_id).or_default();
            *seq = promise.head.seq.max(*seq);
        }
    }
    for promise in promises {
        if last
            .get(&promise.run_id)
            .is_some_and(|seq| promise.head.seq <= *seq)
        {
            let records = kept.entry(promise.run_id.clone()).or_default();
            records.insert(promise.head.seq, promise.head.sha256);
        }
    }
    kept
}

struct Checker<'a> {
    store: Store,
    folder: &'a Path,
    kept: BTreeMap<RunId, BTreeMap<u64, Digest>>,
    outcome: &'a mut Outcome,
}

impl Checker<'_> {
    fn violation(&mut self, invariant: &str, run_id: &RunId, what: impl fmt::Display) {
        self.outcome
            .violations
            .push(format!("{invariant} {run_id}: {what}"));
    }

    async fn run(&mut self) -> Result<(), StoreError> {
        let before = self.listed()?;
        self.outcome.runs = before.len();
        self.promises_hold(&before)?;
        for (run_id, state) in &before {
            let verdict = self.store.verify(run_id, None)?.verdict();
            let is_unpromised = !self.kept.contains_key(run_id);
            match verdict {
                Verdict::Ok | Verdict::Running | Verdict::Torn => {}
                _ if is_unpromised && *state == RunState::Corrupt => {}
                // An unsynced blob may be missing after a power cut if nothing durable names it.
                verdict => self.violation("I3 I4 I5", run_id, verdict),
            }
        }
        let torn_before = self.torn_files().len();
        for run in self.store.close_abandoned().await? {
            match run.closed {
                Ok(_) => self.outcome.closed += 1,
                Err(StoreError::NeverStarted { run_id }) if !self.kept.contains_key(&run_id) => {}
                Err(error) => self.violation("I7", &run.run_id, error),
            }
        }
        self.outcome.torn = self.torn_files().len() - torn_before;
        let after = self.listed()?;
        self.promises_hold(&after)?;
        for (run_id, state) in after {
            match state {
                RunState::Ended(_) => {}
                RunState::Corrupt if !self.kept.contains_key(&run_id) => continue,
                state => self.violation("I7", &run_id, state.as_str()),
            }
            let verdict = self.store.verify(&run_id, None)?.verdict();
            if verdict != Verdict::Ok {
                self.violation("I3 I4 I5", &run_id, verdict);
            }
            self.torn_ends_are_reported(&run_id)?;
        }
        Ok(())
    }

    fn listed(&self) -> Result<BTreeMap<RunId, RunState>, StoreError> {
        let mut found = BTreeMap::new();
        let mut query = RunQuery::newest(usize::MAX);
        loop {
            let listing = self.store.list(&query)?;
            found.extend(listing.runs.into_iter().map(|run| (run.run_id, run.state)));
            match listing.next {
                Some(next) => query.after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// I1, I6 and I8.
    fn promises_hold(&mut self, listed: &BTreeMap<RunId, RunState>) -> Result<(), StoreError> {
        let kept = self.kept.clone();
        for (run_id, mut records) in kept {
            self.outcome.promises += records.len();
            if !listed.contains_key(&run_id) || self.store.summary(&run_id).is_err() {
                self.violation("I6", &run_id, "not found");
                continue;
            }
            let mut follower = self.store.follow(&run_id, Position::default())?;
            while let Some(entry) = follower.next_entry()? {
                if let Entry::Record(record) = entry
                    && records.get(&record.seq) == Some(&Digest::of(record.line.as_bytes()))
                {
                    records.remove(&record.seq);
                }
            }
            for seq in records.keys() {
                self.violation("I1", &run_id, format!("record {seq} is not as promised"));
            }
        }
        Ok(())
    }

    fn torn_files(&self) -> BTreeSet<String> {
        let Ok(entries) = fs::read_dir(self.folder) else {
            return BTreeSet::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter(|name| name.contains(".torn-") && !name.ends_with("-new"))
            .collect()
    }

    /// I2.
    fn torn_ends_are_reported(&mut self, run_id: &RunId) -> Result<(), StoreError> {
        let mut reported = BTreeMap::new();
        let mut follower = self.store.follow(run_id, Position::default())?;
        while let Some(entry) = follower.next_entry()? {
            if let Entry::Record(record) = entry
                && let Event::Custom(custom) = record.event()
                && custom.name == TORN_TAIL
                && let Some(report) = custom
                    .data
                    .and_then(|data| serde_json::from_str::<TornTailReport>(data.as_str()).ok())
                && reported.insert(report.file, report.sha256).is_some()
            {
                self.violation("I2", run_id, "a torn end is reported twice");
            }
        }
        for name in self.torn_files() {
            if !name.starts_with(run_id.as_str()) {
                continue;
            }
            let content = fs::read(self.folder.join(&name)).unwrap_or_default();
            if reported.remove(&name) != Some(Digest::of(&content)) {
                self.violation("I2", run_id, format!("{name} is not reported as it is"));
            }
        }
        for name in reported.into_keys() {
            self.violation("I2", run_id, format!("{name} is reported and not kept"));
        }
        Ok(())
    }
}
