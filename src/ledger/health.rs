//! Whether ledgers can be written at all.
//!
//! One failed write or sync takes the whole store out of use, because the next run would most likely
//! meet the same disk. A probe that succeeds puts it back.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::{Failure, StoreError};
use super::folder::Folder;
use super::sync::lock;
use crate::clock::{Clock, Stopwatch};

/// Time between two probes. Protects a failing disk from a crowd of callers.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Bytes that a probe writes: enough that a disk with room for a few lines only is not called well.
const PROBE_BYTES: usize = 64 * 1024;
/// How the names of probes begin; the rest keeps those of two processes apart.
const PROBE_PREFIX: &str = ".probe-";

/// The store's state of health.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<Illness>>);

#[derive(Debug)]
struct Illness {
    /// The first failure since the store was last well.
    failure: Arc<Failure>,
    /// Since the last probe, or since the failure.
    since_probe: Stopwatch,
}

impl Health {
    /// Takes the store out of use, unless it is already.
    pub(super) fn fail(&self, failure: &Arc<Failure>, clock: &Clock) {
        lock(&self.0).get_or_insert_with(|| {
            tracing::error!(
                error = failure.as_ref() as &dyn std::error::Error,
                "ledger store unavailable"
            );
            Illness {
                failure: Arc::clone(failure),
                since_probe: clock.stopwatch(),
            }
        });
    }

    /// # Errors
    /// [`StoreError::Unavailable`] from the first failure on, until a probe succeeds.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match &*lock(&self.0) {
            None => Ok(()),
            Some(illness) => Err(StoreError::Unavailable(Arc::clone(&illness.failure))),
        }
    }

    /// As [`Health::check`], but first probes when the last probe is long enough ago.
    pub(super) fn check_or_probe(&self, folder: &Folder, clock: &Clock) -> Result<(), StoreError> {
        let due = match &mut *lock(&self.0) {
            None => return Ok(()),
            Some(illness) if illness.since_probe.elapsed() >= PROBE_EVERY => {
                illness.since_probe = clock.stopwatch();
                true
            }
            Some(_) => false,
        };
        if due {
            self.probe(folder)
        } else {
            self.check()
        }
    }

    /// Tries to write and sync; success puts the store back into use.
    pub(super) fn probe(&self, folder: &Folder) -> Result<(), StoreError> {
        if try_write(folder).is_ok() && lock(&self.0).take().is_some() {
            tracing::info!("ledger store available again");
        }
        self.check()
    }
}

fn try_write(folder: &Folder) -> io::Result<()> {
    let name = format!("{PROBE_PREFIX}{}", std::process::id());
    let mut file = folder.create_temporary(&name)?;
    let written = file
        .write_all(&[0; PROBE_BYTES])
        .and_then(|()| file.sync_data());
    let removed = folder.remove(&name);
    written.and(removed)?;
    folder.repair()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::id::RunId;

    #[test]
    fn the_store_is_out_of_use_until_a_probe_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let clock = Clock::manual(Timestamp::from_unix_micros(0));
        let health = Health::default();
        assert!(health.check().is_ok());
        let failure = |errno: i32| {
            Arc::new(Failure {
                operation: "write",
                run_id: RunId::generate(),
                source: io::Error::from_raw_os_error(errno),
            })
        };
        health.fail(&failure(28), &clock);
        health.fail(&failure(5), &clock);
        let refused = health.check_or_probe(&folder, &clock);
        assert!(matches!(refused, Err(StoreError::Unavailable(first))
            if first.source.raw_os_error() == Some(28)));
        clock.advance(PROBE_EVERY);
        assert!(health.check_or_probe(&folder, &clock).is_ok());
        assert!(health.check().is_ok());
        assert_eq!(folder.names().unwrap().count(), 0);
    }
}
