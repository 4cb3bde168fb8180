//! An agent that lives: one instance, called again and again, with its memory kept in between.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime_wasi::I32Exit;

use super::bindings::agent::Agent;
use super::bindings::agent::exports::skillrun::skill::session_handler::{Context, StopReason};
use super::bindings::skillrun::skill::types::SkillError;
use super::failure::{self, Failure};
use super::guest_record::GuestRecord;
use super::metered::{spend_fuel, within_time};
use super::program::{Call, Program};
use super::state::HostState;
use crate::call::TurnStop;
use crate::clock::Clock;
use crate::outcome::OutcomeCode;

/// Where and how an execution runs, as its guest is told when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionContext {
    /// The session that it serves.
    pub session_id: String,
    /// Where the guest finds its workspace; none when it has none.
    pub workspace: Option<String>,
    /// The mode of its tools.
    pub mode: String,
    /// A JSON object, as text.
    pub metadata: String,
}

/// What a call of an agent came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned<T> {
    /// It returned.
    Value(T),
    /// It returned an error, which ends no more than the call.
    Error(Failure),
    /// It ended itself with this status.
    Exited(i32),
}

/// An agent's instance. Dropping it ends the guest at once.
pub struct LiveSession {
    store: Store<HostState>,
    agent: Agent,
    record: Arc<GuestRecord>,
    clock: Clock,
}

impl Program {
    /// Makes the instance of an agent. Nothing of the guest but its initialisation is run.
    ///
    /// # Errors
    /// It is no agent, there is no place for it, or it fails while it is made.
    pub async fn open_session(&self, call: Call) -> Result<LiveSession, Failure> {
        let Some(agent) = self.agent() else {
            let message = "the component is no agent: it is called, and cannot be launched";
            return Err(Failure::new(OutcomeCode::LoadError, message));
        };
        let (mut store, record) = self.prepare(call, None).await?;
        let guest = async {
            let made = agent.instantiate_async(&mut store).await;
            made.map_err(|error| failure::from_instantiation(&error, &record))
        };
        let made = within_time(self.clock(), &record, guest).await;
        let agent = made??;
        Ok(LiveSession {
            store,
            agent,
            record,
            clock: self.clock().clone(),
        })
    }
}

impl LiveSession {
    /// Lets the agent start.
    ///
    /// # Errors
    /// The guest trapped or met a limit. It cannot be called again.
    pub async fn start(&mut self, context: &SessionContext) -> Result<Returned<()>, Failure> {
        let context = Context {
            session_id: context.session_id.clone(),
            workspace: context.workspace.clone(),
            mode: context.mode.clone(),
            metadata: context.metadata.clone(),
        };
        let handler = self.agent.skillrun_skill_session_handler();
        let called = handler.call_start(&mut self.store, &context);
        let ended = within_time(&self.clock, &self.record, called).await;
        self.returned(ended?)
    }

    /// One turn. Dropping the future leaves the guest in the middle of it: then it cannot be called again.
    ///
    /// # Errors
    /// The guest trapped or met a limit. It cannot be called again.
    pub async fn prompt(&mut self, text: &str) -> Result<Returned<TurnStop>, Failure> {
        let handler = self.agent.skillrun_skill_session_handler();
        let called = handler.call_prompt(&mut self.store, text);
        let ended = within_time(&self.clock, &self.record, called).await;
        Ok(match self.returned(ended?)? {
            Returned::Value(stop) => Returned::Value(match stop {
                StopReason::EndTurn => TurnStop::EndTurn,
                StopReason::TokenLimit => TurnStop::TokenLimit,
                StopReason::Refusal => TurnStop::Refusal,
                StopReason::Cancelled => TurnStop::Cancelled,
            }),
            Returned::Error(failure) => Returned::Error(failure),
            Returned::Exited(status) => Returned::Exited(status),
        })
    }

    /// Lets the agent know that it is over.
    ///
    /// # Errors
    /// The guest trapped or met a limit.
    pub async fn finish(&mut self) -> Result<Returned<()>, Failure> {
        let handler = self.agent.skillrun_skill_session_handler();
        let called = handler.call_finish(&mut self.store);
        let ended = within_time(&self.clock, &self.record, called).await;
        self.returned(ended?.map(Ok))
    }

    /// Puts on record what the guest left open, after its last call.
    ///
    /// # Errors
    /// What it took goes beyond a limit.
    pub fn close(mut self) -> Result<(), Failure> {
        Ok(self.store.data_mut().finish()?)
    }

    /// Ends the guest, in the middle of a call perhaps, and puts it on record that its requests are given up: an
    /// instance in its place is told so of those that it had from an earlier call, and nobody has to guess what came
    /// of them.
    pub fn give_up(mut self) {
        self.store.data_mut().give_up_requests();
    }

    fn returned<T>(
        &mut self,
        called: wasmtime::Result<Result<T, SkillError>>,
    ) -> Result<Returned<T>, Failure> {
        let fuel = spend_fuel(&mut self.store);
        let returned = match called {
            Ok(Ok(value)) => Returned::Value(value),
            Ok(Err(error)) => Returned::Error(failure::from_skill(&error, &self.record)),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(I32Exit(status)) => Returned::Exited(*status),
                None => return Err(failure::from_engine(&error, &self.record)),
            },
        };
        fuel?;
        Ok(returned)
    }
}
