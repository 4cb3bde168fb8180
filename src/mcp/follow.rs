//! A run of a client, followed until there is something to answer its request with.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, InputRequest};
use rmcp::service::{RequestContext, ServiceError};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Mcp;
use super::client::Client;
use super::gates::{self, Asked};
use super::notes::Notes;
use super::start::{Job, internal, reading};
use crate::id::RunId;
use crate::ledger::{
    Delivery, Entry, Event, RunCompleted, RunStatus, Store, StoreError, Subscription,
};
use crate::runner::Runner;
use crate::telemetry::chain;

/// How often it is looked whether a run inside the run asks something, while there is one. What the run itself asks is
/// seen at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Why a question of a run is answered with no, where its client cannot be asked it.
const CANNOT_BE_ASKED: &str =
    "the client of the run cannot be asked: it did not declare elicitation";

/// Why a run is followed no further.
pub(super) enum Stop {
    /// It ended so.
    Ended(Box<RunCompleted>),
    /// It waits for answers of its client, which comes back with them.
    Asks(Vec<Asked>),
    /// It takes longer than its client should wait.
    TakesLong,
}

/// What came of asking a client directly.
enum Answered {
    /// Its answer.
    With(Value),
    /// It does not answer such a question.
    Refused(String),
    /// It went away, or said nothing that could be understood.
    Nothing,
}

type Answer = (Asked, Answered);

/// One run that is followed for one request.
struct Following<'a> {
    mcp: &'a Mcp,
    client: &'a Client,
    job: &'a Job,
    run_id: &'a RunId,
    notes: Notes,
    /// Runs inside the run that go on.
    inside: BTreeSet<String>,
    /// Questions that the client was asked directly, by the key of each.
    asked: BTreeSet<String>,
    answers: JoinSet<Answer>,
}

/// Cancels a run whose client went away before it was answered.
struct CancelOnDrop<'a> {
    runner: &'a Runner,
    run_id: &'a RunId,
    is_answered: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.runner.cancel(self.run_id);
        }
    }
}

impl Mcp {
    /// Follows a run until its client can be answered, and tells it meanwhile what it wants to know. Should the
    /// request be cancelled, or this future be dropped, the run is cancelled too.
    ///
    /// # Errors
    /// The request was cancelled, or the ledger cannot be read.
    pub(super) async fn follow(
        &self,
        client: &Client,
        job: &Job,
        run_id: &RunId,
        notes: Notes,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Stop, ErrorData> {
        // It is let go of after the run is cancelled.
        let _followed = self.followed().token();
        let mut guard = CancelOnDrop {
            runner: self.host().runner(),
            run_id,
            is_answered: false,
        };
        let following = Following {
            mcp: self,
            client,
            job,
            run_id,
            notes,
            inside: BTreeSet::new(),
            asked: BTreeSet::new(),
            answers: JoinSet::new(),
        };
        let stop = tokio::select! {
            biased;
            () = cx.ct.cancelled() => return Err(cancelled()),
            stop = following.until_answerable() => stop?,
        };
        guard.is_answered = true;
        Ok(stop)
    }
}

fn cancelled() -> ErrorData {
    ErrorData::internal_error(
        "the request was cancelled",
        Some(json!({ "code": "cancelled" })),
    )
}

impl Following<'_> {
    fn store(&self) -> &Store {
        self.mcp.host().store()
    }

    /// What is on record of the run from now on, or from its beginning if it begins now.
    fn subscribed(&self) -> Result<Subscription, StoreError> {
        let subscribed = match self.job.state {
            None => self.store().subscribe(self.run_id, 1),
            Some(_) => self.store().subscribe_newest(self.run_id),
        };
        Ok(subscribed?.through_suspensions())
    }

