//! Tools by which a skill asks the client that it runs for: to have a form filled in, to have its model answer, which
//! folders it works on.
//!
//! A skill calls them as any other tool, so they are granted by `tool:client__elicit` and on record in both halves. What
//! is asked is a question of the run, which the MCP server hands to the client, and whose answer is more than a yes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ListRootsResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::{ClientFeature, Effect, Question, ToolAnswer, ToolDefinition};
use crate::runner::{CallError, HostToolCall};
use crate::schema::Schema;
use crate::tools::{HostTool, ToolError};

/// Bytes of the key of a question. Protects whoever answers it, to whom it is shown whole.
const KEY_BYTES_MAX: usize = 64;
/// Bytes of what the person is told of a question that is none to a person. It says what the payload is.
const PROMPT_BYTES_MAX: usize = 4 * 1024;

/// The tools, for [`crate::assembly::Builder::host_tool`]. A client has `input_timeout` to answer.
pub fn client_tools(input_timeout: Duration) -> Vec<Arc<dyn HostTool>> {
    let tool = |feature| {
        Arc::new(ClientTool {
            feature,
            input_timeout,
        }) as Arc<dyn HostTool>
    };
    ClientFeature::ALL.into_iter().map(tool).collect()
}

struct ClientTool {
    feature: ClientFeature,
    input_timeout: Duration,
}

/// The name of the tool for a feature.
pub(super) fn tool_name(feature: ClientFeature) -> &'static str {
    match feature {
        ClientFeature::Elicitation => "client__elicit",
        ClientFeature::Sampling => "client__sample",
        ClientFeature::Roots => "client__roots",
    }
}

/// What a question that the tool of that name asks is for.
pub(super) fn feature_of(tool: &str) -> Option<ClientFeature> {
    ClientFeature::ALL
        .into_iter()
        .find(|feature| tool_name(*feature) == tool)
}

/// What is asked of a client, from the arguments of a call, which are on record as what the question is about.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    Elicit(ElicitRequestParams),
    Sample(CreateMessageRequestParams),
    Roots,
}

impl Wanted {
    /// What is asked, or what is wrong with that.
    pub(super) fn parse(feature: ClientFeature, arguments: &Value) -> Result<Self, String> {
        match feature {
            ClientFeature::Elicitation => typed(arguments).map(Self::Elicit),
            ClientFeature::Sampling => {
                let params: CreateMessageRequestParams = typed(arguments)?;
                params.validate()?;
                Ok(Self::Sample(params))
            }
            ClientFeature::Roots => Ok(Self::Roots),
        }
    }

    /// What a person is told who sees the question elsewhere.
    fn prompt(&self) -> String {
        let prompt = match self {
            Self::Elicit(
                ElicitRequestParams::FormElicitationParams { message, .. }
                | ElicitRequestParams::UrlElicitationParams { message, .. },
            ) => message.clone(),
            Self::Elicit(_) => "the skill asks its client".to_owned(),
            Self::Sample(_) => "the skill asks the model of its client".to_owned(),
            Self::Roots => "the skill asks which folders its client works on".to_owned(),
        };
        let end = prompt.floor_char_boundary(PROMPT_BYTES_MAX);
        prompt.get(..end).unwrap_or_default().to_owned()
    }
}

