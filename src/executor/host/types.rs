//! `types` has no functions; the trait only marks that the host has the interface.

use crate::executor::bindings::skillrun::skill::types::Host;
use crate::executor::state::HostState;

impl Host for HostState {}
