//! Tasks: runs that their client asks after, and does not wait for. Whatever is told of one is read from its ledger,
//! so a task is the same after a restart.

use rmcp::RoleServer;
use rmcp::model::{
    CancelTaskParams, DetailedTask, ErrorData, GetTaskParams, GetTaskResult, InputResponses,
    JsonObject, Task, TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::Value;

use super::Mcp;
use super::answer;
use super::client::Client;
use super::gates::{self, Asked, requests};
use super::start::{internal, reading, started};
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{
    Entry, Event, RunCompleted, RunState, RunStatus, Store, StoreError, Summary, TaskFacts,
};
use crate::outcome::OutcomeCode;

const MICROS_PER_MS: i64 = 1_000;

/// What the ledger of a task says.
struct Read {
    summary: Summary,
    facts: TaskFacts,
}

impl Mcp {
    /// `tasks/get`.
    pub(super) async fn get_task(
        &self,
        request: GetTaskParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = Client::of(self, cx);
        let (run_id, read) = self.task(&client, &request.task_id).await?;
        let payload = self.payload(&client, &run_id, &read).await?;
        let task = self.task_as_told(&read.summary, &read.facts);
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// `tasks/update`: what of the answers answers nothing, or is no answer, is left out.
    pub(super) async fn update_task(
        &self,
        request: UpdateTaskParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (run_id, _read) = self.task(&Client::of(self, cx), &request.task_id).await?;
        let (store, id) = (self.host().store().clone(), run_id.clone());
        let answers = request.input_responses;
        let decided = reading(move || decide_each(&store, &id, &answers)).await;
        decided.map_err(|error| internal(&error))?;
        // Why it does not go on, the client is told when it asks after it.
        let _stuck = self.attend(&run_id, true).await;
        Ok(())
    }

    /// `tasks/cancel`. One that has ended stays as it is.
    pub(super) async fn cancel_task(
        &self,
        request: CancelTaskParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (run_id, read) = self.task(&Client::of(self, cx), &request.task_id).await?;
        let is_live = self.host().runner().cancel(&run_id);
        if !is_live && read.summary.state.may_go_on() {
            self.host().runner().cancel_unattended(&run_id).await;
        }
        Ok(())
    }

    /// The task that a run is, as its client is told of it.
    pub(super) async fn task_of(&self, run_id: &RunId) -> Result<Task, ErrorData> {
        let (store, id) = (self.host().store().clone(), run_id.clone());
        let read = reading(move || Ok((store.summary(&id)?, started(&store, &id)?))).await;
        let (summary, started) = read.map_err(|error| internal(&error))?;
        let ttl_ms = self.settings().task_ttl_ms;
        let facts = started.and_then(|started| started.client?.task);
        Ok(self.task_as_told(
            &summary,
            &facts.unwrap_or(TaskFacts {
                ttl_ms,
                is_content: false,
            }),
        ))
    }

    /// A task of that client. Of another one's it is not told that there is one.
    async fn task(&self, client: &Client, id: &str) -> Result<(RunId, Read), ErrorData> {
        let unknown = || {
            let message = "there is no such task, or its time is over";
            ErrorData::invalid_params(message, None)
        };
        let run_id: RunId = id.parse().map_err(|_| unknown())?;
        let (store, read_id) = (self.host().store().clone(), run_id.clone());
        let read = reading(move || match started(&store, &read_id)? {
            Some(started) => Ok(Some((store.summary(&read_id)?, started))),
            None => Ok(None),
        });
        let read = read.await.map_err(|error| internal(&error))?;
        let (summary, started) = read.ok_or_else(unknown)?;
        let facts = started.client.filter(|facts| client.owns(facts));
        let facts = facts.and_then(|facts| facts.task).ok_or_else(unknown)?;
        let now = self.host().clock().now();
        match is_over(&summary, &facts, now) {
            true => Err(unknown()),
            false => Ok((run_id, Read { summary, facts })),
        }
    }

    fn task_as_told(&self, summary: &Summary, facts: &TaskFacts) -> Task {
        let now = self.host().clock().now();
        Task::new(
            summary.run_id.as_str(),
            status(summary.state),
            summary.started_at.unwrap_or(now).to_string(),
            summary.ended_at.unwrap_or(now).to_string(),
        )
        .with_ttl_ms(facts.ttl_ms)
        .with_poll_interval_ms(self.settings().poll_interval_ms)
    }

    /// How far it is: what it wants to know, or how it ended.
    async fn payload(
        &self,
        client: &Client,
        run_id: &RunId,
        read: &Read,
    ) -> Result<TaskPayload, ErrorData> {
        match status(read.summary.state) {
            TaskStatus::Cancelled => Ok(TaskPayload::Cancelled),
            TaskStatus::Completed => self.end(run_id, read).await,
            TaskStatus::Failed => {
                let message = "the ledger of the run is damaged".to_owned();
                let error = answer::protocol_error(run_id, OutcomeCode::Internal, message, None);
                failed(&error)
            }
            _ => {
                if let Err(stuck) = self.attend(run_id, false).await {
                    return failed(&stuck.error(run_id));
                }
                let (store, id) = (self.host().store().clone(), run_id.clone());
                let open = reading(move || gates::open(&store, &id)).await;
                let open = open.map_err(|error| internal(&error))?;
                let can = |asked: &Asked| client.can(asked.feature);
                let asked: Vec<Asked> = open.into_iter().filter(can).collect();
                Ok(match asked.is_empty() {
                    true => TaskPayload::Working,
                    false => TaskPayload::InputRequired {
                        input_requests: requests(&asked),
                    },
                })
            }
        }
    }

    /// What the client would have been answered, had it waited.
    async fn end(&self, run_id: &RunId, read: &Read) -> Result<TaskPayload, ErrorData> {
        let (store, id, last) = (
            self.host().store().clone(),
            run_id.clone(),
            read.summary.head.seq,
        );
        let end = reading(move || completed(&store, &id, last)).await;
        let end = end.map_err(|error| internal(&error))?;
        let Some(end) = end else {
            return Ok(TaskPayload::Working);
        };
        match answer::tool(run_id, &end, read.facts.is_content) {
            Ok(result) => Ok(TaskPayload::Completed {
                result: object(&result)?,
            }),
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &ErrorData) -> Result<TaskPayload, ErrorData> {
    Ok(TaskPayload::Failed {
        error: object(error)?,
    })
}

fn object(value: &impl Serialize) -> Result<JsonObject, ErrorData> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Ok(JsonObject::new()),
        Err(error) => Err(internal(&error)),
    }
}

/// The last event of a run, whole, if it is its end.
fn completed(store: &Store, run_id: &RunId, last: u64) -> Result<Option<RunCompleted>, StoreError> {
    let page = store.read(run_id, last, 1)?;
    let Some(Entry::Record(record)) = page.entries.into_iter().next() else {
        return Ok(None);
    };
    Ok(match store.whole(run_id, record.event())? {
        Event::RunCompleted(end) => Some(end),
        _ => None,
    })
}

/// Files each answer that is one to an open question.
fn decide_each(store: &Store, run_id: &RunId, answers: &InputResponses) -> Result<(), StoreError> {
    for asked in gates::open(store, run_id)? {
        let Some(Ok(decision)) = answers.get(&asked.key).map(|answer| asked.decision(answer))
        else {
            continue;
        };
        if let Err(error) = asked.decide(store, &decision) {
            let error = crate::telemetry::chain(&error);
            tracing::warn!(%run_id, error, "an answer was not taken");
        }
    }
    Ok(())
}

/// Whether its client can no longer count on it. One that goes on is not over.
fn is_over(summary: &Summary, facts: &TaskFacts, now: Timestamp) -> bool {
    let Some(began) = summary.started_at.filter(|_| !summary.state.may_go_on()) else {
        return false;
    };
    let ttl_micros = i64::try_from(facts.ttl_ms)
        .unwrap_or(i64::MAX)
        .saturating_mul(MICROS_PER_MS);
    now.unix_micros() > began.unix_micros().saturating_add(ttl_micros)
}

fn status(state: RunState) -> TaskStatus {
    match state {
        RunState::Ended(RunStatus::Cancelled) => TaskStatus::Cancelled,
        RunState::Ended(RunStatus::Ok | RunStatus::Error) => TaskStatus::Completed,
        RunState::Running | RunState::Ended(RunStatus::Suspended | RunStatus::Interrupted) => {
            TaskStatus::Working
        }
        RunState::Corrupt => TaskStatus::Failed,
    }
}
