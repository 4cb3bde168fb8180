//! A guest at work, held to its time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use wasmtime::Store;

use super::guest_record::GuestRecord;
use super::state::HostState;
use crate::clock::Clock;
use crate::limits::LimitReached;

/// How often it is looked at whether a run still waits for a person.
const PAUSED_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Drives `guest` until it ends, or until its wall time or its processor time is used up.
pub(super) async fn within_time<T>(
    clock: &Clock,
    record: &GuestRecord,
    guest: impl Future<Output = T>,
) -> Result<T, LimitReached> {
    let budget = record.budget();
    budget.start(clock.stopwatch());
    let mut guest = pin!(guest);
    let started = clock.stopwatch();
    let metered = poll_fn(|cx| {
        let inside = budget.cpu_micros_inside();
        let before = started.elapsed_micros();
        let polled = guest.as_mut().poll(cx);
        let taken = started.elapsed_micros().saturating_sub(before);
        // Runs inside this one that were polled with it have noted their part themselves.
        let noted = budget.cpu_micros_inside().saturating_sub(inside);
        let cpu = budget.spend_cpu(taken.saturating_sub(noted));
        match (polled, cpu) {
            (Poll::Ready(ended), _) => Poll::Ready(Ok(ended)),
            (Poll::Pending, Err(reached)) => Poll::Ready(Err(reached)),
            // Where every thread computes, timers fire late; a guest that computes comes by here.
            (Poll::Pending, Ok(())) => match budget.wall_time_left() {
                (Duration::ZERO, reached) => Poll::Ready(Err(reached)),
                _ => Poll::Pending,
            },
        }
    });
    let mut metered = pin!(metered);
    loop {
        let (left, reached) = budget.wall_time_left();
        if left.is_zero() {
            return Err(reached);
        }
        // While a person is waited for, none of what is left goes by.
        let look_again = if budget.is_paused() {
            left.max(PAUSED_LOOK_INTERVAL)
        } else {
            left
        };
        if let Ok(ended) = tokio::time::timeout(look_again, metered.as_mut()).await {
            return ended;
        }
    }
}

/// Notes the instructions that were executed, for the run and for those that it is inside of.
pub(super) fn spend_fuel(store: &mut Store<HostState>) -> Result<(), LimitReached> {
    let left = store.get_fuel().unwrap_or(0);
    store.data_mut().spend_fuel(left)
}
