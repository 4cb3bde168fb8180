//! A component that is ready to run, and one call of it.

use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::{Store, UpdateDeadline};

use super::bindings::SkillPre;
use super::bindings::agent::AgentPre;
use super::engine::Ticks;
use super::failure::{self, Failure};
use super::files::{self, Files};
use super::guest_record::{GuestRecord, NAME_BYTES_MAX, cut};
use super::http::{Client, Outgoing};
use super::metered::{spend_fuel, within_time};
use super::operation::{OperationDescriptor, Operations, RefusedFunction};
use super::run_host::{RunHost, Unrecorded};
use super::state::{HANDLES_MAX, HostState, Invocation, Origins, Seed};
use crate::capability::Policy;
use crate::clock::Clock;
use crate::limits::{Budget, LimitKey, Limits};
use crate::outcome::OutcomeCode;

/// A skill's component, compiled and linked. It holds no state of any run.
pub struct Program {
    entry: Entry,
    clock: Clock,
    /// It reaches for files in a way that is not watched.
    has_async_files: bool,
    /// Keeps the epoch of the component's engine going as long as the component can run.
    _ticks: Arc<Ticks>,
    http: Arc<Client>,
}

/// The way into a component.
pub(crate) enum Entry {
    /// By the world `skill`, without values whose type is only known at run time.
    Skill(SkillPre<HostState>),
    /// By the world `agent`: it is not called once, but lives.
    Agent(AgentPre<HostState>),
    /// By the functions that it exports.
    Operations(Operations),
}

/// One call of a skill.
pub struct Call {
    /// What the guest's calls reach.
    pub host: Arc<dyn RunHost>,
    /// What the run may do.
    pub policy: Arc<Policy>,
    /// Files and folders that no guest is given, nor a folder that they are in or that is in them.
    pub protected: Arc<[PathBuf]>,
    /// The bounds on this call, and what of them is used.
    pub budget: Arc<Budget>,
    /// What the guest's random numbers are made from.
    pub seed: Seed,
    /// The variables that the guest finds in its environment.
    pub environment: Arc<[(String, String)]>,
    /// Which function is called, for a component that follows no world; none: the only one.
    pub operation: Option<String>,
    /// A JSON object, as text.
    pub input: String,
    /// Whether requests are answered from the record alone: one that is not there fails, and no secret has
    /// to be configured.
    pub record_only: bool,
    /// The folder of the policy on whose path no link may be: it was looked at before, with all links followed, and
    /// is to be that one still.
    pub workspace_dir: Option<String>,
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
    /// Whether it is an agent, which is launched and not called.
    pub is_agent: bool,
    /// What can be called, in the order of the component; empty for a skill of our world.
    pub operations: Vec<OperationDescriptor>,
    /// What it exports beside that and cannot be called.
    pub refused: Vec<RefusedFunction>,
}

impl Entry {
    fn engine(&self) -> &wasmtime::Engine {
        match self {
            Self::Skill(skill) => skill.engine(),
            Self::Agent(agent) => agent.engine(),
            Self::Operations(operations) => operations.engine(),
        }
    }
}

impl Program {
    pub(crate) fn new(
        entry: Entry,
        clock: Clock,
        ticks: Arc<Ticks>,
        has_async_files: bool,
        http: Arc<Client>,
    ) -> Self {
        Self {
            entry,
            clock,
            has_async_files,
            _ticks: ticks,
            http,
        }
    }

    /// Whether its type alone says all that there is to say of it, so that its bytes are not needed again.
    pub(crate) fn is_described_by_type(&self) -> bool {
        match &self.entry {
            Entry::Skill(_) | Entry::Agent(_) => true,
            Entry::Operations(operations) => !operations.have_docs(),
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
            Entry::Agent(_) => Err(is_an_agent()),
            Entry::Operations(operations) => self.call_operation(operations, call).await,
        }
    }

    async fn call_skill(&self, skill: &SkillPre<HostState>, call: Call) -> Result<String, Failure> {
        if let Some(operation) = &call.operation {
            return Err(no_operations(operation));
        }
        let input = call.input.clone();
        let (mut store, record) = self.prepare(call, None).await?;
        let guest = async {
            let skill = skill.instantiate_async(&mut store).await;
            let skill = skill.map_err(|error| failure::from_instantiation(&error, &record))?;
            let handler = skill.skillrun_skill_handler();
            let called = handler.call_run(&mut store, &input).await;
            called.map_err(|error| failure::from_engine(&error, &record))
        };
        let ended = within_time(&self.clock, &record, guest).await;
        let fuel = spend_fuel(&mut store);
        let finished = store.data_mut().finish();
        drop(store);
        let ended = ended??;
        fuel?;
        finished?;
        let output = ended.map_err(|error| failure::from_skill(&error, &record))?;
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
        let (mut store, record) = self.prepare(call, invocation).await?;
        let guest = operations.run(&mut store, operation, &arguments, &record);
        let ended = within_time(&self.clock, &record, guest).await;
        let fuel = spend_fuel(&mut store);
        let finished = store.data_mut().finish();
        let stdout = store.data().captured_stdout();
        drop(store);
        let ended = ended??;
        fuel?;
        finished?;
        operation.answer(ended, &stdout?, &record)
    }

