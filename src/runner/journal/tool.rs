//! Calls of tools: which one is meant, whether it may be called, and both halves of the record.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Journal;
use super::flight::InFlight;
use super::provided::{CallId, failure};
use crate::call::{ToolAnswer, ToolDefinition};
use crate::capability::Capability;
use crate::clock::Stopwatch;
use crate::executor::CallError;
use crate::ledger::{self, CallFailure, CallKind, Effect, Event, Json};
use crate::tools::{SEPARATOR, Tool, ToolError};

/// Bytes of the name that a guest asks for a tool by; no tool has a longer one.
const NAME_BYTES_MAX: usize = 128;
/// Names that an ambiguous one is told to stand for.
const AMBIGUOUS_NAMES_MAX: usize = 16;

/// A tool as a ledger lists it.
#[derive(Serialize, Deserialize)]
struct Listed<'a> {
    name: Cow<'a, str>,
    description: Cow<'a, str>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
    effect: Effect,
}

impl<'a> Listed<'a> {
    /// A tool whose schema is no JSON is offered to nobody.
    fn of(tool: &'a ToolDefinition) -> Option<Self> {
        Some(Self {
            name: tool.name.as_str().into(),
            description: tool.description.as_str().into(),
            input_schema: serde_json::from_str(&tool.input_schema).ok()?,
            effect: tool.effect,
        })
    }
}

impl From<Listed<'_>> for ToolDefinition {
    fn from(listed: Listed<'_>) -> Self {
        Self {
            name: listed.name.into_owned(),
            description: listed.description.into_owned(),
            input_schema: listed.input_schema.get().to_owned(),
            effect: listed.effect,
        }
    }
}

/// The second half of a call.
fn result(
    id: &CallId,
    since: &Stopwatch,
    output: Option<Json>,
    error: Option<CallFailure>,
) -> ledger::ToolResult {
    ledger::ToolResult {
        call_id: id.call_id.clone(),
        node_id: id.node_id.clone(),
        output,
        is_error: error.is_some(),
        error,
        duration_micros: Some(since.elapsed_micros()),
        ..ledger::ToolResult::default()
    }
}

