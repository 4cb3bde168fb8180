//! Calls of language models: whether one may be asked, both halves of the record, and what it took.

use super::Journal;
use super::model_json;
use super::provided::{CallId, failure};
use crate::call::{ModelRequest, ModelResponse, Part, Usage};
use crate::capability::Capability;
use crate::clock::Stopwatch;
use crate::executor::CallError;
use crate::ledger::{self, CallFailure, CallPhase, Digest, Effect, Json, Origin};
use crate::models::{ModelError, ModelName};
use crate::schema::Schema;

/// Bytes of the name that a guest asks for a model by.
const NAME_BYTES_MAX: usize = 256;

/// Bytes of text to a token, about.
const BYTES_PER_TOKEN: usize = 4;

impl From<ModelError> for CallError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::NotFound(name) => Self::NotFound(name),
            ModelError::Invalid(what) => Self::Invalid(what),
            ModelError::Failed(message) => Self::Failed(message),
            ModelError::TimedOut { timeout_ms } => Self::TimedOut {
                limit_ms: timeout_ms,
            },
        }
    }
}

/// A question to a model that is on record.
pub(super) struct Asked {
    pub(super) id: CallId,
    pub(super) name: ModelName,
    pub(super) since: Stopwatch,
    /// What the answer has to fit, and the digest of the schema's text.
    schema: Option<(Schema, Digest)>,
    /// Bytes of the question, as it is on record.
    request_bytes: usize,
}

impl Journal {
    pub(super) async fn model(
        &self,
        id: CallId,
        request: ModelRequest,
    ) -> Result<ModelResponse, CallError> {
        let asked = self.ask(id, &request, false).await?;
        match self.models.generate(&asked.name, request).await {
            Ok(response) => self.answered(&asked, response),
            Err(error) => {
                let usage = asked.usage_without(&error);
                Err(self.unanswered(&asked, error.into(), &usage))
            }
        }
    }

    /// Checks a question, and puts it on record.
    pub(super) async fn ask(
        &self,
        id: CallId,
        request: &ModelRequest,
        streamed: bool,
    ) -> Result<Asked, CallError> {
        let asked = &request.model;
        if asked.len() > NAME_BYTES_MAX || asked.contains('*') {
            let name = asked.chars().take(NAME_BYTES_MAX).collect();
            return Err(CallError::NotFound(name));
        }
        let not_found = || CallError::NotFound(asked.clone());
        let name = self.models.resolve(asked).ok_or_else(not_found)?;
        let capability = format!("llm:{name}").parse::<Capability>();
        let capability = capability.map_err(|_malformed| not_found())?;
        self.check_allowed(&capability, asked)?;
        let schema = match &request.output_schema {
            None => None,
            Some(text) => {
                let schema = Schema::compile_aside(text.clone()).await;
                let schema = schema
                    .map_err(|error| CallError::Invalid(format!("output-schema: {error}")))?;
                Some((schema, Digest::of(text.as_bytes())))
            }
        };
        let json = model_json::request(request).map_err(CallError::Invalid)?;
        let request_bytes = json.as_str().len();
        self.charge_call(request_bytes)?;
        let call = ledger::LlmCall {
            call_id: Some(id.call_id.clone()),
            phase: Some(CallPhase::Call),
            node_id: Some(id.node_id.clone()),
            model: name.model.clone(),
            provider: name.provider.clone(),
            // Asked again it says something else, and costs again; but nothing in the world changes.
            effect: Some(Effect::Read),
            request: Some(json),
            streamed,
            ..ledger::LlmCall::default()
        };
        self.record_call(Effect::Read, call).await?;
        Ok(Asked {
            id,
            name,
            since: self.stopwatch(),
            schema,
            request_bytes,
        })
    }

