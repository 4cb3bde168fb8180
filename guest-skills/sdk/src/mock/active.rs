//! The mock that the code on this thread runs in.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Mock, Seen};

thread_local! {
    static ACTIVE: RefCell<Option<Rc<Active>>> = const { RefCell::new(None) };
}

/// A mock at work, and what it has seen.
pub(crate) struct Active {
    pub(crate) mock: Mock,
    seen: RefCell<Vec<Seen>>,
    steps: Cell<u32>,
    events: Cell<u32>,
}

impl Active {
    pub(super) fn new(mock: Mock) -> Self {
        Self {
            mock,
            seen: RefCell::default(),
            steps: Cell::new(0),
            events: Cell::new(0),
        }
    }

    /// Keeps what was asked for.
    pub(crate) fn see(&self, seen: Seen) {
        self.seen.borrow_mut().push(seen);
    }

    pub(super) fn take_seen(&self) -> Vec<Seen> {
        self.seen.take()
    }

    /// The number of the next event of the skill's own, counted from 1.
    pub(crate) fn next_event(&self) -> u32 {
        count(&self.events)
    }

    /// The number of the next step, counted from 1.
    pub(crate) fn next_step(&self) -> u32 {
        count(&self.steps)
    }
}

fn count(counter: &Cell<u32>) -> u32 {
    counter.set(counter.get().saturating_add(1));
    counter.get()
}

/// Puts the mock of before back, also when a test fails in the middle.
struct Restore(Option<Rc<Active>>);

impl Drop for Restore {
    fn drop(&mut self) {
        ACTIVE.set(self.0.take());
    }
}

pub(super) fn enter<T>(active: &Rc<Active>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(ACTIVE.replace(Some(Rc::clone(active))));
    work()
}

/// The mock of this thread, if there is one.
pub(crate) fn current() -> Option<Rc<Active>> {
    ACTIVE.with_borrow(Clone::clone)
}

/// Asks the mock of this thread. What it answers may call the host again.
///
/// # Panics
/// There is none.
#[track_caller]
pub(crate) fn with<T>(ask: impl FnOnce(&Active) -> T) -> T {
    match current() {
        Some(active) => ask(&active),
        None => {
            panic!("this code calls the host: run it in skillrun_sdk::mock::Mock::new().run(|| ..)")
        }
    }
}
