//! One file per WIT interface, holding the trait that `bindgen!` made and nothing else: behaviour and
//! state are in [`super::state`] and [`super::guest_record`].
//!
//! An error value is for the guest and lets it go on. A `Result::Err` around it ends the instance.

mod approval;
mod handoff;
pub(crate) mod llm;
mod log;
mod recorder;
mod run;
mod tools;
mod types;
