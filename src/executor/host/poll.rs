//! `wasi:io/poll`: what a guest waited for and what came of it, on record.
//!
//! Which of several things is ready first is the one thing of `wasi:io` that differs from run to run, so
//! each `poll`, `block` and `ready` asks the record first, and what it says is what the guest is told.
//! Things that were ready then are made so: they are waited for, because a response of a request and
//! data of a file are there for the guest only once they were waited for. Timers are not: run time says
//! that theirs is over.
//!
//! The rest of `wasi:io` needs no record:
//! * Standard input is there from the beginning, and the standard outputs take whatever comes.
//! * A response has its body when it is there. It is given out in one piece, or in pieces as long as the
//!   guest asks for.
//! * What may be written into the body of a request follows from what the guest wrote and waited for; see
//!   `src/executor/http/request_body.rs`.
//! * Streams of files change their state when they are waited for. What is in files is on no record, and
//!   how much of one is read ahead by a poll that another thing ended is not either.
//! * `blocking-read`, `blocking-splice` and the like wait for one of these and tell nothing but what it
//!   gave, which is the same however long it took.
//! * `check-write` and `splice` follow from the state of the two streams.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi_io::bindings::wasi::io::poll::{Host, HostPollable};

use crate::executor::state::HostState;

/// A record holds what no poll can have come to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record says of a wait for {waited_for} that {ready:?} were ready")]
pub(crate) struct ImpossiblePoll {
    waited_for: usize,
    ready: Vec<u32>,
}

impl Host for HostState {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        if pollables.is_empty() {
            // It traps, and that is no wait.
            return Host::poll(&mut self.table, pollables).await;
        }
        if let Some(ready) = self.recall(&pollables, 1).await? {
            return Ok(ready);
        }
        let waited = self.record.stopwatch();
        let mut ready = Host::poll(&mut self.table, pollables).await?;
        ready.sort_unstable();
        self.record.polled(&ready, &waited)?;
        Ok(ready)
    }
}

impl HostPollable for HostState {
    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let pollables = [pollable];
        if self.recall(&pollables, 1).await?.is_some() {
            return Ok(());
        }
        let [pollable] = pollables;
        let waited = self.record.stopwatch();
        HostPollable::block(&mut self.table, pollable).await?;
        self.record.polled(&[0], &waited)?;
        Ok(())
    }

    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        let pollables = [pollable];
        if let Some(ready) = self.recall(&pollables, 0).await? {
            return Ok(!ready.is_empty());
        }
        let [pollable] = pollables;
        let waited = self.record.stopwatch();
        let is_ready = HostPollable::ready(&mut self.table, pollable).await?;
        let ready: &[u32] = if is_ready { &[0] } else { &[] };
        self.record.polled(ready, &waited)?;
        Ok(is_ready)
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.timers.remove(&pollable.rep());
        HostPollable::drop(&mut self.table, pollable)
    }
}

impl HostState {
    /// Takes from the budget what the record of a wait takes, and gives what came of it if that is on
    /// record: the places of `ready_min` things or more, all of which are ready now.
    async fn recall(
        &mut self,
        pollables: &[Resource<DynPollable>],
        ready_min: usize,
    ) -> wasmtime::Result<Option<Vec<u32>>> {
        self.record.take_poll(pollables.len())?;
        let Some(ready) = self.record.host().recall_poll()? else {
            return Ok(None);
        };
        let waited_for = pollables.len();
        if !(ready_min..=waited_for).contains(&ready.len()) {
            return Err(ImpossiblePoll { waited_for, ready }.into());
        }
        for &place in &ready {
            let pollable = usize::try_from(place).ok();
            let Some(pollable) = pollable.and_then(|place| pollables.get(place)) else {
                return Err(ImpossiblePoll { waited_for, ready }.into());
            };
            let rep = pollable.rep();
            if !self.timers.contains(&rep) {
                HostPollable::block(&mut self.table, Resource::new_borrow(rep)).await?;
            }
        }
        Ok(Some(ready))
    }
}
