//! The ledger: one append-only file per run, which is the truth about it.
//!
//! `<run id>.jsonl` holds one event a line, readable with `jq` and `tail -f`. Everything else that is
//! known of a run is derived from it. What the rest of the crate may rely on:
//!
//! - **Order.** Events are numbered from 1 without gap or repeat, in the order of the file. Numbering
//!   and writing are one step.
//! - **One writer.** A [`Recorder`] holds the file's lock. A second writer is refused at once.
//! - **Durable means durable.** [`Store::create`] and [`Recorder::record_durable`] return when the
//!   bytes would survive a power cut, unless the store is opened relaxed, which `run_started` then
//!   says. [`Recorder::record`] returns when the line is in the file, and syncs it within 50 ms.
//! - **A failure is final.** After one failed write or sync a recorder records nothing more, and its
//!   store starts no run until a probe succeeds.
//! - **A chain.** Each line names the digest of the one before it. Who notes a [`Head`] elsewhere can
//!   find out later that the end of a ledger was cut off or rewritten.
//! - **Nothing dropped in silence.** The torn end that a crash leaves is kept beside the ledger and
//!   reported; damage anywhere else is shown, and never cut off. Types and fields of newer versions
//!   are kept as they stand.
//! - **Bounds.** No reader holds more than one line or one page, and no line is longer than 8 MiB.
//!   Larger values are stored whole beside the ledger, and the line holds a reference and a preview.
//!
//! What may follow what is decided in one place, [`next`], for those who write and those who check.

mod abandoned;
mod blob;
mod bus;
mod copy;
mod create;
mod decision;
mod digest;
mod ended;
mod error;
mod event;
mod explain;
mod export;
mod folder;
mod health;
mod index;
mod json;
mod line;
mod list;
mod lock;
mod payload;
mod pending;
mod prune;
mod reader;
mod recorder;
mod recover;
mod redact;
mod replay;
mod scan;
mod state;
mod statistics;
mod store;
mod subscription;
mod summary;
mod sync;
mod verify;
mod writer;

pub use self::abandoned::Abandoned;
pub(crate) use self::decision::binding as decision_binding;
pub use self::decision::{ANSWER_BYTES_MAX, ApprovalDecision, DecideError, Gate, REASON_BYTES_MAX};
pub use self::digest::{Digest, DigestError};
pub use self::ended::{EndedRuns, RunLeft};
pub use self::error::{Corruption, Damage, Failure, RecordError, StoreError};
pub use self::event::{Event, Origin};
pub use self::explain::{Cause, Explanation, Setting};
pub use self::export::ExportError;
pub use self::json::{BlobRef, Json, JsonError, Text};
pub use self::line::Record;
pub use self::list::{Cursor, CursorError, LIST_RUNS_MAX, Listing, OfSession, RunQuery};
pub use self::payload::{
    ApprovalRequest, ApprovalResponse, ApprovalSource, CallFailure, CallKind, CallPhase,
    ClientFacts, Custom, Denied, Effect, ErrorReport, Head, HttpCall, HttpResult, LlmCall,
    LlmChunk, Log, LogLevel, LogStream, NodeEnter, NodeExit, Prompt, ResumeReason, RunCompleted,
    RunOrigin, RunResumed, RunStarted, RunStatus, SessionFacts, SessionPhase, SessionStatus,
    SessionTold, StructuredOutput, TaskFacts, Timer, ToolCall, ToolResult, TurnCompleted,
    UpdateKind,
};
pub use self::pending::{Pending, PendingQuery};
pub use self::prune::{PruneReport, Retention};
pub use self::reader::{Entry, Follower, PAGE_LINES_MAX, Page, Position};
pub use self::recorder::{Appended, Recorder};
pub use self::recover::TornTailReport;
pub use self::redact::RedactError;
pub use self::replay::{Difference, Part, Place, Recalled, Recorded, RecordedCall, record_file};
pub(crate) use self::replay::{is_inner_call, prompt_id, shown_now};
pub use self::scan::TornTail;
pub use self::state::{IllegalTransition, Pair, Phase, State, TORN_TAIL, next};
pub use self::statistics::StoreStatistics;
pub use self::store::{Store, StoreOptions, verify_file};
pub use self::subscription::{AllSubscription, AnyDelivery, Delivery, Subscription};
pub use self::summary::{RunState, Summary};
pub use self::verify::{Verdict, VerifyReport};
