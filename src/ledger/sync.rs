//! When bytes become durable: syncs that are shared, and syncs that happen a little later.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an event that nobody waits for may stay unsynced before its sync is begun. Events are
/// promised to be durable within 50 ms; the other half is for the sync itself.
const FLUSH_AFTER: Duration = Duration::from_millis(25);

/// Locks, also after a thread panicked with the lock held: what the locks of this module and its
/// neighbours guard is whole between any two statements, or poisoned by a flag of its own.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets all who wait for a sync share one. Whoever changed something takes a ticket after the change;
/// a sync that began later than that covers it.
#[derive(Debug, Default)]
pub(super) struct GroupSync {
    last_ticket: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    /// The newest ticket that a finished sync covers.
    ticket: u64,
    /// A sync failed. The next one could seem to succeed, because the system reports a failure once.
    failed: bool,
}

impl GroupSync {
    /// Stands for every change until now.
    pub(super) fn ticket(&self) -> u64 {
        self.last_ticket.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns when a sync has covered `ticket`, carrying it out if nobody else does.
    pub(super) fn wait(
        &self,
        ticket: u64,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = lock(&self.done);
        if done.failed {
            return Err(io::Error::other("an earlier sync failed"));
        }
        if done.ticket < ticket {
            let covered = self.last_ticket.load(Ordering::SeqCst);
            done.failed = true;
            sync()?;
            *done = Done {
                ticket: covered,
                failed: false,
            };
        }
        Ok(())
    }

    /// Forgets a failure.
    pub(super) fn repair(&self) {
        lock(&self.done).failed = false;
    }
}

/// Threads that sync at once when many ledgers are due. A file system commits what they ask for
/// together, and one after the other they would miss the time.
const FLUSH_THREADS_MAX: usize = 16;
/// Jobs that are worth a thread of their own.
const JOBS_PER_THREAD_MIN: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs a little later, all that came meanwhile at once, on a thread of its own that starts with
/// the first job.
#[derive(Default)]
pub(super) struct Flusher(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// At most one for each open ledger.
    jobs: Vec<Job>,
    thread_runs: bool,
    closed: bool,
}

impl Flusher {
    /// Runs `job` within 25 ms, or before this returns when no thread can be had.
    pub(super) fn run_soon(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0.state);
        if !state.thread_runs {
            let queue = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("ledger-sync".to_owned());
            if thread.spawn(move || queue.work()).is_err() {
                drop(state);
                job();
                return;
            }
            state.thread_runs = true;
        }
        state.jobs.push(Box::new(job));
        drop(state);
        self.0.changed.notify_one();
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // The thread is not waited for: a job may hold the last handle to this very flusher.
        lock(&self.0.state).closed = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn work(&self) {
        while let Some(jobs) = self.next_jobs() {
            let threads = (jobs.len() / JOBS_PER_THREAD_MIN).clamp(1, FLUSH_THREADS_MAX);
            let jobs = Mutex::new(jobs.into_iter());
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    let thread = std::thread::Builder::new().name("ledger-sync".to_owned());
                    // What has no thread of its own is done by those that are there.
                    let _started = thread.spawn_scoped(scope, || run_all(&jobs));
                }
                run_all(&jobs);
            });
        }
    }

    /// Waits for a first job, then for those that come soon after it; `None` after the last.
    fn next_jobs(&self) -> Option<Vec<Job>> {
        let state = self
            .changed
            .wait_while(lock(&self.state), |state| {
                state.jobs.is_empty() && !state.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, FLUSH_AFTER, |state| !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let jobs = std::mem::take(&mut state.jobs);
        (!jobs.is_empty()).then_some(jobs)
    }
}

fn run_all(jobs: &Mutex<std::vec::IntoIter<Job>>) {
    loop {
        let Some(job) = lock(jobs).next() else {
            return;
        };
        // The thread has to stay for the ledgers of all others.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("sync of a ledger panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier, mpsc};

    use super::{FLUSH_THREADS_MAX, Flusher, GroupSync, JOBS_PER_THREAD_MIN};

    #[test]
    fn a_sync_covers_the_tickets_before_it_and_no_later_one() {
        let (group, syncs) = (GroupSync::default(), AtomicUsize::new(0));
        let sync = || {
            syncs.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let (first, second) = (group.ticket(), group.ticket());
        group.wait(second, sync).unwrap();
        group.wait(first, sync).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
        group.wait(group.ticket(), sync).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_failed_sync_stays_failed_until_repaired() {
        let group = GroupSync::default();
        let ticket = group.ticket();
        assert!(
            group
                .wait(ticket, || Err(io::Error::other("bad disk")))
                .is_err()
        );
        assert!(group.wait(ticket, || Ok(())).is_err());
        group.repair();
        assert!(group.wait(ticket, || Ok(())).is_ok());
    }

    #[test]
    fn many_jobs_do_not_wait_for_each_other() {
        let (sender, receiver) = mpsc::channel();
        let all_started = Arc::new(Barrier::new(FLUSH_THREADS_MAX));
        let flusher = Flusher::default();
        for _ in 0..FLUSH_THREADS_MAX * JOBS_PER_THREAD_MIN {
            let (sender, all_started) = (sender.clone(), Arc::clone(&all_started));
            flusher.run_soon(move || {
                all_started.wait();
                sender.send(()).unwrap();
            });
        }
        let done = receiver
            .iter()
            .take(FLUSH_THREADS_MAX * JOBS_PER_THREAD_MIN);
        assert_eq!(done.count(), FLUSH_THREADS_MAX * JOBS_PER_THREAD_MIN);
    }

    #[test]
    fn a_job_that_panics_is_the_only_one_that_is_lost() {
        let (sender, receiver) = mpsc::channel();
        let flusher = Flusher::default();
        for n in 0..2 {
            flusher.run_soon(|| panic!("for a test"));
            let sender = sender.clone();
            flusher.run_soon(move || sender.send(n).unwrap());
            assert_eq!(receiver.recv(), Ok(n));
        }
    }

    #[test]
    fn jobs_run_soon_and_the_rest_when_the_flusher_goes() {
        let (sender, receiver) = mpsc::channel();
        let flusher = Flusher::default();
        for n in 0..3 {
            let sender = sender.clone();
            flusher.run_soon(move || sender.send(n).unwrap());
        }
        assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        flusher.run_soon(move || sender.send(3).unwrap());
        drop(flusher);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [3]);
    }
}
