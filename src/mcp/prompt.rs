//! Prompts: the text of a skill without a component, with its arguments put in, or what a component makes of them.

use rmcp::RoleServer;
use rmcp::model::{
    ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    JsonObject, ListPromptsResult, LoggingLevel, PaginatedRequestParams, Prompt, PromptArgument,
    PromptMessage, Role,
};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::answer::{BLOCKS_MAX, check, meta, protocol_error, refusal};
use super::call::{Done, check_client, no_such};
use super::catalog::Entry;
use super::client::Client;
use super::page::{LIST_TTL_MS, page};
use super::start::{Job, internal};
use crate::id::RunId;
use crate::ledger::{RunCompleted, RunStatus};
use crate::outcome::OutcomeCode;
use crate::registry::{McpRole, PinError};
use crate::schema::Schema;

/// Bytes of a text with its arguments put in. Protects the host from one that has the same long argument many times.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

impl Mcp {
    pub(super) async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.entries(McpRole::Prompt).await;
        let prompts = prompts
            .into_iter()
            .map(|(name, entry)| (name, listed(&entry)));
        let page_size = self.settings().page_size;
        let page = page("prompts/list", prompts, request.as_ref(), page_size)?;
        let mut result = ListPromptsResult::with_all_items(page.items).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = page.next_cursor;
        Ok(result)
    }

    pub(super) async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: &RequestContext<RoleServer>,
        level: Option<LoggingLevel>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let client = Client::of(self, cx);
        let Some(entry) = self.entry(McpRole::Prompt, &request.name).await else {
            return Err(no_such("prompt", &request.name));
        };
        let schema = entry.input_schema();
        let arguments = request.arguments.unwrap_or_default();
        check_arguments(&schema, &arguments).await?;
        if entry.skill.component.is_none() {
            return self.text_prompt(&entry, &schema, arguments).await;
        }
        check_client(&client, &entry.skill)?;
        let target = entry.target.clone();
        let job = Job::new("prompts/get", &request.name, target, Some(arguments))?
            .with_answers(request.input_responses, request.request_state);
        match self.carry_out(&client, job, cx, level).await? {
            Done::Ended(run_id, end) => Ok(answer(&run_id, &end, &entry.description())?.into()),
            Done::Asks(asks) => Ok(asks.into()),
            Done::Task(run_id) => Err(no_answer(&run_id)),
        }
    }

    /// The text of a skill without a component. Nothing is run; that the skill is used is a reason to pin it all the
    /// same.
    async fn text_prompt(
        &self,
        entry: &Entry,
        schema: &JsonObject,
        arguments: Map<String, Value>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let skill = std::sync::Arc::clone(&entry.skill);
        let pinned = tokio::task::spawn_blocking(move || skill.pin_on_first_use()).await;
        match pinned {
            Ok(Ok(())) => {}
            Ok(Err(error @ PinError::Changed(_))) => {
                let message = format!("the skill {} {error}", entry.skill.name);
                return Err(ErrorData::internal_error(message, None));
            }
            Ok(Err(error)) => return Err(internal(&error)),
            Err(error) => return Err(internal(&error)),
        }
        let text = filled(&entry.skill.body, schema, &arguments).ok_or_else(|| {
            let message =
                format!("arguments: with them, the prompt has more than {TEXT_BYTES_MAX} bytes");
            ErrorData::invalid_params(message, None)
        })?;
        let message = PromptMessage::new_text(Role::User, text);
        let result = GetPromptResult::new(vec![message]).with_description(entry.description());
        Ok(result.into())
    }
}

/// A run that is no task was answered as one, which cannot be.
pub(super) fn no_answer(run_id: &RunId) -> ErrorData {
    let message = "the run takes too long to be answered".to_owned();
    protocol_error(run_id, OutcomeCode::Internal, message, None)
}

