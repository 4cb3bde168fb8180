//! `wasi:clocks/monotonic-clock` of WASI 0.2. The time of day needs nothing of ours but its clock.

use std::time::Duration;

use wasmtime::component::Resource;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Host, Instant};
use wasmtime_wasi::p2::{DynPollable, subscribe};

use crate::executor::run_clock::RunClock;
use crate::executor::state::HostState;

impl Host for HostState {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        Host::now(&mut self.clocks())
    }

    fn resolution(&mut self) -> wasmtime::Result<Instant> {
        Host::resolution(&mut self.clocks())
    }

    fn subscribe_instant(&mut self, when: Instant) -> wasmtime::Result<Resource<DynPollable>> {
        self.timer(Duration::from_nanos(when))
    }

    fn subscribe_duration(
        &mut self,
        duration: monotonic_clock::Duration,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        let now = RunClock::new(self.record.clone()).elapsed();
        self.timer(now.saturating_add(Duration::from_nanos(duration)))
    }
}

impl HostState {
    fn timer(&mut self, elapsed: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        let timer = RunClock::new(self.record.clone()).timer(elapsed);
        let timer = self.table.push(timer)?;
        let pollable = subscribe(&mut self.table, timer)?;
        self.timers.insert(pollable.rep());
        Ok(pollable)
    }
}