impl From<ToolError> for CallError {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Invalid(what) => Self::Invalid(what),
            ToolError::TimedOut { timeout_ms } => Self::TimedOut {
                limit_ms: timeout_ms,
            },
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Journal {
    /// The patterns of tools that the run may call.
    fn tool_patterns(&self) -> Vec<&str> {
        let patterns = self.policy().effective.iter();
        patterns
            .filter_map(|capability| match capability {
                Capability::Tool { pattern } => Some(pattern.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tools that the guest may call, as it is told of them: they may be others at another time.
    pub(super) async fn available_tools(
        &self,
        id: CallId,
    ) -> Result<Vec<ToolDefinition>, CallError> {
        let patterns = self.tool_patterns();
        if patterns.is_empty() && id.recorded.is_none() {
            return Ok(Vec::new());
        }
        let call = || ledger::ToolCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            effect: Effect::Read,
            kind: Some(CallKind::Tools),
            ..ledger::ToolCall::default()
        };
        self.charge_call(0)?;
        let answer = match self.recall_answer(&id, || call().into()).await? {
            Some(answer) => answer,
            None => {
                self.record_call(Effect::Read, call()).await?;
                let since = self.stopwatch();
                let listing = self.toolbox().list(&patterns).await;
                let tools = listing.tools.iter().map(Tool::definition);
                let tools: Vec<Listed<'_>> = tools.filter_map(Listed::of).collect();
                let output = Json::from_serialize(&tools).ok();
                let result = |output, error| result(&id, &since, output, error);
                self.conclude(result(output, None), |failure| {
                    result(None, Some(failure)).into()
                })?
            }
        };
        let Event::ToolResult(answer) = answer else {
            return Ok(Vec::new());
        };
        let output = answer.output.unwrap_or_default();
        self.charge_answer(output.as_str().len());
        let tools: Vec<Listed<'_>> = serde_json::from_str(output.as_str()).unwrap_or_default();
        Ok(tools.into_iter().map(ToolDefinition::from).collect())
    }

    pub(super) async fn tool(
        &self,
        id: CallId,
        name: &str,
        arguments: &str,
        in_flight: &Arc<InFlight>,
    ) -> Result<ToolAnswer, CallError> {
        let answer = match self.prepared(&id, name, arguments) {
            Err(error) => return self.refused(&id, error).await,
            Ok(arguments) => {
                let call = || ledger::ToolCall {
                    call_id: id.call_id.clone(),
                    node_id: id.node_id.clone(),
                    name: name.to_owned(),
                    arguments: arguments.clone(),
                    kind: Some(CallKind::Tool),
                    ..ledger::ToolCall::default()
                };
                match self.recall_answer(&id, || call().into()).await? {
                    Some(answer) => {
                        self.recall_waits(&id).await;
                        answer
                    }
                    None => self.call_tool_now(&id, call(), name, in_flight).await?,
                }
            }
        };
        self.tool_answer(answer)
    }

    /// The arguments of a call that makes sense and may be made, or was.
    fn prepared(&self, id: &CallId, name: &str, arguments: &str) -> Result<Json, CallError> {
        if name.len() > NAME_BYTES_MAX {
            let name = name.chars().take(NAME_BYTES_MAX).collect();
            return Err(CallError::NotFound(name));
        }
        let given = Json::parse(arguments).map_err(|error| {
            let problem = crate::telemetry::chain(&error);
            CallError::Invalid(format!("arguments: expected a JSON object: {problem}"))
        })?;
        self.charge_call(name.len().saturating_add(arguments.len()))?;
        if id.recorded.is_none() {
            self.check_tool(name)?;
        }
        Ok(given)
    }

    /// Calls a tool, and puts both halves of that on record. It gives the second.
    async fn call_tool_now(
        &self,
        id: &CallId,
        mut call: ledger::ToolCall,
        name: &str,
        in_flight: &Arc<InFlight>,
    ) -> Result<Event, CallError> {
        let arguments = call.arguments.clone();
        let found = match self.find_tool(name).await {
            Err(denied @ CallError::Denied { .. }) => return Err(denied),
            found => found.and_then(|tool| {
                tool.check(arguments.as_str())?;
                Ok(tool)
            }),
        };
        call.effect = Effect::Read;
        if let Ok(tool) = &found {
            let called = tool.definition();
            call.effect = match tool.keeps_record() {
                // It goes on where it was.
                true => Effect::Idempotent,
                false => called.effect,
            };
            if called.name != name {
                call.asked = Some(std::mem::replace(&mut call.name, called.name.clone()));
            }
        }
        self.record_call(call.effect, call).await?;
        let since = self.stopwatch();
        let answer = match found {
            Ok(tool) => {
                self.carry_out(id, &tool, arguments.as_str(), in_flight)
                    .await
            }
            Err(error) => Err(error),
        };
        let without = |failure| result(id, &since, None, Some(failure)).into();
        match answer {
            Ok(answer) => {
                let output = Json::parse(&answer.content).ok();
                let answered = ledger::ToolResult {
                    is_error: answer.is_error,
                    ..result(id, &since, output, None)
                };
                self.conclude(answered, without)
            }
            Err(error) => match failure(&error) {
                Some(failure) => self.conclude(result(id, &since, None, Some(failure)), without),
                None => Err(error),
            },
        }
    }

    /// What the guest is told of an answer that is on record.
    fn tool_answer(&self, answer: Event) -> Result<ToolAnswer, CallError> {
        let Event::ToolResult(answer) = answer else {
            return Err(CallError::Failed("no answer of a tool".to_owned()));
        };
        if let Some(failure) = answer.error {
            return Err(failure.into());
        }
        let content = answer.output.unwrap_or_default().as_str().to_owned();
        self.charge_answer(content.len());
        Ok(ToolAnswer {
            content,
            is_error: answer.is_error,
        })
    }

    /// Whether a tool that is called so may be called. If it may not, the name may still be the short one of
    /// a tool that may.
    fn check_tool(&self, name: &str) -> Result<bool, CallError> {
        let capability = Capability::Tool {
            pattern: name.to_owned(),
        };
        // A name with a star in it is no name, and must not fit as a pattern does.
        if !name.contains('*') && self.policy().holds(&capability) {
            return Ok(true);
        }
        if name.contains(SEPARATOR) || self.tool_patterns().is_empty() {
            self.check_allowed(&capability, name)?;
        }
        Ok(false)
    }

    /// The tool that a guest means by a name: the one that is called so or, where the name has no server
    /// in it, the only one that it may call whose own name it is.
    async fn find_tool(&self, name: &str) -> Result<Tool, CallError> {
        if self.check_tool(name)?
            && let Some(tool) = self.toolbox().find(name).await?
        {
            return Ok(tool);
        }
        if name.contains(SEPARATOR) {
            return Err(CallError::NotFound(name.to_owned()));
        }
        let patterns = self.tool_patterns();
        let listing = self.toolbox().list(&patterns).await;
        let own_name = |tool: &Tool| {
            let full = &tool.definition().name;
            full.split_once(SEPARATOR).map(|(_, own)| own == name)
        };
        let mut fitting = listing.tools.into_iter();
        let mut fitting = fitting.by_ref().filter(|tool| own_name(tool) == Some(true));
        let (first, rest) = (fitting.next(), fitting.collect::<Vec<Tool>>());
        match first {
            Some(tool) if rest.is_empty() => Ok(tool),
            Some(tool) => {
                let all = std::iter::once(&tool).chain(&rest);
                let names = all.map(|tool| tool.definition().name.clone());
                Err(CallError::Ambiguous(
                    names.take(AMBIGUOUS_NAMES_MAX).collect(),
                ))
            }
            None => Err(match listing.unreachable.into_iter().next() {
                None => CallError::NotFound(name.to_owned()),
                Some((server, reason)) => ToolError::Unavailable { server, reason }.into(),
            }),
        }
    }
}