fn listed(entry: &Entry) -> Prompt {
    let schema = entry.input_schema();
    let required = required(&schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let argument = |(name, property): (&String, &Value)| {
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let mut argument =
            PromptArgument::new(name).with_required(required.contains(&name.as_str()));
        argument.title = text("title").map(str::to_owned);
        argument.description = text("description").map(str::to_owned);
        argument
    };
    let arguments = properties.map(|all| all.iter().map(argument).collect());
    let prompt = Prompt::new(entry.name.clone(), Some(entry.description()), arguments);
    match &entry.skill.manifest.mcp.title {
        Some(title) => prompt.with_title(title),
        None => prompt,
    }
}

fn required(schema: &JsonObject) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array);
    required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether arguments are what a prompt takes. They are texts, whatever the schema says besides.
async fn check_arguments(
    schema: &JsonObject,
    arguments: &Map<String, Value>,
) -> Result<(), ErrorData> {
    let refused = |message: String| {
        let data = json!({ "code": "invalid_input" });
        ErrorData::invalid_params(message, Some(data))
    };
    let missing = required(schema)
        .into_iter()
        .find(|name| !arguments.contains_key(*name));
    if let Some(name) = missing {
        return Err(refused(format!("arguments: {name} is missing")));
    }
    if let Some((name, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        return Err(refused(format!("arguments.{name}: expected a string")));
    }
    let text = Value::Object(schema.clone()).to_string();
    // A schema that cannot be used refuses nothing here; it does so where there is a run.
    let Ok(schema) = Schema::compile_aside(text).await else {
        return Ok(());
    };
    let arguments = Value::Object(arguments.clone());
    let checked = schema.check(&arguments);
    checked.map_err(|mismatch| refused(format!("arguments: {mismatch}")))
}

/// The text with each `{{argument}}` replaced, in one pass, so that nothing in an argument is replaced again; none
/// when that is too long. What is no argument of the prompt stays as it is.
fn filled(text: &str, schema: &JsonObject, arguments: &Map<String, Value>) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let value = |name: &str| match arguments.get(name) {
        Some(value) => value.as_str(),
        None => properties.and_then(|all| all.get(name)).map(|_| ""),
    };
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let end = behind.split_once("}}");
        let replaced = end.and_then(|(name, after)| Some((value(name.trim())?, after)));
        whole.push_str(before);
        match replaced {
            Some((value, after)) => {
                whole.push_str(value);
                rest = after;
            }
            None => {
                whole.push_str("{{");
                rest = behind;
            }
        }
        if whole.len() > TEXT_BYTES_MAX {
            return None;
        }
    }
    whole.push_str(rest);
    (whole.len() <= TEXT_BYTES_MAX).then_some(whole)
}

/// What a component answers as a prompt, where it is more than a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    #[serde(default)]
    description: Option<String>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: Role,
    content: ContentBlock,
}

/// What the client is answered with when the run of a prompt has ended.
fn answer(
    run_id: &RunId,
    end: &RunCompleted,
    description: &str,
) -> Result<GetPromptResult, ErrorData> {
    if end.status != RunStatus::Ok {
        return Err(refusal(run_id, end));
    }
    let invalid = |problem: String| {
        let message = format!("the skill's result is no prompt: {problem}");
        protocol_error(run_id, OutcomeCode::InvalidOutput, message, None)
    };
    let value = end.output.clone().unwrap_or_default().to_value();
    let value = value.map_err(|error| invalid(error.to_string()))?;
    if let Value::String(text) = value {
        let message = PromptMessage::new_text(Role::User, text);
        let result = GetPromptResult::new(vec![message]).with_description(description);
        return Ok(with_meta(result, run_id));
    }
    let given = Messages::deserialize(value).map_err(|error| invalid(error.to_string()))?;
    if given.messages.len() > BLOCKS_MAX {
        return Err(invalid(format!("expected at most {BLOCKS_MAX} messages")));
    }
    for (at, message) in given.messages.iter().enumerate() {
        check(&message.content)
            .map_err(|problem| invalid(format!("messages[{at}].content: {problem}")))?;
    }
    let messages = given.messages.into_iter();
    let messages = messages.map(|message| PromptMessage::new(message.role, message.content));
    let description = given.description.unwrap_or_else(|| description.to_owned());
    let result = GetPromptResult::new(messages.collect()).with_description(description);
    Ok(with_meta(result, run_id))
}

