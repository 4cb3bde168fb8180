//! A component that is ready to run, and one call of it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use wasmtime::Store;

use super::bindings::SkillPre;
use super::engine::Ticks;
use super::failure::{self, Failure};
use super::guest_record::{GuestRecord, NAME_BYTES_MAX, cut};
use super::operation::{OperationDescriptor, Operations, RefusedFunction};
use super::run_host::{RunHost, Unrecorded};
use super::state::{HostState, Invocation, Seed};
use crate::clock::Clock;
use crate::limits::{LimitKey, LimitReached, Limits};
use crate::outcome::OutcomeCode;

/// A skill's component, compiled and linked. It holds no state of any run.
pub struct Program {
    entry: Entry,
    clock: Clock,
    /// Keeps the epoch of the component's engine going as long as the component can run.
    _ticks: Arc<Ticks>,
}

/// The way into a component.
pub(crate) enum Entry {
    /// By the world `skill`, without values whose type is only known at run time.
    Skill(SkillPre<HostState>),
    /// By the functions that it exports.
    Operations(Operations),
}

/// One call of a skill.
pub struct Call {
    /// What the guest's calls reach.
    pub host: Arc<dyn RunHost>,
    /// The bounds on this call.
    pub limits: Arc<Limits>,
    /// What the guest's random numbers are made from.
    pub seed: Seed,
    /// Which function is called, for a component that follows no world; none: the only one.
    pub operation: Option<String>,
    /// A JSON object, as text.
    pub input: String,
}

/// What a skill says about itself. A component that follows no world says nothing, and its operations are
/// read from its type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Descriptor {
    /// The skill's name.
    pub name: String,
    /// The skill's own version.
    pub version: String,
    /// One or two sentences.
    pub description: String,
    /// JSON Schema of the input; empty: any object.
    pub input_schema: String,
    /// JSON Schema of the result; empty: any JSON.
    pub output_schema: String,
    /// What can be called, in the order of the component; empty for a skill of our world.
    pub operations: Vec<OperationDescriptor>,
    /// What it exports beside that and cannot be called.
    pub refused: Vec<RefusedFunction>,
}

impl Entry {
    fn engine(&self) -> &wasmtime::Engine {
        match self {
            Self::Skill(skill) => skill.engine(),
            Self::Operations(operations) => operations.engine(),
        }
    }
}

impl Program {
    pub(crate) fn new(entry: Entry, clock: Clock, ticks: Arc<Ticks>) -> Self {
        Self {
            entry,
            clock,
            _ticks: ticks,
        }
    }

    /// Runs the skill in a fresh instance and gives the JSON text of its result, as the guest spelled
    /// it. The wall-time limit is armed here and covers host calls that wait. Dropping the future stops
    /// the guest at once. It needs a tokio runtime with timers.
    ///
    /// # Errors
    /// Everything that is not a result, with its outcome code.
    pub async fn call(&self, call: Call) -> Result<String, Failure> {
        match &self.entry {
            Entry::Skill(skill) => self.call_skill(skill, call).await,
            Entry::Operations(operations) => self.call_operation(operations, call).await,
        }
    }

    async fn call_skill(&self, skill: &SkillPre<HostState>, call: Call) -> Result<String, Failure> {
        if let Some(operation) = &call.operation {
            return Err(no_operations(operation));
        }
        let record = Arc::new(GuestRecord::new(call.host, call.limits, self.clock.clone()));
        let mut store = self.store(&record, call.seed, None)?;
        let guest = async {
            let skill = skill.instantiate_async(&mut store).await;
            let skill = skill.map_err(|error| failure::from_instantiation(&error, &record))?;
            let handler = skill.skillrun_skill_handler();
            let called = handler.call_run(&mut store, &call.input).await;
            called.map_err(|error| failure::from_engine(&error, &record))
        };
        let ended = self.within_time(&record, guest).await;
        store.data().finish();
        // Steps that a trap left open are recorded as they are dropped, before the run is seen to end.
        drop(store);
        let output = ended??.map_err(|error| failure::from_skill(&error, &record))?;
        let output_bytes = u64::try_from(output.len()).unwrap_or(u64::MAX);
        if output_bytes > record.limits().value(LimitKey::OutputBytes) {
            return Err(record.reached(LimitKey::OutputBytes).into());
        }
        Ok(output)
    }

