//! What one instance's host functions work on.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::bindings::skillrun::skill::types::HostError;
use super::files::Files;
use super::guest_record::{GuestRecord, Node};
use super::host::llm::Completion;
use super::http::{FIELDS_BYTES_MAX, Outgoing};
use super::limiter::MemoryLimiter;
use super::provided::CallError;
use super::run_clock::RunClock;
use super::run_host::{Denial, LogOrigin, RecordRefused};
use super::stdio::LineStream;
use super::wasi;
use crate::capability::Policy;
use crate::limits::{LimitKey, LimitReached};

/// Handles a guest may hold at once, those to resources of its own included. Protects the host's heap.
pub(crate) const HANDLES_MAX: usize = 100_000;

/// Bytes from which a guest's random numbers are made, so that a replay makes the same ones.
pub type Seed = [u8; 32];

/// What a command is started with. What it writes to standard output is kept, within the bound on a
/// result, beside its being logged.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The arguments, the name of the program first.
    pub(crate) args: Vec<String>,
    /// Standard input, which ends after it.
    pub(crate) stdin: Bytes,
}

/// What an instance begins with, beside its input: the same each time the run is replayed.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// What its random numbers are made from.
    pub(crate) seed: Seed,
    /// The variables in its environment.
    pub(crate) environment: Arc<[(String, String)]>,
    /// What a command is started with.
    pub(crate) invocation: Option<Invocation>,
}

impl Origins {
    pub(crate) fn new(
        seed: Seed,
        environment: Arc<[(String, String)]>,
        invocation: Option<Invocation>,
    ) -> Self {
        Self {
            seed,
            environment,
            invocation,
        }
    }
}

/// The state behind one instance. It is dropped with the instance; nothing outlives the run.
pub(crate) struct HostState {
    /// Its requests, which end with it. They are dropped first: when what the guest holds goes, no request
    /// is recorded as given up any more.
    outgoing: Outgoing,
    /// The guest's way to its record.
    pub(crate) record: Arc<GuestRecord>,
    /// Steps and streams that the guest holds.
    pub(crate) table: ResourceTable,
    /// Which of the things that the guest can wait for are timers, by their place in the table.
    pub(crate) timers: BTreeSet<u32>,
    /// Bounds memories and tables.
    pub(crate) limiter: MemoryLimiter,
    /// The folders of the run and what of them the guest holds.
    pub(crate) files: Files,
    /// What the run may do.
    policy: Arc<Policy>,
    /// The fuel that the guest had left when it was last noted what it executed.
    fuel_left: u64,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    stdout: LineStream,
    stderr: LineStream,
}

impl HostState {
    /// The state of a run that may do what `policy` says, in the folders that were opened for it, with
    /// the requests of the same run.
    pub(crate) fn new(
        record: Arc<GuestRecord>,
        policy: Arc<Policy>,
        files: Files,
        origins: Origins,
        outgoing: Outgoing,
    ) -> Self {
        let stdout = match origins.invocation {
            Some(_) => LineStream::capturing(Arc::clone(&record), LogOrigin::Stdout),
            None => LineStream::new(Arc::clone(&record), LogOrigin::Stdout),
        };
        let stderr = LineStream::new(Arc::clone(&record), LogOrigin::Stderr);
        let clock = RunClock::new(Arc::clone(&record));
        let mut table = ResourceTable::new();
        let resources_max = record.limits().value(LimitKey::Resources);
        table.set_max_capacity(usize::try_from(resources_max).unwrap_or(usize::MAX));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(FIELDS_BYTES_MAX);
        Self {
            limiter: MemoryLimiter::new(record.limits()),
            table,
            timers: BTreeSet::new(),
            fuel_left: record.budget().remaining(LimitKey::Fuel),
            wasi: wasi::context(&stdout, &stderr, &clock, origins),
            files,
            http,
            outgoing,
            policy,
            stdout,
            stderr,
            record,
        }
    }

    /// What the run may do.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Notes what the guest executed since this was last done; `left` is the fuel that it has now.
    pub(crate) fn spend_fuel(&mut self, left: u64) -> Result<(), LimitReached> {
        let executed = self.fuel_left.saturating_sub(left);
        self.fuel_left = left;
        self.record.budget().spend(LimitKey::Fuel, executed)
    }