fn with_meta(mut result: GetPromptResult, run_id: &RunId) -> GetPromptResult {
    result.meta = Some(meta(run_id));
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::JsonObject;
    use serde_json::{Map, Value, json};

    use super::{TEXT_BYTES_MAX, answer, check_arguments, filled};
    use crate::ledger::{Json, RunCompleted, RunStatus};
    use crate::outcome::OutcomeCode;

    fn object(value: Value) -> JsonObject {
        match value {
            Value::Object(object) => object,
            _ => panic!("an object"),
        }
    }

    fn schema() -> JsonObject {
        object(json!({
            "type": "object",
            "properties": { "who": { "type": "string" }, "tone": { "enum": ["warm", "cold"] } },
            "required": ["who"],
        }))
    }

    #[test]
    fn arguments_are_put_in_once_and_the_rest_stays() {
        let arguments = object(json!({ "who": "{{tone}} $& {{who}}" }));
        let text = "{{who}}, {{ who }}|{{tone}}|{{none}}|{{|}}|{{who";
        let expected = "{{tone}} $& {{who}}, {{tone}} $& {{who}}||{{none}}|{{|}}|{{who";
        assert_eq!(filled(text, &schema(), &arguments).unwrap(), expected);
        let long = object(json!({ "who": "x".repeat(TEXT_BYTES_MAX / 2) }));
        assert_eq!(filled("{{who}}{{who}}a", &schema(), &long), None);
    }

    #[tokio::test]
    async fn what_is_wrong_with_arguments_is_named() {
        for (arguments, problem) in [
            (json!({}), "arguments: who is missing"),
            (json!({ "who": 1 }), "arguments.who: expected a string"),
            (json!({ "who": "a", "tone": "loud" }), "tone"),
        ] {
            let error = check_arguments(&schema(), &object(arguments))
                .await
                .unwrap_err();
            assert_eq!(error.code.0, -32602);
            assert!(error.message.contains(problem), "{error:?}");
        }
        let good = object(json!({ "who": "a", "tone": "warm", "other": "b" }));
        check_arguments(&schema(), &good).await.unwrap();
    }

    fn answered(output: &Value) -> Result<Value, Value> {
        let end = RunCompleted {
            output: Some(Json::parse(&output.to_string()).unwrap()),
            ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
        };
        let run_id = "run_0190a0a0a0a07000800000000000002a".parse().unwrap();
        match answer(&run_id, &end, "d") {
            Ok(result) => Ok(serde_json::to_value(result).unwrap()),
            Err(error) => Err(serde_json::to_value(error).unwrap()),
        }
    }

    #[test]
    fn what_a_component_answers_is_a_text_or_messages_or_an_error() {
        let text = answered(&json!("hi")).unwrap();
        assert_eq!(text["messages"][0]["content"]["text"], "hi");
        assert_eq!(text["description"], "d");
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        let message = json!({ "role": "assistant", "content": image });
        let messages = answered(&json!({ "description": "own", "messages": [message] })).unwrap();
        assert_eq!(messages["messages"][0], message);
        assert_eq!(messages["description"], "own");
        for (output, problem) in [
            (json!(1), "the skill's result is no prompt"),
            (json!({ "messages": [], "other": 1 }), "unknown field"),
            (
                json!({ "messages": [{ "role": "user", "content": { "type": "image", "data": "!", "mimeType": "image/png" } }] }),
                "messages[0].content: expected base64",
            ),
        ] {
            let error = answered(&output).unwrap_err();
            assert!(
                error["message"].as_str().unwrap().contains(problem),
                "{error}"
            );
            assert_eq!(error["data"]["code"], "invalid_output");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_arguments_stays_as_it_is(text in "[{}a \\n]{0,40}") {
            prop_assert_eq!(filled(&text, &schema(), &Map::new()).map(|filled| filled.replace("{{a}}", "")), Some(text.replace("{{a}}", "")));
        }
    }
}