    /// Whether it is an agent, which lives in a session and is not called.
    pub fn is_agent(&self) -> bool {
        matches!(self.entry, Entry::Agent(_))
    }

    pub(super) fn agent(&self) -> Option<&AgentPre<HostState>> {
        match &self.entry {
            Entry::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What stands behind the one instance of a call.
    pub(super) async fn prepare(
        &self,
        call: Call,
        invocation: Option<Invocation>,
    ) -> Result<(Store<HostState>, Arc<GuestRecord>), Failure> {
        if self.has_async_files {
            files::check_no_folder(&call.policy)?;
        }
        let (protected, workspace_dir) = (&call.protected, call.workspace_dir);
        let files = Files::open(&call.policy, &call.budget, protected, workspace_dir).await?;
        let record = Arc::new(GuestRecord::new(call.host, call.budget, self.clock.clone()));
        let origins = Origins::new(call.seed, call.environment, invocation);
        let store = self.store(&record, call.policy, files, origins, call.record_only)?;
        Ok((store, record))
    }

    /// Asks the component what it is. It gets no capability and leaves no record. Of a component that
    /// follows no world nothing is run.
    ///
    /// # Errors
    /// The guest traps or meets a limit.
    pub async fn describe(&self, limits: Arc<Limits>) -> Result<Descriptor, Failure> {
        if let Entry::Operations(operations) = &self.entry {
            return Ok(Descriptor {
                operations: operations.describe(),
                refused: operations.refused().to_vec(),
                ..Descriptor::default()
            });
        }
        let host = Arc::new(Unrecorded::default());
        let budget = Arc::new(Budget::new(limits, None));
        let record = Arc::new(GuestRecord::new(host, budget, self.clock.clone()));
        let (policy, files) = (Arc::default(), Files::default());
        let mut store = self.store(&record, policy, files, Origins::default(), false)?;
        let guest = async {
            let called = match &self.entry {
                Entry::Agent(agent) => {
                    let agent = agent.instantiate_async(&mut store).await;
                    let agent =
                        agent.map_err(|error| failure::from_instantiation(&error, &record))?;
                    let handler = agent.skillrun_skill_session_handler();
                    handler.call_describe(&mut store).await
                }
                Entry::Skill(skill) => {
                    let skill = skill.instantiate_async(&mut store).await;
                    let skill =
                        skill.map_err(|error| failure::from_instantiation(&error, &record))?;
                    let handler = skill.skillrun_skill_handler();
                    handler.call_describe(&mut store).await
                }
                Entry::Operations(_) => return Err(is_an_agent()),
            };
            called.map_err(|error| failure::from_engine(&error, &record))
        };
        let ended = within_time(&self.clock, &record, guest).await;
        drop(store);
        let descriptor = ended??;
        Ok(Descriptor {
            is_agent: self.is_agent(),
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
        policy: Arc<Policy>,
        files: Files,
        origins: Origins,
        record_only: bool,
    ) -> Result<Store<HostState>, Failure> {
        let limits = record.limits();
        let outgoing = Outgoing::new(
            Arc::clone(&self.http),
            Arc::clone(&policy),
            Arc::clone(record),
            record_only,
        )?;
        let state = HostState::new(Arc::clone(record), policy, files, origins, outgoing);
        let mut store = Store::new(self.entry.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store
            .set_fuel(record.budget().remaining(LimitKey::Fuel))
            .map_err(|error| Failure::new(OutcomeCode::Internal, error.to_string()))?;
        let crossing = limits
            .value(LimitKey::HostCallBytes)
            .max(limits.value(LimitKey::OutputBytes));
        store.set_hostcall_fuel(usize::try_from(crossing).unwrap_or(usize::MAX));
        store.set_max_component_handles(HANDLES_MAX);
        // At each tick the guest hands the thread back, so that others run and a deadline or a
        // cancellation is seen. What it has executed is noted, because runs that go on at the same time
        // may draw on the same budget. The engine keeps count from one call of a function to the next,
        // so a loop that calls nothing is noted when it ends; until then its processor time bounds it.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut store| {
            let left = store.get_fuel()?;
            store.data_mut().spend_fuel(left)?;
            Ok(UpdateDeadline::Yield(1))
        });
        Ok(store)
    }
}

/// An agent was called as if it were a skill.
fn is_an_agent() -> Failure {
    let message = "the component is an agent: it is launched and prompted, and cannot be called";
    Failure {
        hint: Some("skillrun agent chat talks to it".to_owned()),
        ..Failure::new(OutcomeCode::LoadError, message)
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