/// Checks that an answer of a client is one to what was asked of it.
pub(super) fn check_answer(feature: ClientFeature, answer: &Value) -> Result<(), String> {
    match feature {
        ClientFeature::Elicitation => typed::<ElicitResult>(answer).map(drop),
        ClientFeature::Sampling => typed::<CreateMessageResult>(answer).map(drop),
        ClientFeature::Roots => typed::<ListRootsResult>(answer).map(drop),
    }
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

#[async_trait]
impl HostTool for ClientTool {
    fn definition(&self) -> ToolDefinition {
        let key = json!({
            "type": "string",
            "description": "What the client knows the question by, the first time that it is used in a run.",
            "pattern": "^[A-Za-z0-9_.-]+$",
            "maxLength": KEY_BYTES_MAX,
        });
        let (description, properties, required) = match self.feature {
            ClientFeature::Elicitation => (
                "Has a person fill in a form, as elicitation/create of MCP does. Answers {action, content}.",
                json!({
                    "key": key,
                    "message": { "type": "string", "minLength": 1, "maxLength": PROMPT_BYTES_MAX },
                    "requestedSchema": { "type": "object" },
                }),
                json!(["message", "requestedSchema"]),
            ),
            ClientFeature::Sampling => (
                "Has the client's model answer, as sampling/createMessage of MCP does.",
                json!({
                    "key": key,
                    "messages": { "type": "array", "minItems": 1 },
                    "maxTokens": { "type": "integer", "minimum": 1 },
                    "systemPrompt": { "type": "string" },
                    "temperature": { "type": "number" },
                    "stopSequences": { "type": "array", "items": { "type": "string" } },
                    "modelPreferences": { "type": "object" },
                }),
                json!(["messages", "maxTokens"]),
            ),
            ClientFeature::Roots => (
                "Which folders and files the client works on, as roots/list of MCP says.",
                json!({ "key": key }),
                json!([]),
            ),
        };
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        ToolDefinition {
            name: tool_name(self.feature).to_owned(),
            description: description.to_owned(),
            input_schema: schema.to_string(),
            effect: Effect::Write,
        }
    }

    fn keeps_record(&self) -> bool {
        true
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        let failed = |what: &str| ToolError::Failed(what.to_owned());
        let call = HostToolCall::current().ok_or_else(|| failed("called outside of any run"))?;
        let client = call
            .client()
            .ok_or_else(|| failed("this run has no client that can be asked"))?;
        if !client.features.contains(&self.feature) {
            let word = self.feature.as_str();
            return Err(failed(&format!(
                "the client of this run did not declare {word}"
            )));
        }
        let given: Value = serde_json::from_str(arguments)
            .map_err(|error| ToolError::Invalid(error.to_string()))?;
        let wanted = Wanted::parse(self.feature, &given).map_err(ToolError::Invalid)?;
        let form = form(&wanted)?;
        let question = Question {
            prompt: wanted.prompt(),
            payload: arguments.to_owned(),
            timeout_ms: Some(u64::try_from(self.input_timeout.as_millis()).unwrap_or(u64::MAX)),
            needs_answer: true,
        };
        let answered = call.ask(question, Vec::new()).await.map_err(unasked)?;
        let answer = match (answered.answer.filter(|_| answered.approved), self.feature) {
            (Some(answer), _) => answer,
            (None, ClientFeature::Elicitation) => {
                let action = match answered.automatic {
                    true => "cancel",
                    false => "decline",
                };
                json!({ "action": action }).to_string()
            }
            (None, _) => {
                let why = match answered.text.as_str() {
                    "" => "the client did not answer".to_owned(),
                    why => format!("the client did not answer: {why}"),
                };
                return Err(ToolError::Failed(why));
            }
        };
        if let Some(form) = form {
            check_content(&form, &answer).await?;
        }
        Ok(ToolAnswer {
            content: json!([{ "type": "text", "text": answer }]).to_string(),
            is_error: false,
        })
    }
}

/// The schema of the form that a client is to fill in, if it is.
fn form(wanted: &Wanted) -> Result<Option<String>, ToolError> {
    match wanted {
        Wanted::Elicit(ElicitRequestParams::FormElicitationParams {
            requested_schema, ..
        }) => serde_json::to_string(requested_schema)
            .map(Some)
            .map_err(|error| ToolError::Invalid(error.to_string())),
        _ => Ok(None),
    }
}

/// What a client filled in has to fit what it was asked for: the skill relies on that.
async fn check_content(form: &str, answer: &str) -> Result<(), ToolError> {
    let invalid = |what: String| ToolError::Failed(format!("the client's answer {what}"));
    let answer: ElicitResult =
        serde_json::from_str(answer).map_err(|error| invalid(format!("is none: {error}")))?;
    if answer.action != ElicitationAction::Accept {
        return Ok(());
    }
    let schema = Schema::compile_aside(form.to_owned()).await;
    let schema = schema.map_err(|error| ToolError::Invalid(error.to_string()))?;
    let content = answer.content.unwrap_or_else(|| json!({}));
    schema
        .check(&content)
        .map_err(|mismatch| invalid(format!("does not fit: {mismatch}")))
}

fn unasked(error: CallError) -> ToolError {
    match error {
        CallError::Invalid(what) => ToolError::Invalid(what),
        CallError::Failed(what) => ToolError::Failed(what),
        CallError::TimedOut { limit_ms } => ToolError::TimedOut {
            timeout_ms: limit_ms,
        },
        CallError::Cancelled => ToolError::Failed("it was cancelled".to_owned()),
        _ => ToolError::Failed("the client cannot be asked".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Wanted, check_answer, feature_of};
    use crate::call::ClientFeature;

    #[test]
    fn what_is_asked_has_the_form_that_mcp_gives_it() {
        let elicit = ClientFeature::Elicitation;
        let good = json!({
            "key": "name",
            "message": "Who?",
            "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
        });
        assert!(Wanted::parse(elicit, &good).is_ok());
        for bad in [
            json!({ "message": "Who?" }),
            json!({ "message": 1, "requestedSchema": { "type": "object", "properties": {} } }),
            json!({ "message": "Who?", "requestedSchema": { "type": "array" } }),
        ] {
            assert!(Wanted::parse(elicit, &bad).is_err(), "{bad}");
        }
        let sample = ClientFeature::Sampling;
        let text = json!({ "type": "text", "text": "Hi" });
        let good = json!({ "messages": [{ "role": "user", "content": text }], "maxTokens": 10 });
        assert!(Wanted::parse(sample, &good).is_ok());
        assert!(Wanted::parse(sample, &json!({ "messages": [], "maxTokens": "x" })).is_err());
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        let elicit = ClientFeature::Elicitation;
        let accepted = json!({ "action": "accept", "content": { "name": "A" } });
        assert!(check_answer(elicit, &accepted).is_ok());
        assert!(check_answer(elicit, &json!({ "action": "decline" })).is_ok());
        for bad in [
            json!(12345),
            json!({}),
            json!({ "action": "maybe" }),
            json!(null),
        ] {
            assert!(check_answer(elicit, &bad).is_err(), "{bad}");
        }
        let roots = json!({ "roots": [{ "uri": "file:///a" }] });
        assert!(check_answer(ClientFeature::Roots, &roots).is_ok());
        assert!(check_answer(ClientFeature::Roots, &json!({ "roots": [{}] })).is_err());
        let said = json!({
            "role": "assistant", "content": { "type": "text", "text": "Paris" },
            "model": "m", "stopReason": "endTurn",
        });
        assert!(check_answer(ClientFeature::Sampling, &said).is_ok());
        assert!(check_answer(ClientFeature::Sampling, &json!({ "role": "assistant" })).is_err());
    }

    #[test]
    fn every_tool_is_known_by_its_name() {
        for feature in ClientFeature::ALL {
            assert_eq!(feature_of(super::tool_name(feature)), Some(feature));
        }
        assert_eq!(feature_of("other__elicit"), None);
    }
}
