//! What one instance's host functions work on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::guest_record::GuestRecord;
use super::limiter::MemoryLimiter;
use super::run_host::{Denial, LogOrigin};
use super::stdio::LineStream;
use crate::clock::{Clock, Stopwatch};
use crate::limits::{LimitKey, LimitReached, Limits};

/// Random bytes that a guest may ask for at once. Protects the host's heap.
const RANDOM_BYTES_MAX: u64 = 1024 * 1024;
/// Host resources a guest may hold at once: steps, streams, timers. Protects the host's heap.
pub(crate) const RESOURCES_MAX: usize = 10_000;

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

/// The state behind one instance. It is dropped with the instance; nothing outlives the run.
pub(crate) struct HostState {
    /// The guest's way to its record.
    pub(crate) record: Arc<GuestRecord>,
    /// Steps and streams that the guest holds.
    pub(crate) table: ResourceTable,
    /// Bounds memories and tables.
    pub(crate) limiter: MemoryLimiter,
    /// Runs since the guest started.
    started: Stopwatch,
    /// Host calls that reached for something outside.
    host_calls: u64,
    wasi: WasiCtx,
    stdout: LineStream,
    stderr: LineStream,
}

impl HostState {
    pub(crate) fn new(
        record: Arc<GuestRecord>,
        clock: &Clock,
        seed: Seed,
        invocation: Option<Invocation>,
    ) -> Self {
        let stdout = match invocation {
            Some(_) => LineStream::capturing(Arc::clone(&record), LogOrigin::Stdout),
            None => LineStream::new(Arc::clone(&record), LogOrigin::Stdout),
        };
        let stderr = LineStream::new(Arc::clone(&record), LogOrigin::Stderr);
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            limiter: MemoryLimiter::new(record.limits()),
            table,
            started: clock.stopwatch(),
            host_calls: 0,
            wasi: wasi(&stdout, &stderr, seed, invocation),
            stdout,
            stderr,
            record,
        }
    }

    /// Milliseconds until the wall-time limit.
    pub(crate) fn remaining_ms(&self) -> u64 {
        let wall = Duration::from_millis(self.limits().value(LimitKey::WallTimeMs));
        let left = wall.saturating_sub(self.started.elapsed());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts one host call that reaches for something outside, before anything else is done for it.
    pub(crate) fn count_host_call(&mut self) -> Result<(), LimitReached> {
        self.host_calls = self.host_calls.saturating_add(1);
        if self.host_calls > self.limits().value(LimitKey::HostCalls) {
            return Err(self.record.reached(LimitKey::HostCalls));
        }
        Ok(())
    }

    /// Refuses a host call for which no capability can be granted, and records that it was refused.
    pub(crate) fn refuse(
        &mut self,
        capability: &str,
        wanted: &str,
    ) -> Result<String, LimitReached> {
        self.count_host_call()?;
        self.record.denied(Denial {
            capability,
            rule: "not granted",
            wanted,
        });
        Ok(capability.to_owned())
    }

    fn limits(&self) -> &Limits {
        self.record.limits()
    }

    /// What was written to standard output, if that was to be kept.
    pub(crate) fn captured_stdout(&self) -> Result<Vec<u8>, LimitReached> {
        self.stdout.captured()
    }

    /// Puts the last lines of the standard streams and the count of dropped ones on record.
    pub(crate) fn finish(&self) {
        self.stdout.finish();
        self.stderr.finish();
        self.record.finish();
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

/// A WASI context in which nothing is granted: no folder, variable, address or name look-up. Clocks and
/// random numbers are there, and what is printed becomes log lines.
fn wasi(
    stdout: &LineStream,
    stderr: &LineStream,
    seed: Seed,
    invocation: Option<Invocation>,
) -> WasiCtx {
    let mut secure = StdRng::from_seed(seed);
    let insecure = StdRng::from_rng(&mut secure);
    let insecure_seed = rand::RngExt::random::<u128>(&mut secure);
    let mut builder = WasiCtx::builder();
    builder
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .secure_random(secure)
        .insecure_random(insecure)
        .insecure_random_seed(insecure_seed)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(Invocation { args, stdin }) = invocation {
        builder.args(&args).stdin(MemoryInputPipe::new(stdin));
    }
    builder.build()
}
