//! From what a client asks for to a run that is on record: a new one, or the one that the client answers.

use rmcp::RoleServer;
use rmcp::model::{ErrorData, InputResponses};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::answer::protocol_error;
use super::client::Client;
use super::gates::{self, Asked};
use super::request_state::State;
use crate::config::OnRestart;
use crate::id::RunId;
use crate::ledger::{
    ClientFacts, Digest, Event, RunStarted, RunState, Store, StoreError, TaskFacts,
};
use crate::outcome::OutcomeCode;
use crate::runner::{Caller, JsonObject, NotRestarted, ResumeError, RunError, StartOptions};
use crate::telemetry::chain;
use crate::trace_context::TraceContext;

/// What a client asks for, as the run that it is to be.
pub(super) struct Job {
    /// What the runner is asked for.
    pub(super) target: String,
    /// What the skill is given.
    pub(super) input: JsonObject,
    /// The digest of what was asked for: method, name and arguments.
    pub(super) digest: String,
    /// What the client's run is to it, if it is a task.
    pub(super) task: Option<TaskFacts>,
    /// What it answers, by key.
    pub(super) answers: InputResponses,
    /// What it was given to bring back with the answers.
    pub(super) state: Option<String>,
}

impl Job {
    /// A job that is asked for by `method` with `name` and these arguments.
    ///
    /// # Errors
    /// The arguments are no input for any skill.
    pub(super) fn new(
        method: &str,
        name: &str,
        target: String,
        arguments: Option<Map<String, Value>>,
    ) -> Result<Self, ErrorData> {
        let given = Value::Object(arguments.unwrap_or_default());
        let input = JsonObject::parse(given.to_string())
            .map_err(|error| ErrorData::invalid_params(format!("arguments: {error}"), None))?;
        let asked = json!([method, name, ordered(&given)]).to_string();
        Ok(Self {
            target,
            input,
            digest: Digest::of(asked.as_bytes()).to_string(),
            task: None,
            answers: InputResponses::default(),
            state: None,
        })
    }

    /// With what the client brings back.
    pub(super) fn with_answers(
        mut self,
        answers: Option<InputResponses>,
        state: Option<String>,
    ) -> Self {
        self.answers = answers.unwrap_or_default();
        self.state = state;
        self
    }
}

impl Mcp {
    /// The run of a job, which goes on when this returns.
    ///
    /// # Errors
    /// There is none: nothing was begun, and nothing was answered.
    pub(super) async fn begin(
        &self,
        client: &Client,
        job: &mut Job,
        cx: &RequestContext<RoleServer>,
    ) -> Result<RunId, ErrorData> {
        if let Some(state) = job.state.clone() {
            return self.answer(client, job, &state).await;
        }
        let trace = cx.meta.get_traceparent();
        let trace =
            trace.and_then(|parent| TraceContext::parse(parent, cx.meta.get_tracestate()).ok());
        let caller = Caller::new()
            .with_client(client.facts(&job.digest, job.task.clone()))
            .with_trace(trace);
        let options = StartOptions::new(job.target.clone(), job.input.clone());
        let started = self.host().runner().start(caller, options).await;
        Ok(started.map_err(not_started)?.run_id)
    }

    /// Answers the run that the client was asked by.
    async fn answer(
        &self,
        client: &Client,
        job: &mut Job,
        state: &str,
    ) -> Result<RunId, ErrorData> {
        let refused = || {
            let message = "requestState is none that this request was answered with, or it is over";
            ErrorData::invalid_params(message, None)
        };
        let opened = self.states().open(state, client.id(), &job.digest);
        let State { run_id, asked } = opened.ok_or_else(refused)?;
        let store = self.host().store().clone();
        let started = reading({
            let (store, run_id) = (store.clone(), run_id.clone());
            move || started(&store, &run_id)
        });
        let started = started.await.map_err(|error| internal(&error))?;
        // The state says so already; a ledger of another client's would be one that was put there.
        let facts = started.and_then(|started| started.client);
        let is_own = |facts: &ClientFacts| client.owns(facts) && facts.request_digest == job.digest;
        let facts = facts.filter(|facts| is_own(facts)).ok_or_else(refused)?;
        // Whether it is a task was settled when it began.
        job.task = facts.task;
        self.decide(&run_id, job.answers.clone(), move |open| {
            asked.contains(&open.key)
        })
        .await?;
        self.attend(&run_id, true)
            .await
            .map_err(|stuck| stuck.error(&run_id))?;
        Ok(run_id)
    }