    async fn call_operation(&self, operations: &Operations, call: Call) -> Result<String, Failure> {
        let operation = operations.get(call.operation.as_deref())?;
        let (arguments, invocation) =
            operation.prepare(&call.input, &call.host.facts().skill_name)?;
        let record = Arc::new(GuestRecord::new(call.host, call.limits, self.clock.clone()));
        let mut store = self.store(&record, call.seed, invocation)?;
        let guest = operations.run(&mut store, operation, &arguments, &record);
        let ended = self.within_time(&record, guest).await;
        store.data().finish();
        let stdout = store.data().captured_stdout();
        drop(store);
        operation.answer(ended??, &stdout?, &record)
    }

    /// Asks the component what it is. It gets no capability and leaves no record. Of a component that
    /// follows no world nothing is run.
    ///
    /// # Errors
    /// The guest traps or meets a limit.
    pub async fn describe(&self, limits: Arc<Limits>) -> Result<Descriptor, Failure> {
        let skill = match &self.entry {
            Entry::Skill(skill) => skill,
            Entry::Operations(operations) => {
                return Ok(Descriptor {
                    operations: operations.describe(),
                    refused: operations.refused().to_vec(),
                    ..Descriptor::default()
                });
            }
        };
        let host = Arc::new(Unrecorded::default());
        let record = Arc::new(GuestRecord::new(host, limits, self.clock.clone()));
        let mut store = self.store(&record, Seed::default(), None)?;
        let guest = async {
            let skill = skill.instantiate_async(&mut store).await;
            let skill = skill.map_err(|error| failure::from_instantiation(&error, &record))?;
            let handler = skill.skillrun_skill_handler();
            let called = handler.call_describe(&mut store).await;
            called.map_err(|error| failure::from_engine(&error, &record))
        };
        let ended = self.within_time(&record, guest).await;
        drop(store);
        let descriptor = ended??;
        Ok(Descriptor {
            name: descriptor.name,
            version: descriptor.version,
            description: descriptor.description,
            input_schema: descriptor.input_schema,
            output_schema: descriptor.output_schema,
            ..Descriptor::default()
        })
    }

    fn store(
        &self,
        record: &Arc<GuestRecord>,
        seed: Seed,
        invocation: Option<Invocation>,
    ) -> Result<Store<HostState>, Failure> {
        let limits = record.limits();
        let state = HostState::new(Arc::clone(record), &self.clock, seed, invocation);
        let mut store = Store::new(self.entry.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store
            .set_fuel(limits.value(LimitKey::Fuel))
            .map_err(|error| Failure::new(OutcomeCode::Internal, error.to_string()))?;
        let crossing = limits
            .value(LimitKey::HostCallBytes)
            .max(limits.value(LimitKey::OutputBytes));
        store.set_hostcall_fuel(usize::try_from(crossing).unwrap_or(usize::MAX));
        // At each tick the guest hands the thread back, so that others run and a deadline or a
        // cancellation is seen.
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        Ok(store)
    }

    /// Drives `guest` until it ends, or until its wall time or its processor time is used up.
    async fn within_time<T>(
        &self,
        record: &GuestRecord,
        guest: impl Future<Output = T>,
    ) -> Result<T, LimitReached> {
        let wall = Duration::from_millis(record.limits().value(LimitKey::WallTimeMs));
        let cpu = Duration::from_millis(record.limits().value(LimitKey::CpuTimeMs));
        let mut guest = pin!(guest);
        let started = self.clock.stopwatch();
        let mut used = Duration::ZERO;
        let metered = poll_fn(|cx| {
            let before = started.elapsed();
            let polled = guest.as_mut().poll(cx);
            let after = started.elapsed();
            used = used.saturating_add(after.saturating_sub(before));
            match polled {
                Poll::Ready(ended) => Poll::Ready(Ok(ended)),
                Poll::Pending if used >= cpu => {
                    Poll::Ready(Err(record.reached(LimitKey::CpuTimeMs)))
                }
                // Where every thread computes, timers fire late; a guest that computes comes by here.
                Poll::Pending if after >= wall => {
                    Poll::Ready(Err(record.reached(LimitKey::WallTimeMs)))
                }
                Poll::Pending => Poll::Pending,
            }
        });
        tokio::time::timeout(wall, metered)
            .await
            .unwrap_or_else(|_elapsed| Err(record.reached(LimitKey::WallTimeMs)))
    }
}

/// An operation was named of a skill that has none.
fn no_operations(named: &str) -> Failure {
    let named = cut(named, NAME_BYTES_MAX);
    let message = format!("unknown operation {named:?}: the skill follows the world and has none");
    Failure {
        hint: Some("name the skill alone".to_owned()),
        ..Failure::new(OutcomeCode::NotFound, message)
    }
}
