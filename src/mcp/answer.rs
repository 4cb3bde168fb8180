//! From the end of a run to what its client is answered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject, Resource, ResourceContents,
};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::id::RunId;
use crate::ledger::{Json, RunCompleted, RunStatus};
use crate::outcome::OutcomeCode;

/// Where in `_meta` the id of the run is, and the code with which it ended.
const RUN_ID: &str = "skillrun/run_id";
const CODE: &str = "skillrun/code";
/// Blocks of one result. Protects whoever shows it.
pub(super) const BLOCKS_MAX: usize = 1_000;

/// The address of a run, as a resource.
pub(super) fn run_uri(run_id: &RunId) -> String {
    format!("skillrun://runs/{run_id}")
}

/// What is said of a run beside its result.
pub(super) fn meta(run_id: &RunId) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert(RUN_ID.to_owned(), json!(run_id.as_str()));
    meta
}

/// The result of a skill that has the form of a result of MCP.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Content {
    content: Vec<ContentBlock>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
}

/// What a tool answers.
///
/// # Errors
/// The skill did not get so far as to answer, and it is not for the skill to say why: the host failed, or the skill
/// broke its own contract.
pub(super) fn tool(
    run_id: &RunId,
    end: &RunCompleted,
    is_content: bool,
) -> Result<CallToolResult, ErrorData> {
    let code = end.code.unwrap_or(OutcomeCode::Internal);
    let mut result = match end.status {
        RunStatus::Ok if is_content => content(run_id, end.output.as_ref())?,
        RunStatus::Ok => json_result(end.output.as_ref()),
        _ => failure(run_id, end, code)?,
    };
    let link = Resource::new(run_uri(run_id), run_id.as_str())
        .with_title("The run")
        .with_mime_type("application/json");
    result.content.push(ContentBlock::resource_link(link));
    let mut meta = meta(run_id);
    meta.0.insert(CODE.to_owned(), json!(code.as_str()));
    result.meta = Some(meta);
    Ok(result)
}

