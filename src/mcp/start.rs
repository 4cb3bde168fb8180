//! From what a client asks for to a run that is on record: a new one, or the one that the client answers.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, InputResponses};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::client::Client;
use super::gates;
use crate::id::RunId;
use crate::ledger::{Digest, Event, RunStarted, RunState, RunStatus, Store, StoreError, TaskFacts};
use crate::runner::{Caller, JsonObject, ResumeError, ResumeOptions, RunError, StartOptions};
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
        let arguments = Value::Object(arguments.unwrap_or_default()).to_string();
        let input = JsonObject::parse(&arguments)
            .map_err(|error| ErrorData::invalid_params(format!("arguments: {error}"), None))?;
        let asked = json!([method, name, arguments]).to_string();
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
        job: &Job,
        cx: &RequestContext<RoleServer>,
    ) -> Result<RunId, ErrorData> {
        if let Some(state) = &job.state {
            return self.answer(client, job, state).await;
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
    async fn answer(&self, client: &Client, job: &Job, state: &str) -> Result<RunId, ErrorData> {
        let refused = || {
            let message = "requestState is none that this request was answered with, or it is over";
            ErrorData::invalid_params(message, None)
        };
        let opened = self.states().open(state, client.id(), &job.digest);
        let run_id = opened.ok_or_else(refused)?.run_id;
        let store = self.host().store().clone();
        let started = reading({
            let (store, run_id) = (store.clone(), run_id.clone());
            move || started(&store, &run_id)
        });
        let started = started.await.map_err(|error| internal(&error))?;
        // The state says so already; a ledger of another client's would be one that was put there.
        let facts = started.and_then(|started| started.client);
        if !facts.is_some_and(|facts| client.owns(&facts) && facts.request_digest == job.digest) {
            return Err(refused());
        }
        self.decide(&run_id, job.answers.clone(), |_| true).await?;
        self.attend(&run_id).await?;
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
        takes: impl Fn(&gates::Asked) -> bool + Send + 'static,
    ) -> Result<(), ErrorData> {
        let (store, run_id) = (self.host().store().clone(), run_id.clone());
        let decided = reading(move || {
            let open = gates::open(&store, &run_id)?;
            let decided = match gates::answered(open, &answers, takes) {
                Ok(answered) => answered,
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

    /// Sees to it that a run that can go on does so, when nobody carries it out: its process may be gone.
    ///
    /// # Errors
    /// It cannot go on.
    pub(super) async fn attend(&self, run_id: &RunId) -> Result<(), ErrorData> {
        let runner = self.host().runner();
        if runner.is_live(run_id) {
            return Ok(());
        }
        let (store, id) = (self.host().store().clone(), run_id.clone());
        let summary = reading(move || store.summary(&id)).await;
        let summary = summary.map_err(|error| internal(&error))?;
        let goes_on = match summary.state {
            RunState::Running => summary.writer_pid.is_none(),
            RunState::Ended(status) => {
                matches!(status, RunStatus::Suspended | RunStatus::Interrupted)
            }
            RunState::Corrupt => false,
        };
        if !goes_on {
            return Ok(());
        }
        let resumed = runner.start_resume(Caller::new(), run_id, ResumeOptions::default());
        match resumed.await {
            Ok(_)
            // Somebody else was faster.
            | Err(RunError::NotResumed(ResumeError::Ledger {
                source: StoreError::Locked { .. } | StoreError::Ended { .. },
                ..
            })) => Ok(()),
            Err(error) => Err(not_started(error)),
        }
    }

    /// For how long a question of a run can be answered.
    pub(super) fn answer_time(&self) -> Duration {
        self.settings().input_timeout()
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
        RunError::NotResumed(_) => {
            tracing::warn!(error = chain(&error), "a run does not go on");
            ErrorData::internal_error("the run cannot go on", data)
        }
        _ => ErrorData::internal_error(error.to_string(), data),
    }
}