    /// Puts a whole answer on record and counts what it took.
    pub(super) fn answered(
        &self,
        asked: &Asked,
        response: ModelResponse,
    ) -> Result<ModelResponse, CallError> {
        let output = model_json::response(&response).map_err(CallError::Failed)?;
        self.charge_answer(output.as_str().len());
        let structured = asked.structured(&response);
        let misfit = structured.as_ref().err().cloned();
        let mut result = asked.result(&response.usage);
        result.output = Some(output);
        result.is_error = misfit.is_some();
        result.error = misfit.map(|message| CallFailure::Invalid { message });
        let without = |failure| asked.failed(failure, &response.usage).into();
        let recorded = self.record_answer(result, without);
        let spent = self.cx.budget().spend_on_models(&response.usage);
        recorded?;
        spent.map_err(CallError::LimitReached)?;
        if let Some((output, digest)) = structured.map_err(CallError::Invalid)? {
            let structured = ledger::StructuredOutput {
                schema_digest: Some(digest.to_string()),
                node_id: Some(asked.id.node_id.clone()),
                output,
            };
            self.record(Origin::Host, structured)
                .map_err(CallError::Unrecorded)?;
        }
        Ok(response)
    }

    /// Puts on record that there is no answer, or no whole one, and counts what it took.
    pub(super) fn unanswered(&self, asked: &Asked, error: CallError, usage: &Usage) -> CallError {
        if let Some(failure) = failure(&error) {
            let result = asked.failed(failure, usage);
            if let Err(refused) = self.record(Origin::Host, result) {
                return CallError::Unrecorded(refused);
            }
        }
        match self.cx.budget().spend_on_models(usage) {
            Ok(()) => error,
            Err(reached) => CallError::LimitReached(reached),
        }
    }
}

impl Asked {
    /// What a question took that was not answered. A provider that was too slow has worked for it all the
    /// same, and says nothing of it: a token for every four bytes is about what it read.
    fn usage_without(&self, error: &ModelError) -> Usage {
        let input_tokens = match error {
            ModelError::TimedOut { .. } => self.request_bytes / BYTES_PER_TOKEN,
            _ => 0,
        };
        Usage {
            input_tokens: u64::try_from(input_tokens).unwrap_or(u64::MAX),
            ..Usage::default()
        }
    }

    fn result(&self, usage: &Usage) -> ledger::LlmCall {
        ledger::LlmCall {
            call_id: Some(self.id.call_id.clone()),
            phase: Some(CallPhase::Result),
            node_id: Some(self.id.node_id.clone()),
            model: self.name.model.clone(),
            provider: self.name.provider.clone(),
            prompt_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            cache_read_tokens: Some(usage.cache_read_tokens).filter(|&tokens| tokens > 0),
            cache_write_tokens: Some(usage.cache_write_tokens).filter(|&tokens| tokens > 0),
            cost_usd: Some(usage.cost_usd),
            duration_micros: Some(self.since.elapsed_micros()),
            ..ledger::LlmCall::default()
        }
    }

    fn failed(&self, failure: CallFailure, usage: &Usage) -> ledger::LlmCall {
        ledger::LlmCall {
            is_error: true,
            error: Some(failure),
            ..self.result(usage)
        }
    }

    /// The answer as the JSON value that was asked for; none where none was, or where the model did not
    /// come to it.
    fn structured(&self, response: &ModelResponse) -> Result<Option<(Json, Digest)>, String> {
        let Some((schema, digest)) = &self.schema else {
            return Ok(None);
        };
        let texts = response.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::ToolUse(_) | Part::ToolAnswer(_) => None,
        });
        let text: String = texts.collect();
        let asks_for_tools = response
            .content
            .iter()
            .any(|part| matches!(part, Part::ToolUse(_)));
        if text.trim().is_empty() && asks_for_tools {
            return Ok(None);
        }
        let not_json = |error: String| format!("the model's answer is not JSON: {error}");
        let json = Json::parse(&text).map_err(|error| not_json(error.to_string()))?;
        let value = json.to_value();
        let value = value.map_err(|error| not_json(error.to_string()))?;
        let checked = schema.check(&value);
        checked.map_err(|mismatch| {
            format!("the model's answer does not fit the schema: {mismatch}")
        })?;
        Ok(Some((json, *digest)))
    }
}