/// A result that is JSON: as text, and as it is when it is an object.
fn json_result(output: Option<&Json>) -> CallToolResult {
    let output = output.cloned().unwrap_or_default();
    let value = output.to_value().unwrap_or_default();
    let text = match &value {
        Value::String(text) => text.clone(),
        _ => output.as_str().to_owned(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = value.is_object().then_some(value);
    result
}

/// A result of a skill that says its result is one of MCP.
fn content(run_id: &RunId, output: Option<&Json>) -> Result<CallToolResult, ErrorData> {
    let invalid = |problem: String| {
        let message = format!("the skill's result is no content: {problem}");
        protocol_error(run_id, OutcomeCode::InvalidOutput, message, None)
    };
    let value = output.cloned().unwrap_or_default().to_value();
    let value = value.map_err(|error| invalid(error.to_string()))?;
    let given: Content = Content::deserialize(value).map_err(|error| invalid(error.to_string()))?;
    if given.content.len() > BLOCKS_MAX {
        return Err(invalid(format!("expected at most {BLOCKS_MAX} blocks")));
    }
    for (at, block) in given.content.iter().enumerate() {
        check(block).map_err(|problem| invalid(format!("content[{at}]: {problem}")))?;
    }
    if given
        .structured_content
        .as_ref()
        .is_some_and(|content| !content.is_object())
    {
        return Err(invalid("structuredContent: expected an object".to_owned()));
    }
    let mut result = match given.is_error {
        true => CallToolResult::error(given.content),
        false => CallToolResult::success(given.content),
    };
    result.structured_content = given.structured_content;
    Ok(result)
}

/// Whether a block is one that every client can take.
pub(super) fn check(block: &ContentBlock) -> Result<(), String> {
    match block {
        ContentBlock::Image(image) => base64(&image.data),
        ContentBlock::Audio(audio) => base64(&audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                address(uri).and_then(|()| base64(blob))
            }
            ResourceContents::TextResourceContents { uri, .. } => address(uri),
            _ => Err("expected text or a blob".to_owned()),
        },
        ContentBlock::ResourceLink(link) => address(&link.uri),
        _ => Ok(()),
    }
}

pub(super) fn base64(data: &str) -> Result<(), String> {
    let decoded = STANDARD.decode(data);
    decoded
        .map(drop)
        .map_err(|error| format!("expected base64: {error}"))
}

fn address(uri: &str) -> Result<(), String> {
    let parsed = Url::parse(uri);
    parsed
        .map(drop)
        .map_err(|error| format!("expected a URI: {error}"))
}

/// A run without a result. What a skill did, or met, its caller is told as a result; the rest is an error of the
/// protocol.
fn failure(
    run_id: &RunId,
    end: &RunCompleted,
    code: OutcomeCode,
) -> Result<CallToolResult, ErrorData> {
    let hint = end
        .hint
        .as_deref()
        .filter(|_| code != OutcomeCode::LoadError);
    let text = words(end, code);
    match code {
        OutcomeCode::InvalidOutput
        | OutcomeCode::Internal
        | OutcomeCode::LoadError
        | OutcomeCode::NotFound
        | OutcomeCode::Busy => Err(protocol_error(run_id, code, text, hint)),
        _ => {
            let text = hint.map_or_else(|| text.clone(), |hint| format!("{text}\nhint: {hint}"));
            Ok(CallToolResult::error(vec![ContentBlock::text(text)]))
        }
    }
}

/// Why there is no result, in the words of the run, but for those that name what is the operator's own.
fn words(end: &RunCompleted, code: OutcomeCode) -> String {
    let error = end.error.as_ref().map_or("", |error| error.as_str());
    match (code, error) {
        (OutcomeCode::LoadError, _) => format!("{code}: the skill cannot be loaded"),
        (OutcomeCode::SkillError, error) => error.to_owned(),
        (code, "") => format!("the run ended with {code}"),
        (code, error) => format!("{code}: {error}"),
    }
}

/// What a client is told of a run without a result, where there is no result that could say so.
pub(super) fn refusal(run_id: &RunId, end: &RunCompleted) -> ErrorData {
    let code = end.code.unwrap_or(OutcomeCode::Internal);
    let hint = end
        .hint
        .as_deref()
        .filter(|_| code != OutcomeCode::LoadError);
    let text = words(end, code);
    let mut refused = protocol_error(run_id, code, text, hint);
    if code == OutcomeCode::InvalidInput {
        refused.code = ErrorCode::INVALID_PARAMS;
    }
    refused
}

/// What a client is told of a run that gave nothing that could be a result.
pub(super) fn protocol_error(
    run_id: &RunId,
    code: OutcomeCode,
    message: String,
    hint: Option<&str>,
) -> ErrorData {
    let data = json!({ "code": code.as_str(), "run_id": run_id.as_str(), "hint": hint });
    ErrorData::internal_error(message, Some(data))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::tool;
    use crate::id::RunId;
    use crate::ledger::{Json, RunCompleted, RunStatus};
    use crate::outcome::OutcomeCode;

    fn answered(output: &Value, is_content: bool) -> Result<Value, Value> {
        let end = RunCompleted {
            output: Some(Json::parse(&output.to_string()).unwrap()),
            ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
        };
        of(&end, is_content)
    }

    fn of(end: &RunCompleted, is_content: bool) -> Result<Value, Value> {
        let run_id: RunId = "run_0190a0a0a0a07000800000000000002a".parse().unwrap();
        match tool(&run_id, end, is_content) {
            Ok(result) => Ok(serde_json::to_value(result).unwrap()),
            Err(error) => Err(serde_json::to_value(error).unwrap()),
        }
    }

    #[test]
    fn an_object_is_structured_and_a_text_is_its_text() {
        let object = answered(&json!({ "b": 1, "a": 2 }), false).unwrap();
        assert_eq!(object["structuredContent"], json!({ "b": 1, "a": 2 }));
        assert_eq!(object["content"][0]["text"], r#"{"b":1,"a":2}"#);
        assert_eq!(object["content"][1]["type"], "resource_link");
        assert_eq!(object["_meta"]["skillrun/code"], "ok");
        let text = answered(&json!("Hello\n"), false).unwrap();
        assert_eq!(text["content"][0]["text"], "Hello\n");
        assert_eq!(text.get("structuredContent"), None);
    }

    #[test]
    fn content_of_a_skill_is_what_clients_can_take_or_an_error() {
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        let good = json!({ "content": [image], "structuredContent": { "a": 1 }, "isError": true });
        let good = answered(&good, true).unwrap();
        assert_eq!(
            (&good["content"][0], &good["isError"]),
            (&image, &json!(true))
        );
        for (content, problem) in [
            (json!("text"), "the skill's result is no content"),
            (
                json!({ "content": "text" }),
                "the skill's result is no content",
            ),
            (
                json!({ "content": [{ "type": "video" }] }),
                "the skill's result is no content",
            ),
            (json!({ "content": [], "other": 1 }), "unknown field"),
            (
                json!({ "content": [], "structuredContent": [1] }),
                "expected an object",
            ),
            (
                json!({ "content": [{ "type": "audio", "data": "!", "mimeType": "audio/wav" }] }),
                "content[0]: expected base64",
            ),
            (
                json!({ "content": [{ "type": "resource_link", "uri": "no uri", "name": "n" }] }),
                "content[0]: expected a URI",
            ),
        ] {
            let error = answered(&content, true).unwrap_err();
            assert!(
                error["message"].as_str().unwrap().contains(problem),
                "{error}"
            );
            assert_eq!(error["data"]["code"], "invalid_output", "{content}");
        }
    }

    #[test]
    fn what_a_skill_did_is_a_result_and_what_the_host_met_is_an_error() {
        let failed = |status, code| {
            let end = RunCompleted {
                error: Some("why".to_owned().into()),
                hint: Some("do that".to_owned()),
                ..RunCompleted::new(status, code)
            };
            of(&end, false)
        };
        let own = failed(RunStatus::Error, OutcomeCode::SkillError).unwrap();
        assert_eq!(
            (&own["isError"], &own["content"][0]["text"]),
            (&json!(true), &json!("why\nhint: do that"))
        );
        let limit = failed(RunStatus::Error, OutcomeCode::TimeLimit).unwrap();
        assert_eq!(
            limit["content"][0]["text"],
            "time_limit: why\nhint: do that"
        );
        let broken = failed(RunStatus::Error, OutcomeCode::InvalidOutput).unwrap_err();
        assert_eq!(broken["data"]["hint"], "do that");
        assert_eq!(broken["code"], -32603);
        assert!(failed(RunStatus::Cancelled, OutcomeCode::Cancelled).is_ok());
    }
}