    async fn until_answerable(mut self) -> Result<Stop, ErrorData> {
        let mut events = self.subscribed().map_err(|error| internal(&error))?;
        let is_task = self.job.task.is_some();
        let mut too_long = std::pin::pin!(tokio::time::sleep(self.mcp.settings().task_after()));
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                event = events.next() => {
                    let event = event.map_err(|error| internal(&error))?;
                    if let Some(stop) = self.take(event).await? {
                        return Ok(stop);
                    }
                }
                Some(Ok((asked, answer))) = self.answers.join_next() => self.answered(asked, answer).await?,
                _ = looks.tick(), if !self.inside.is_empty() && !self.client.is_stateless() => {
                    self.ask().await?;
                }
                () = &mut too_long, if is_task => return Ok(Stop::TakesLong),
            }
        }
    }

    /// What the next line of the ledger means for the client.
    async fn take(&mut self, delivery: Option<Delivery>) -> Result<Option<Stop>, ErrorData> {
        let record = match delivery {
            Some(Delivery::Entry(Entry::Record(record))) => record,
            Some(_) => return Ok(None),
            // Nobody carries it out any more, and it has no end.
            None => return Err(interrupted(self.run_id)),
        };
        let event = record.event();
        self.notes.tell(&event, record.origin, record.time).await;
        match event {
            Event::RunCompleted(end) if end.status == RunStatus::Suspended => {
                return match self.client.is_stateless() {
                    true => self.asks().await,
                    false => Ok(None),
                };
            }
            event @ Event::RunCompleted(_) => {
                let (store, run_id) = (self.store().clone(), self.run_id.clone());
                let whole = reading(move || store.whole(&run_id, event));
                return match whole.await.map_err(|error| internal(&error))? {
                    Event::RunCompleted(end) if end.status == RunStatus::Interrupted => {
                        Err(interrupted(self.run_id))
                    }
                    Event::RunCompleted(end) => Ok(Some(Stop::Ended(Box::new(end)))),
                    _ => Ok(None),
                };
            }
            Event::ApprovalRequest(_) if !self.client.is_stateless() => self.ask().await?,
            Event::ToolCall(call) if call.child_run_id.is_some() => {
                self.inside.insert(call.call_id);
            }
            Event::ToolResult(result) => {
                self.inside.remove(&result.call_id);
            }
            _ => {}
        }
        Ok(None)
    }

    /// What the run and those inside it wait for.
    async fn open(&self) -> Result<Vec<Asked>, ErrorData> {
        let (store, run_id) = (self.store().clone(), self.run_id.clone());
        let open = reading(move || gates::open(&store, &run_id)).await;
        open.map_err(|error| internal(&error))
    }

    /// Of a run that waits: what its client is to be asked, unless it has answered already.
    async fn asks(&self) -> Result<Option<Stop>, ErrorData> {
        if self.job.state.is_none() && !self.job.answers.is_empty() {
            // What a skill wants of its client, the client may give unasked. A yes is only one to a question that
            // was asked of it.
            let answers = self.job.answers.clone();
            let takes = |asked: &Asked| !asked.is_approval();
            self.mcp.decide(self.run_id, answers, takes).await?;
        }
        let mut asks = Vec::new();
        let mut waits_for_others = false;
        for asked in self.open().await? {
            match self.client.can(asked.feature) {
                true => asks.push(asked),
                false => waits_for_others |= !self.refuse_unless_task(asked).await?,
            }
        }
        Ok(match asks.is_empty() {
            false => Some(Stop::Asks(asks)),
            true => waits_for_others.then_some(Stop::TakesLong),
        })
    }

    /// Asks the client directly what it was not asked yet.
    async fn ask(&mut self) -> Result<(), ErrorData> {
        for asked in self.open().await? {
            if !self.asked.insert(asked.key.clone()) {
                continue;
            }
            if !self.client.can(asked.feature) {
                self.refuse_unless_task(asked).await?;
                continue;
            }
            let client = self.client.clone();
            // For how long it is waited, the question itself says.
            self.answers.spawn(async move {
                let answer = put(&client, asked.request()).await;
                (asked, answer)
            });
        }
        Ok(())
    }

    async fn answered(&self, asked: Asked, answer: Answered) -> Result<(), ErrorData> {
        let decision = match answer {
            Answered::With(answer) => asked.decision(&answer),
            Answered::Refused(problem) => Err(problem),
            // Somebody else may answer still.
            Answered::Nothing => return Ok(()),
        };
        match decision {
            Err(problem) => {
                let refusal = asked.refusal(&format!("the client of the run: {problem}"));
                self.decide(asked, refusal).await
            }
            Ok(decision) => self.decide(asked, decision).await,
        }
    }

    /// Answers no to a question that the client cannot be asked, and says so; of a task others can answer it.
    async fn refuse_unless_task(&self, asked: Asked) -> Result<bool, ErrorData> {
        if self.job.task.is_some() {
            return Ok(false);
        }
        let refusal = asked.refusal(CANNOT_BE_ASKED);
        self.decide(asked, refusal).await?;
        Ok(true)
    }

    async fn decide(
        &self,
        asked: Asked,
        decision: crate::ledger::ApprovalDecision,
    ) -> Result<(), ErrorData> {
        let store = self.store().clone();
        let decided = reading(move || Ok(asked.decide(&store, &decision))).await;
        let decided = decided.map_err(|error| internal(&error))?;
        decided.map_err(|error| internal(&error))
    }
}

fn interrupted(run_id: &RunId) -> ErrorData {
    let data = json!({ "code": "interrupted", "run_id": run_id.as_str() });
    ErrorData::internal_error("the run was interrupted, and can be resumed", Some(data))
}

/// Asks a client of a revision with sessions.
async fn put(client: &Client, request: InputRequest) -> Answered {
    let peer = client.peer();
    let answer = match request {
        InputRequest::Elicitation(request) => peer
            .create_elicitation(request.params)
            .await
            .map(serde_json::to_value),
        InputRequest::CreateMessage(request) => peer
            .create_message(request.params)
            .await
            .map(serde_json::to_value),
        InputRequest::ListRoots(_) => peer.list_roots().await.map(serde_json::to_value),
        _ => return Answered::Nothing,
    };
    match answer {
        Ok(Ok(answer)) => Answered::With(answer),
        Err(ServiceError::McpError(error)) => Answered::Refused(error.message.into_owned()),
        Err(error) => {
            tracing::debug!(error = chain(&error), "a client did not answer");
            Answered::Nothing
        }
        Ok(Err(error)) => {
            tracing::debug!(error = chain(&error), "an answer cannot be read");
            Answered::Nothing
        }
    }
}
