//! Tells whoever listens how far each ledger may be read.
//!
//! No event travels through it. A subscriber is told numbers and reads the ledger itself, so that what
//! is live and what was before are one and the same, nothing is held for a slow reader, and a writer
//! never waits. An event may be read once it is written; a sync point, and what follows it, once the
//! sync point is durable.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Notify, watch};

use super::ended::Ends;
use super::sync::lock;
use crate::id::RunId;

/// Runs with unread events that one subscriber to all runs is told of. Beyond it the subscriber has to
/// look for itself. Protects the memory of the host from a subscriber that does not read.
const INBOX_RUNS_MAX: usize = 16_384;

/// How far a ledger may be read, as long as a recorder of this process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Published {
    /// The number of the newest event that may be read.
    pub(super) seq: u64,
    /// The recorder wrote its last event; all there is may be read.
    pub(super) closed: bool,
}

/// The ledgers that recorders of this process have, and the subscribers to all of them.
#[derive(Debug, Default)]
pub(super) struct Bus {
    open: Mutex<HashMap<RunId, watch::Receiver<Published>>>,
    inboxes: Mutex<Vec<Weak<Inbox>>>,
    /// The length of `inboxes`, to be read without its lock.
    inbox_count: AtomicUsize,
    /// Subscribers to ends alone.
    pub(super) ends: Ends,
}

impl Bus {
    /// Lets a new recorder's ledger be found; everything up to `seq` may be read.
    pub(super) fn open(&self, run_id: &RunId, seq: u64) -> watch::Sender<Published> {
        let (sender, receiver) = watch::channel(Published { seq, closed: false });
        lock(&self.open).insert(run_id.clone(), receiver);
        sender
    }

    /// The recorder of a ledger in this process, if there is one.
    pub(super) fn channel(&self, run_id: &RunId) -> Option<watch::Receiver<Published>> {
        lock(&self.open).get(run_id).cloned()
    }

    /// Events up to `seq` may be read.
    pub(super) fn publish(&self, run_id: &RunId, channel: &watch::Sender<Published>, seq: u64) {
        let mut first = 0;
        channel.send_if_modified(|published| {
            first = published.seq + 1;
            published.seq = published.seq.max(seq);
            first <= seq
        });
        if first <= seq && self.inbox_count.load(Ordering::SeqCst) > 0 {
            self.deliver(run_id, first, seq);
        }
    }

    /// The recorder is gone, or will write no more.
    pub(super) fn close(&self, run_id: &RunId, channel: &watch::Sender<Published>) {
        let mut open = lock(&self.open);
        // Another recorder may have the ledger by now.
        if open
            .get(run_id)
            .is_some_and(|own| own.same_channel(&channel.subscribe()))
        {
            open.remove(run_id);
        }
        drop(open);
        channel.send_modify(|published| published.closed = true);
        self.ends.tell(run_id, channel.borrow().seq);
    }

    /// A place where this run's and all other runs' new events are announced from now on.
    pub(super) fn inbox(&self) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        let mut inboxes = lock(&self.inboxes);
        inboxes.push(Arc::downgrade(&inbox));
        self.inbox_count.store(inboxes.len(), Ordering::SeqCst);
        inbox
    }

    fn deliver(&self, run_id: &RunId, first: u64, last: u64) {
        let mut inboxes = lock(&self.inboxes);
        inboxes.retain(|inbox| match inbox.upgrade() {
            Some(inbox) => {
                inbox.put(run_id, first, last);
                true
            }
            None => false,
        });
        self.inbox_count.store(inboxes.len(), Ordering::SeqCst);
    }
}

/// New events of any run, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    content: Mutex<Content>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Content {
    /// The first and the last unread event of each run that has some.
    unread: HashMap<RunId, (u64, u64)>,
    /// The keys of `unread`, in the order in which they came.
    order: VecDeque<RunId>,
    overflowed: bool,
}

/// What an inbox held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// These events of a run may be read.
    Events {
        /// The run.
        run_id: RunId,
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// There was more than fits; what is not read yet was forgotten.
    Overflow,
}

impl Inbox {
    fn put(&self, run_id: &RunId, first: u64, last: u64) {
        let mut content = lock(&self.content);
        if let Some((_, end)) = content.unread.get_mut(run_id) {
            *end = last.max(*end);
            return;
        }
        if content.order.len() >= INBOX_RUNS_MAX {
            *content = Content {
                overflowed: true,
                ..Content::default()
            };
        }
        content.unread.insert(run_id.clone(), (first, last));
        content.order.push_back(run_id.clone());
        drop(content);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Notice> {
        let mut content = lock(&self.content);
        if std::mem::take(&mut content.overflowed) {
            return Some(Notice::Overflow);
        }
        let run_id = content.order.pop_front()?;
        let (first, last) = content.unread.remove(&run_id)?;
        Some(Notice::Events {
            run_id,
            first,
            last,
        })
    }

    /// Waits for the next notice. It may be dropped at any time without losing one.
    pub(super) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.take() {
                return notice;
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_events_of_a_run_are_one_notice() {
        let bus = Bus::default();
        let (one, other) = (RunId::generate(), RunId::generate());
        let channel = bus.open(&one, 1);
        bus.publish(&one, &channel, 2);
        let inbox = bus.inbox();
        for seq in [3, 4, 4, 2, 6] {
            bus.publish(&one, &channel, seq);
        }
        bus.publish(&other, &bus.open(&other, 0), 1);
        let events = |run_id: &RunId, first, last| {
            Some(Notice::Events {
                run_id: run_id.clone(),
                first,
                last,
            })
        };
        assert_eq!(inbox.take(), events(&one, 3, 6));
        assert_eq!(inbox.take(), events(&other, 1, 1));
        assert_eq!(inbox.take(), None);
        assert_eq!(channel.borrow().seq, 6);
        drop(inbox);
        bus.publish(&one, &channel, 7);
        assert_eq!(bus.inbox_count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_told_what_it_missed_and_holds_no_more() {
        let bus = Bus::default();
        let inbox = bus.inbox();
        for _ in 0..=INBOX_RUNS_MAX {
            let run_id = RunId::generate();
            bus.publish(&run_id, &bus.open(&run_id, 0), 1);
        }
        assert_eq!(inbox.take(), Some(Notice::Overflow));
        assert!(matches!(inbox.take(), Some(Notice::Events { .. })));
        assert_eq!(inbox.take(), None);
    }

    #[test]
    fn a_closed_ledger_is_no_longer_found_and_a_later_recorder_is() {
        let bus = Bus::default();
        let run_id = RunId::generate();
        let first = bus.open(&run_id, 0);
        let second = bus.open(&run_id, 5);
        bus.close(&run_id, &first);
        assert!(first.borrow().closed);
        assert_eq!(bus.channel(&run_id).unwrap().borrow().seq, 5);
        bus.close(&run_id, &second);
        assert!(bus.channel(&run_id).is_none());
    }
}
