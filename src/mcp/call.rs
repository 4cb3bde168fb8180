//! `tools/call`: a run, answered with its result, with what it asks its client, or with a task.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, CreateTaskResult, ErrorData,
    InputRequiredResult, LoggingLevel,
};
use rmcp::service::RequestContext;
use serde_json::json;

use super::Mcp;
use super::answer::{self, meta};
use super::client::Client;
use super::follow::Stop;
use super::gates::{Asked, requests};
use super::notes::Notes;
use super::request_state::State;
use super::start::{Job, internal};
use crate::call::ClientFeature;
use crate::id::RunId;
use crate::ledger::{RunCompleted, TaskFacts};
use crate::registry::{McpRole, Skill, TaskSupport};

/// What has become of a job by the time its client is answered.
pub(super) enum Done {
    /// Its run ended so.
    Ended(RunId, Box<RunCompleted>),
    /// The client has to answer first.
    Asks(InputRequiredResult),
    /// The client asks after it from now on.
    Task(RunId),
}

impl Mcp {
    pub(super) async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
        level: Option<LoggingLevel>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = Client::of(self, cx);
        let name = request.name.as_ref();
        let Some(entry) = self.entry(McpRole::Tool, name).await else {
            return Err(no_such("tool", name));
        };
        check_client(&client, &entry.skill)?;
        let mut job = Job::new("tools/call", name, entry.target.clone(), request.arguments)?
            .with_answers(request.input_responses, request.request_state);
        let support = entry.skill.manifest.mcp.task;
        if client.knows_tasks() && support != TaskSupport::Never {
            let ttl_ms = self.settings().task_ttl_ms;
            let is_content = entry.skill.manifest.mcp.is_content;
            job.task = Some(TaskFacts { ttl_ms, is_content });
        }
        let is_task_at_once = matches!(support, TaskSupport::Always | TaskSupport::Required);
        let done = match job.task.is_some() && is_task_at_once && job.state.is_none() {
            true => Done::Task(self.begin(&client, &mut job, cx).await?),
            false => self.carry_out(&client, job, cx, level).await?,
        };
        Ok(match done {
            Done::Ended(run_id, end) => {
                answer::tool(&run_id, &end, entry.skill.manifest.mcp.is_content)?.into()
            }
            Done::Asks(asks) => asks.into(),
            Done::Task(run_id) => self.created(&run_id).await?.into(),
        })
    }

    /// Carries a job out until its client can be answered.
    ///
    /// # Errors
    /// There is no run, or its client has gone.
    pub(super) async fn carry_out(
        &self,
        client: &Client,
        mut job: Job,
        cx: &RequestContext<RoleServer>,
        level: Option<LoggingLevel>,
    ) -> Result<Done, ErrorData> {
        let run_id = self.begin(client, &mut job, cx).await?;
        let token = cx.meta.get_progress_token();
        let notes = Notes::new(
            cx.peer.clone(),
            token,
            level,
            job.target.clone(),
            run_id.clone(),
        );
        Ok(match self.follow(client, &job, &run_id, notes, cx).await? {
            Stop::Ended(end) => Done::Ended(run_id, end),
            Stop::Asks(asked) => Done::Asks(self.input_required(client, &job, &run_id, &asked)?),
            Stop::TakesLong => Done::Task(run_id),
        })
    }

    /// What a client is to answer before its request can be, and what it is to bring back with that.
    fn input_required(
        &self,
        client: &Client,
        job: &Job,
        run_id: &RunId,
        asked: &[Asked],
    ) -> Result<InputRequiredResult, ErrorData> {
        let state = State {
            run_id: run_id.clone(),
            asked: asked.iter().map(|asked| asked.key.clone()).collect(),
        };
        let now = self.host().clock().now();
        let left = asked.iter().map(|asked| asked.time_left(now));
        let ttl: Duration = left.max().unwrap_or_default();
        let sealed = self.states().seal(&state, client.id(), &job.digest, ttl);
        let sealed = sealed.map_err(|error| internal(&error))?;
        Ok(InputRequiredResult::new(Some(requests(asked)), Some(sealed)).with_meta(meta(run_id)))
    }

    async fn created(&self, run_id: &RunId) -> Result<CreateTaskResult, ErrorData> {
        let task = self.task_of(run_id).await?;
        Ok(CreateTaskResult::new(task).with_meta(meta(run_id)))
    }
}

/// There is nothing of that name, which is not repeated at length.
pub(super) fn no_such(what: &str, name: &str) -> ErrorData {
    let shown: String = name.chars().take(80).collect();
    let data = json!({ "code": "not_found" });
    ErrorData::invalid_params(format!("there is no {what} {shown:?}"), Some(data))
}

/// Refuses a client that cannot do what the skill's author says that it takes.
pub(super) fn check_client(client: &Client, skill: &Skill) -> Result<(), ErrorData> {
    let mcp = &skill.manifest.mcp;
    let lacks = mcp.requires.iter().find(|feature| !client.can(**feature));
    let capabilities = ClientCapabilities::builder();
    let required = match lacks {
        Some(ClientFeature::Elicitation) => capabilities.enable_elicitation().build(),
        Some(ClientFeature::Sampling) => capabilities.enable_sampling().build(),
        Some(ClientFeature::Roots) => capabilities.enable_roots().build(),
        None if mcp.task == TaskSupport::Required && !client.knows_tasks() => {
            capabilities.enable_tasks().build()
        }
        None => return Ok(()),
    };
    Err(ErrorData::missing_required_client_capability(required))
}
