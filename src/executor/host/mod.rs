//! One file per WIT interface, or package of WASI, holding the trait that `bindgen!` made and nothing
//! else: behaviour and state are in [`super::state`], [`super::files`] and [`super::guest_record`].
//!
//! An error value is for the guest and lets it go on. A `Result::Err` around it ends the instance.

mod approval;
mod clocks;
mod filesystem;
mod handoff;
pub(crate) mod llm;
mod log;
mod poll;
pub(crate) mod random;
mod recorder;
mod run;
mod session;
mod sockets;
mod tools;
mod types;
