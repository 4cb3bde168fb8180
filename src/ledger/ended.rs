//! The runs whose ledgers this process is done with, for whoever looks at them afterwards.

use std::sync::OnceLock;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::id::RunId;

/// Ends that a subscriber may not have taken yet. Protects the memory of the host from a subscriber that is slow.
const ENDS_MAX: usize = 4_096;

/// A run that was left: its last event is written and may be read. It may have ended for good, or go on later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLeft {
    /// The run.
    pub run_id: RunId,
    /// The number of its last event then.
    pub last_seq: u64,
}

/// Tells subscribers of ends. There is nothing here before the first of them.
#[derive(Debug, Default)]
pub(super) struct Ends(OnceLock<broadcast::Sender<RunLeft>>);

impl Ends {
    /// Tells of an end. It never waits.
    pub(super) fn tell(&self, run_id: &RunId, last_seq: u64) {
        if let Some(sender) = self.0.get() {
            let run_id = run_id.clone();
            let _nobody_listens = sender.send(RunLeft { run_id, last_seq });
        }
    }

    pub(super) fn subscribe(&self) -> EndedRuns {
        let sender = self.0.get_or_init(|| broadcast::channel(ENDS_MAX).0);
        EndedRuns(sender.subscribe())
    }
}

/// The runs that recorders of a store leave, in the order in which they do.
#[derive(Debug)]
pub struct EndedRuns(broadcast::Receiver<RunLeft>);

impl EndedRuns {
    /// The next one, as soon as there is one; the number of those that were forgotten, where whoever asks was
    /// too slow. It may be dropped at any time without losing one. None when the store is gone.
    pub async fn next(&mut self) -> Option<Result<RunLeft, u64>> {
        match self.0.recv().await {
            Ok(ended) => Some(Ok(ended)),
            Err(RecvError::Lagged(forgotten)) => Some(Err(forgotten)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next one, if there is one now.
    pub fn next_now(&mut self) -> Option<Result<RunLeft, u64>> {
        match self.0.try_recv() {
            Ok(ended) => Some(Ok(ended)),
            Err(TryRecvError::Lagged(forgotten)) => Some(Err(forgotten)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ENDS_MAX, Ends, RunLeft};
    use crate::id::RunId;

    #[tokio::test]
    async fn a_subscriber_that_is_slow_is_told_how_many_it_missed() {
        let ends = Ends::default();
        let run_id = RunId::generate();
        ends.tell(&run_id, 1);
        let mut ended = ends.subscribe();
        assert_eq!(ended.next_now(), None);
        for seq in 0..=ENDS_MAX as u64 {
            ends.tell(&run_id, seq);
        }
        assert_eq!(ended.next().await, Some(Err(1)));
        let run_id = run_id.clone();
        assert_eq!(
            ended.next().await,
            Some(Ok(RunLeft {
                run_id,
                last_seq: 1
            }))
        );
        drop(ends);
        while let Some(ended) = ended.next().await {
            assert!(ended.is_ok());
        }
    }
}