    /// Files what a client answered, of the questions that `takes` lets it answer.
    ///
    /// # Errors
    /// An answer is none to its question. Nothing was filed then.
    pub(super) async fn decide(
        &self,
        run_id: &RunId,
        answers: InputResponses,
        takes: impl Fn(&Asked) -> bool + Send + 'static,
    ) -> Result<(), ErrorData> {
        let (store, run_id) = (self.host().store().clone(), run_id.clone());
        let decided = reading(move || {
            let open = gates::open(&store, &run_id)?;
            let decided = match gates::answered(open, &answers, takes) {
                Ok(decided) => decided,
                Err(problem) => return Ok(Err(problem)),
            };
            for (asked, decision) in decided {
                if let Err(error) = asked.decide(&store, &decision) {
                    return Ok(Err(format!("inputResponses.{}: {error}", asked.key)));
                }
            }
            Ok(Ok(()))
        });
        let decided = decided.await.map_err(|error| internal(&error))?;
        decided.map_err(|problem| ErrorData::invalid_params(problem, None))
    }

    /// Sees to it that a run that can go on does so, when nobody carries it out: its process may be gone. One that is
    /// answered goes on also where the operator wants runs to wait after a restart.
    ///
    /// # Errors
    /// It does not go on by itself.
    pub(super) async fn attend(&self, run_id: &RunId, is_answered: bool) -> Result<(), Stuck> {
        let runner = self.host().runner();
        if runner.is_live(run_id) {
            return Ok(());
        }
        let (store, id) = (self.host().store().clone(), run_id.clone());
        let summary = reading(move || store.summary(&id)).await;
        let summary = summary.map_err(|error| Stuck::unread(&error))?;
        let has_writer = summary.state == RunState::Running && summary.writer_pid.is_some();
        if has_writer || !summary.state.may_go_on() {
            return Ok(());
        }
        let mut recovery = self.host().config().recovery;
        if is_answered {
            recovery.on_restart = OnRestart::Resume;
        }
        match runner.restart(run_id, recovery).await {
            // Somebody resumes it by hand, as the operator wants it.
            Ok(_) | Err(NotRestarted::Configured | NotRestarted::Inside(_)) => Ok(()),
            Err(NotRestarted::Refused(error)) if is_taken(&error) => Ok(()),
            Err(error) => {
                tracing::warn!(%run_id, error = chain(&error), "a run does not go on");
                Err(Stuck {
                    code: match &error {
                        NotRestarted::Stopped(code) => *code,
                        NotRestarted::Refused(error) => error.code(),
                        _ => OutcomeCode::Interrupted,
                    },
                })
            }
        }
    }
}

/// Somebody else was faster.
fn is_taken(error: &RunError) -> bool {
    matches!(
        error,
        RunError::NotResumed(ResumeError::Ledger {
            source: StoreError::Locked { .. } | StoreError::Ended { .. },
            ..
        })
    )
}

/// A run that does not go on by itself. Why not names what is the host's own, and is in its log.
#[derive(Debug)]
pub(super) struct Stuck {
    code: OutcomeCode,
}

impl Stuck {
    fn unread(error: &StoreError) -> Self {
        tracing::error!(error = chain(error), "cannot read a run");
        Self {
            code: OutcomeCode::Internal,
        }
    }

    /// What a client is told of it.
    pub(super) fn error(&self, run_id: &RunId) -> ErrorData {
        let message = format!("the run does not go on by itself: {}", self.code);
        let hint = format!("skillrun runs explain {run_id} says why");
        protocol_error(run_id, self.code, message, Some(&hint))
    }
}

/// The same value with the members of each object in the order of their names, so that how they are ordered makes no
/// other request.
fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let ordered_member = |(name, value): (&String, &Value)| (name.clone(), ordered(value));
            Value::Object(members.into_iter().map(ordered_member).collect())
        }
        Value::Array(items) => items.iter().map(ordered).collect(),
        other => other.clone(),
    }
}

/// The first event of a run; none when there is no such run.
pub(super) fn started(store: &Store, run_id: &RunId) -> Result<Option<RunStarted>, StoreError> {
    let page = match store.read(run_id, 1, 1) {
        Err(StoreError::NotFound { .. }) => return Ok(None),
        page => page?,
    };
    let first = page.entries.into_iter().find_map(|entry| match entry {
        crate::ledger::Entry::Record(record) => Some(record.event()),
        _ => None,
    });
    Ok(match first {
        Some(Event::RunStarted(started)) => Some(started),
        _ => None,
    })
}

/// Reads ledgers on a thread where nobody waits for others.
pub(super) async fn reading<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or(Err(StoreError::ShutDown))
}

/// What went wrong in the host is for its log; the client is told that it did.
pub(super) fn internal(error: &(dyn std::error::Error + 'static)) -> ErrorData {
    tracing::error!(error = chain(error), "a request of an MCP client failed");
    ErrorData::internal_error("the host failed", Some(json!({ "code": "internal" })))
}

/// Why there is no run. What can be told is.
pub(super) fn not_started(error: RunError) -> ErrorData {
    let code = error.code().as_str();
    let data = Some(json!({ "code": code, "hint": error.hint() }));
    match &error {
        RunError::NoLedger { .. } | RunError::LedgerUnavailable { .. } => internal(&error),
        _ => ErrorData::internal_error(error.to_string(), data),
    }
}
