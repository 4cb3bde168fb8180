//! The newest events, ready to be sent, for everybody who reads the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::block::Block;

/// Blocks in a row, of which the oldest go when there are too many bytes. One task adds to it, which never
/// waits for a reader.
#[derive(Debug)]
pub(super) struct Ring {
    content: Mutex<Content>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Content {
    blocks: VecDeque<Arc<Block>>,
    cost_bytes: usize,
    /// The number of the next event.
    next: u64,
    /// Nothing is added any more; this is what is said last.
    last_words: Option<Bytes>,
}

/// What a ring has for a reader.
#[derive(Debug)]
pub(super) enum Look {
    /// The event that is asked for is this item of this block.
    Here(Arc<Block>, usize),
    /// The event is gone; so many events come from there on.
    Gone {
        /// Events from the one that is asked for on.
        events: u64,
        /// The oldest one that there is.
        oldest: u64,
    },
    /// The event is still to come.
    NotYet,
    /// Nothing comes any more but this.
    Over(Bytes),
}

impl Ring {
    /// A ring whose first event will have that number.
    pub(super) fn new(first: u64) -> Self {
        Self {
            content: Mutex::new(Content {
                blocks: VecDeque::new(),
                cost_bytes: 0,
                next: first,
                last_words: None,
            }),
            changed: watch::Sender::new(()),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Told whenever a look could find something else.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds what comes next, and forgets the oldest beyond so many bytes. The newest block stays in any case.
    pub(super) fn push(&self, block: Block, bytes_max: usize) {
        let mut content = self.content();
        content.next = block.next();
        content.cost_bytes += block.cost_bytes();
        content.blocks.push_back(Arc::new(block));
        while content.cost_bytes > bytes_max && content.blocks.len() > 1 {
            if let Some(oldest) = content.blocks.pop_front() {
                content.cost_bytes = content.cost_bytes.saturating_sub(oldest.cost_bytes());
            }
        }
        drop(content);
        self.changed.send_replace(());
    }

    /// Nothing comes any more.
    pub(super) fn finish(&self, last_words: Bytes) {
        self.content().last_words.get_or_insert(last_words);
        self.changed.send_replace(());
    }

    pub(super) fn is_over(&self) -> bool {
        self.content().last_words.is_some()
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.content().next
    }

    pub(super) fn look(&self, number: u64) -> Look {
        let content = self.content();
        if number >= content.next {
            return match &content.last_words {
                Some(last_words) => Look::Over(last_words.clone()),
                None => Look::NotYet,
            };
        }
        let oldest = content.blocks.front().map_or(content.next, |it| it.first);
        let at = content.blocks.partition_point(|it| it.next() <= number);
        match content.blocks.get(at) {
            Some(block) if block.first <= number => {
                let item = usize::try_from(number - block.first).unwrap_or(usize::MAX);
                Look::Here(Arc::clone(block), item)
            }
            _ => Look::Gone {
                events: content.next - number,
                oldest,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Builder;
    use super::*;
    use crate::ledger::Position;

    fn block(first: u64, items: u64) -> Block {
        let mut builder = Builder::new(first, Position::default());
        for _ in 0..items {
            builder.add_control("lagged", &1);
        }
        builder.build().unwrap()
    }

    #[test]
    fn each_event_is_found_until_it_is_pushed_out() {
        let ring = Ring::new(5);
        assert!(matches!(ring.look(5), Look::NotYet));
        assert!(matches!(
            ring.look(4),
            Look::Gone {
                events: 1,
                oldest: 5
            }
        ));
        ring.push(block(5, 3), usize::MAX);
        ring.push(block(8, 1), usize::MAX);
        for (number, first, item) in [(5, 5, 0), (7, 5, 2), (8, 8, 0)] {
            let Look::Here(block, at) = ring.look(number) else {
                panic!("{number} is not there");
            };
            assert_eq!((block.first, at), (first, item));
        }
        ring.push(block(9, 1), 1);
        assert!(matches!(
            ring.look(8),
            Look::Gone {
                events: 2,
                oldest: 9
            }
        ));
        assert!(matches!(ring.look(9), Look::Here(_, 0)));
        ring.finish(Bytes::from_static(b"end"));
        assert!(matches!(ring.look(9), Look::Here(_, 0)));
        assert!(matches!(ring.look(10), Look::Over(end) if end == "end"));
    }
}
