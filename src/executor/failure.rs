//! Why a call of a guest has no result, and how the engine's errors become that.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use wasmtime::component::ResourceTableError;
use wasmtime::{GcHeapOutOfMemory, PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::bindings::skillrun::skill::types::SkillError;
use super::engine_config::WASM_STACK_BYTES_MAX;
use super::guest_record::{GuestRecord, cut};
use super::host::random::TooManyRandomBytes;
use super::run_host::RecordRefused;
use super::state::HANDLES_MAX;
use crate::limits::{LimitKey, LimitReached};
use crate::outcome::OutcomeCode;

/// The code by which a skill says that it failed because the host refused a call.
const DENIED_CODE: &str = "denied";

/// The code by which a skill says that it failed because a question of its was answered with no.
const REJECTED_CODE: &str = "rejected";

/// How the engine says that a guest handed over more than `host_call_bytes`. It has no type to ask
/// for, so its words are pinned by a test that a real guest drives.
const HOST_CALL_BYTES_MARK: &str = "fuel allocated for hostcalls has been exhausted";

/// How the engine says that a guest holds too many handles. It has no type either, and a real guest pins
/// it.
const HANDLES_MARK: &str = "store handle limit exceeded";

/// Bytes of a guest's error message that become part of an outcome.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of end it was; never [`OutcomeCode::Ok`].
    pub code: OutcomeCode,
    /// What happened, in one line.
    pub message: String,
    /// What to do about it, when there is something to do.
    pub hint: Option<String>,
    /// The limit that was reached, if that is why.
    pub limit: Option<LimitReached>,
    /// What the skill itself added, as JSON text: its own code and details.
    pub details: Option<String>,
}

impl Failure {
    /// A failure with a message only.
    pub fn new(code: OutcomeCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            limit: None,
            details: None,
        }
    }
}

impl From<LimitReached> for Failure {
    fn from(reached: LimitReached) -> Self {
        let code = match reached.key {
            LimitKey::WallTimeMs
            | LimitKey::CpuTimeMs
            | LimitKey::HttpTimeoutMs
            | LimitKey::ApprovalTimeoutMs => OutcomeCode::TimeLimit,
            LimitKey::Fuel => OutcomeCode::FuelLimit,
            LimitKey::MemoryBytes | LimitKey::TableElements => OutcomeCode::MemoryLimit,
            LimitKey::OutputBytes => OutcomeCode::OutputLimit,
            LimitKey::HostCallBytes
            | LimitKey::HostCalls
            | LimitKey::Resources
            | LimitKey::OpenFiles
            | LimitKey::FileWriteBytes
            | LimitKey::HttpRequestBytes
            | LimitKey::HttpResponseBytes
            | LimitKey::ParallelCalls
            | LimitKey::LlmTokens
            | LimitKey::LlmCostMicrousd
            | LimitKey::NestingDepth
            | LimitKey::LogBytes
            | LimitKey::GuestEvents
            | LimitKey::GuestEventBytes => OutcomeCode::HostCallLimit,
        };
        Self {
            hint: Some(reached.hint()),
            limit: Some(reached),
            ..Self::new(code, reached.to_string())
        }
    }
}

/// The failure that an error of the skill's own is.
pub(crate) fn from_skill(error: &SkillError, record: &GuestRecord) -> Failure {
    let was_refused = error.code == DENIED_CODE && record.was_denied();
    let was_rejected = error.code == REJECTED_CODE && record.was_rejected();
    let code = if was_refused || was_rejected {
        OutcomeCode::Denied
    } else {
        OutcomeCode::SkillError
    };
    let output_bytes = error.code.len().saturating_add(error.details.len());
    let output_bytes = u64::try_from(output_bytes).unwrap_or(u64::MAX);
    if output_bytes > record.limits().value(LimitKey::OutputBytes) {
        return record.reached(LimitKey::OutputBytes).into();
    }
    let last = record.last_denial().filter(|_| was_refused);
    Failure {
        code,
        hint: last
            .map(|last| format!("{last}; skillrun runs explain shows what would have to change")),
        ..of_the_skill(&error.code, &error.message, &error.details)
    }
}

