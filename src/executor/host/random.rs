//! `wasi:random`: numbers that follow from the run's seed, so many at a time.

use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::random::WasiRandomView as _;

use crate::executor::state::HostState;
use crate::executor::wasi::RANDOM_BYTES_MAX;

/// A guest asked for more random bytes at once than it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} random bytes asked for at once: expected at most {RANDOM_BYTES_MAX}")]
pub(crate) struct TooManyRandomBytes {
    bytes: u64,
}

fn check(bytes: u64) -> Result<(), TooManyRandomBytes> {
    if bytes > RANDOM_BYTES_MAX {
        return Err(TooManyRandomBytes { bytes });
    }
    Ok(())
}

impl random::Host for HostState {
    fn get_random_bytes(&mut self, bytes: u64) -> wasmtime::Result<Vec<u8>> {
        check(bytes)?;
        random::Host::get_random_bytes(self.random(), bytes)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        random::Host::get_random_u64(self.random())
    }
}

impl insecure::Host for HostState {
    fn get_insecure_random_bytes(&mut self, bytes: u64) -> wasmtime::Result<Vec<u8>> {
        check(bytes)?;
        insecure::Host::get_insecure_random_bytes(self.random(), bytes)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        insecure::Host::get_insecure_random_u64(self.random())
    }
}

impl insecure_seed::Host for HostState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        insecure_seed::Host::insecure_seed(self.random())
    }
}
