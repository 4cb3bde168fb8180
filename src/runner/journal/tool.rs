//! Calls of tools: which one is meant, whether it may be called, and both halves of the record.

use super::Journal;
use super::provided::{CallId, failure};
use crate::call::{ToolAnswer, ToolDefinition};
use crate::capability::Capability;
use crate::executor::CallError;
use crate::ledger::{self, CallFailure, CallKind, Effect, Json};
use crate::tools::{SEPARATOR, Tool, ToolError};

/// Bytes of the name that a guest asks for a tool by; no tool has a longer one.
const NAME_BYTES_MAX: usize = 128;
/// Names that an ambiguous one is told to stand for.
const AMBIGUOUS_NAMES_MAX: usize = 16;

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

    pub(super) async fn allowed_tools(&self) -> Vec<ToolDefinition> {
        let patterns = self.tool_patterns();
        if patterns.is_empty() {
            return Vec::new();
        }
        let listing = self.tools.list(&patterns).await;
        let tools = listing.tools.iter();
        tools.map(|tool| tool.definition().clone()).collect()
    }

    pub(super) async fn tool(
        &self,
        id: CallId,
        name: &str,
        arguments: &str,
    ) -> Result<ToolAnswer, CallError> {
        if name.len() > NAME_BYTES_MAX {
            let name = name.chars().take(NAME_BYTES_MAX).collect();
            return Err(CallError::NotFound(name));
        }
        let given = Json::parse(arguments).map_err(|error| {
            CallError::Invalid(format!(
                "arguments: expected a JSON object: {}",
                crate::telemetry::chain(&error)
            ))
        })?;
        self.charge_call(name.len().saturating_add(arguments.len()))?;
        let found = match self.find_tool(name).await {
            Err(denied @ CallError::Denied { .. }) => return Err(denied),
            found => found.and_then(|tool| {
                tool.check(arguments)?;
                Ok(tool)
            }),
        };
        let called = found.as_ref().map(Tool::definition).ok();
        let effect = called.map_or(Effect::Read, |tool| tool.effect);
        let call = ledger::ToolCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            name: called.map_or(name, |tool| &tool.name).to_owned(),
            arguments: given,
            effect,
            kind: Some(CallKind::Tool),
            asked: called
                .filter(|tool| tool.name != name)
                .map(|_| name.to_owned()),
            ..ledger::ToolCall::default()
        };
        self.record_call(effect, call).await?;
        let since = self.stopwatch();
        let answer = match found {
            Ok(tool) => tool.call(arguments).await.map_err(CallError::from),
            Err(error) => Err(error),
        };
        let result =
            |error: Option<CallFailure>, output: Option<Json>, is_error| ledger::ToolResult {
                call_id: id.call_id.clone(),
                node_id: id.node_id.clone(),
                output,
                is_error,
                error,
                duration_micros: Some(since.elapsed_micros()),
                ..ledger::ToolResult::default()
            };
        let without = |failure| result(Some(failure), None, true).into();
        match answer {
            Ok(answer) => {
                self.charge_answer(answer.content.len());
                let output = Json::parse(&answer.content).ok();
                self.record_answer(result(None, output, answer.is_error), without)?;
                Ok(answer)
            }
            Err(error) => {
                if let Some(failure) = failure(&error) {
                    self.record_answer(result(Some(failure), None, true), without)?;
                }
                Err(error)
            }
        }
    }

    /// The tool that a guest means by a name: the one that is called so or, where the name has no server
    /// in it, the only one that it may call whose own name it is.
    async fn find_tool(&self, name: &str) -> Result<Tool, CallError> {
        let capability = Capability::Tool {
            pattern: name.to_owned(),
        };
        // A name with a star in it is no name, and must not fit as a pattern does.
        let is_allowed = !name.contains('*') && self.policy().holds(&capability);
        if is_allowed && let Some(tool) = self.tools.find(name).await? {
            return Ok(tool);
        }
        let patterns = self.tool_patterns();
        if name.contains(SEPARATOR) || patterns.is_empty() {
            self.check_allowed(&capability, name)?;
            return Err(CallError::NotFound(name.to_owned()));
        }
        let listing = self.tools.list(&patterns).await;
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