    /// Counts one host call that reaches for something outside, before anything else is done for it.
    pub(crate) fn count_host_call(&self) -> Result<(), LimitReached> {
        self.record.budget().take(LimitKey::HostCalls, 1)
    }

    /// As [`HostState::count_host_call`], for as many as a guest makes at once: all of them or none.
    pub(crate) fn take_host_calls(&self, calls: usize) -> Result<(), LimitReached> {
        let calls = u64::try_from(calls).unwrap_or(u64::MAX);
        self.record.budget().take(LimitKey::HostCalls, calls)
    }

    /// How many calls of one kind may go on at once: what the guest asked for, where it did, and never
    /// more than the limit.
    pub(crate) fn parallel_calls(&self, asked: u32) -> usize {
        let limit = self.record.limits().value(LimitKey::ParallelCalls);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match usize::try_from(asked).unwrap_or(usize::MAX) {
            0 => limit,
            asked => asked.min(limit),
        }
    }

    /// What the guest is told of a call that was answered, or was not. Whatever it cannot handle ends the
    /// run instead.
    pub(crate) fn answered<T>(
        &self,
        answer: Result<T, CallError>,
    ) -> wasmtime::Result<Result<T, HostError>> {
        Ok(Err(match answer {
            Ok(answer) => return Ok(Ok(answer)),
            Err(CallError::Denied {
                capability,
                rule,
                wanted,
            }) => {
                self.record.denied(Denial {
                    capability: &capability,
                    rule,
                    wanted: &wanted,
                    call_id: None,
                });
                HostError::Denied(capability)
            }
            Err(CallError::NotFound(name)) => HostError::NotFound(name),
            Err(CallError::Invalid(what)) => HostError::Invalid(what),
            Err(CallError::Ambiguous(names)) => HostError::Ambiguous(names),
            Err(CallError::Failed(message)) => HostError::Failed(message),
            Err(CallError::TimedOut { limit_ms }) => {
                HostError::TimedOut(u32::try_from(limit_ms).unwrap_or(u32::MAX))
            }
            Err(CallError::Exhausted(bound)) => HostError::Exhausted(bound),
            Err(CallError::Cancelled) => HostError::Cancelled,
            Err(CallError::LimitReached(reached)) => return Err(reached.into()),
            Err(CallError::Unrecorded(RecordRefused::Invalid { reason })) => {
                HostError::Invalid(reason)
            }
            Err(CallError::Unrecorded(refused @ RecordRefused::Unavailable)) => {
                return Err(refused.into());
            }
        }))
    }

    /// What was written to standard output, if that was to be kept.
    pub(crate) fn captured_stdout(&self) -> Result<Vec<u8>, LimitReached> {
        self.stdout.captured()
    }

    /// Puts on record what the guest left open when its call ended: answers of models that it did not read
    /// to their end, requests, the last lines of the standard streams, the count of dropped ones, the steps.
    /// A call that is given up in mid-work does not come here, since its run may go on from its record.
    ///
    /// # Errors
    /// What an answer took goes beyond a limit.
    pub(crate) fn finish(&mut self) -> Result<(), LimitReached> {
        let given_up = self.give_up_answers();
        self.outgoing.finish();
        self.stdout.finish();
        self.stderr.finish();
        self.record.finish();
        self.end_nodes();
        given_up
    }

    /// Puts it on record that no response of a request is waited for any more, and takes no further one.
    pub(crate) fn give_up_requests(&self) {
        self.outgoing.finish();
    }

    fn give_up_answers(&mut self) -> Result<(), LimitReached> {
        let mut ended = Ok(());
        let held = self.table.iter_mut();
        let answers = held.filter_map(|held| held.downcast_mut::<Completion>()?.take());
        for answer in answers {
            if let Err(CallError::LimitReached(reached)) = answer.give_up() {
                ended = Err(reached);
            }
        }
        ended
    }

    fn end_nodes(&mut self) {
        let held = self.table.iter_mut();
        for node in held.filter_map(|held| held.downcast_mut::<Node>()) {
            node.end(false);
        }
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for HostState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.outgoing,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}