/// The failure that is an error of the skill's own, with its code and details. Details that are not JSON
/// are kept as the text that they are.
pub(crate) fn of_the_skill(code: &str, message: &str, details: &str) -> Failure {
    let details = Details {
        code,
        details: RawValue::from_string(details.to_owned())
            .or_else(|_not_json| to_raw_value(details))
            .ok(),
    };
    Failure {
        details: serde_json::to_string(&details).ok(),
        ..Failure::new(OutcomeCode::SkillError, cut(message, MESSAGE_BYTES_MAX))
    }
}

/// What a skill adds to its message.
#[derive(Serialize)]
struct Details<'a> {
    code: &'a str,
    details: Option<Box<RawValue>>,
}

/// The failure that an error of the engine is, when it came before the guest was there to cause it.
pub(crate) fn from_instantiation(error: &wasmtime::Error, record: &GuestRecord) -> Failure {
    known(error, record).unwrap_or_else(|| {
        Failure::new(
            OutcomeCode::Internal,
            format!("cannot instantiate: {error:#}"),
        )
    })
}

/// The failure that an error of the engine is, while a guest ran.
pub(crate) fn from_engine(error: &wasmtime::Error, record: &GuestRecord) -> Failure {
    known(error, record).unwrap_or_else(|| {
        let root = error.root_cause().to_string();
        Failure::new(OutcomeCode::Trap, cut(&root, MESSAGE_BYTES_MAX))
    })
}

fn known(error: &wasmtime::Error, record: &GuestRecord) -> Option<Failure> {
    if let Some(&reached) = error.downcast_ref::<LimitReached>() {
        return Some(reached.into());
    }
    if let Some(RecordRefused::Unavailable) = error.downcast_ref::<RecordRefused>() {
        return Some(Failure::new(OutcomeCode::Internal, "ledger unavailable"));
    }
    if let Some(too_many) = error.downcast_ref::<TooManyRandomBytes>() {
        return Some(Failure::new(
            OutcomeCode::HostCallLimit,
            too_many.to_string(),
        ));
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref::<ResourceTableError>() {
        return Some(record.reached(LimitKey::Resources).into());
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Some(from_trap(*trap, record));
    }
    if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        let message = format!("the guest ended itself with exit status {status}");
        return Some(Failure::new(OutcomeCode::Trap, message));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        let message = "every place in the pool of instances is taken";
        return Some(Failure {
            hint: Some("raise runs.at_once_max in config.toml: it sizes the pool".to_owned()),
            ..Failure::new(OutcomeCode::Busy, message)
        });
    }
    if error.is::<GcHeapOutOfMemory<()>>() {
        return Some(record.reached(LimitKey::MemoryBytes).into());
    }
    from_words(&error.root_cause().to_string(), error, record)
}

/// The failure that an error without a type is, by what it says.
fn from_words(said: &str, error: &wasmtime::Error, record: &GuestRecord) -> Option<Failure> {
    if said.contains(HOST_CALL_BYTES_MARK) {
        // Frames of the guest are on the stack while it calls the host, and gone when it returns.
        let key = if error.downcast_ref::<WasmBacktrace>().is_some() {
            LimitKey::HostCallBytes
        } else {
            LimitKey::OutputBytes
        };
        return Some(record.reached(key).into());
    }
    said.contains(HANDLES_MARK).then(|| {
        let message = format!("the guest holds more than {HANDLES_MAX} handles");
        Failure::new(OutcomeCode::HostCallLimit, message)
    })
}

fn from_trap(trap: Trap, record: &GuestRecord) -> Failure {
    match trap {
        Trap::OutOfFuel => record.budget().tightest(LimitKey::Fuel).into(),
        Trap::StackOverflow => {
            let message = format!("the wasm stack of {WASM_STACK_BYTES_MAX} bytes is exhausted");
            Failure::new(OutcomeCode::MemoryLimit, message)
        }
        Trap::Interrupt => record.reached(LimitKey::CpuTimeMs).into(),
        Trap::UnreachableCodeReached => match record.panic_message().take() {
            Some(message) => Failure::new(OutcomeCode::Panic, format!("panicked at {message}")),
            None => Failure::new(OutcomeCode::Trap, trap.to_string()),
        },
        _ => Failure::new(OutcomeCode::Trap, trap.to_string()),
    }
}
