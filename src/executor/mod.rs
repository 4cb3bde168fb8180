//! Runs one component, once, within bounds.
//!
//! The executor knows WebAssembly and nothing of runs: no ledger, no registry, no surface. What a
//! guest's calls reach is behind [`RunHost`], and no type of the engine is in a public signature.
//!
//! * [`Engine`] compiles and keeps components; [`Program`] is one that is ready.
//! * [`Program::call`] runs it in a fresh instance that shares nothing with any other.
//! * [`Program::open_session`] makes the instance of an agent, a [`LiveSession`], which keeps its memory
//!   between calls.
//! * A guest's mistake is an error value that the guest can handle. A limit that is reached, a trap or
//!   a fault of the host ends the instance with a [`Failure`] that carries an outcome code.

mod artifact;
mod bindings;
mod cache;
mod engine;
mod engine_config;
mod failure;
mod file_access;
mod file_stream;
mod files;
mod fit;
mod function_size;
mod guest_record;
mod host;
mod http;
mod limiter;
mod load_error;
mod metered;
mod operation;
mod program;
mod provided;
mod run_clock;
mod run_host;
mod session;
mod state;
mod stdio;
mod wasi;

pub use engine::{Engine, EngineError, EngineOptions, EngineStatistics};
pub use failure::Failure;
pub use http::{HttpOptions, Resolve, SystemResolver};
pub use load_error::LoadError;
pub use operation::{OperationDescriptor, RefusedFunction};
pub use program::{Call, Descriptor, Program};
pub use provided::{Answer, CallError, ModelAnswer, Provided};
pub use run_host::{
    Denial, GuestEvent, HttpCallId, HttpEnd, HttpRequest, HttpResponse, LogLevel, LogOrigin,
    RecalledHttp, RecordRefused, RunFacts, RunHost, RunTime, Unrecorded,
};
pub use session::{LiveSession, Returned, SessionContext};
pub use state::Seed;
