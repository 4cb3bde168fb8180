//! Resources: what skills have at their addresses, the files of skills, and runs.

use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, LoggingLevel,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::answer::{BLOCKS_MAX, base64, protocol_error, refusal};
use super::call::{Done, check_client};
use super::catalog::Entry;
use super::client::Client;
use super::page::{LIST_TTL_MS, page};
use super::prompt::no_answer;
use super::run_resource::{self, RunAddress};
use super::skill_folder;
use super::start::Job;
use crate::id::RunId;
use crate::ledger::{RunCompleted, RunStatus};
use crate::outcome::OutcomeCode;
use crate::registry::{McpRole, ResourceAddress};

/// Bytes of an address that are looked at. Protects whoever looks; the longest that there is, is shorter.
pub(super) const URI_BYTES_MAX: usize = 4 * 1024;
/// The variable in which a skill is told the whole address.
const URI: &str = "uri";

impl Mcp {
    pub(super) async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: &RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut all = Vec::new();
        for (_, entry) in self.entries(McpRole::Resource).await {
            if let Some(ResourceAddress::Uri(uri)) = &entry.skill.manifest.mcp.address {
                all.push((format!("0 {uri}"), listed(&entry, uri)));
            }
        }
        for resource in skill_folder::texts(&self.host().skills().current()) {
            all.push((format!("1 {}", resource.uri), resource));
        }
        for run in self.own_runs(&Client::of(self, cx)).await? {
            all.push((format!("2 {}", run.run_id), run_resource::listed(&run)));
        }
        let page_size = self.settings().page_size;
        let page = page("resources/list", all, request.as_ref(), page_size)?;
        // Runs come all the time.
        let mut result = ListResourcesResult::with_all_items(page.items).with_ttl_ms(0);
        result.next_cursor = page.next_cursor;
        Ok(result)
    }

    pub(super) async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all: Vec<(String, ResourceTemplate)> = Vec::new();
        for (_, entry) in self.entries(McpRole::Resource).await {
            if let Some(ResourceAddress::Template(uri)) = &entry.skill.manifest.mcp.address {
                all.push((format!("0 {uri} {}", entry.name), template(&entry, uri)));
            }
        }
        for template in run_resource::templates() {
            all.push((format!("1 {}", template.uri_template), template));
        }
        let page_size = self.settings().page_size;
        let page = page("resources/templates/list", all, request.as_ref(), page_size)?;
        let mut result =
            ListResourceTemplatesResult::with_all_items(page.items).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = page.next_cursor;
        Ok(result)
    }

    pub(super) async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: &RequestContext<RoleServer>,
        level: Option<LoggingLevel>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = Client::of(self, cx);
        let uri = request.uri.clone();
        if uri.len() > URI_BYTES_MAX {
            return Err(not_found(&uri));
        }
        if let Some(address) = RunAddress::parse(&uri) {
            let contents = self.read_run(&client, &uri, address).await?;
            let contents = contents.ok_or_else(|| not_found(&uri))?;
            return Ok(ReadResourceResult::new(vec![contents])
                .with_ttl_ms(0)
                .into());
        }
        if uri.starts_with(skill_folder::SCHEME) {
            let contents = self.read_skill_file(&uri).await?;
            let result = ReadResourceResult::new(vec![contents]);
            return Ok(result.with_ttl_ms(LIST_TTL_MS).into());
        }
        let Some((entry, variables)) = self.resource_at(&uri).await else {
            return Err(not_found(&uri));
        };
        check_client(&client, &entry.skill)?;
        let mut arguments = Map::from_iter([(URI.to_owned(), json!(uri))]);
        for (name, value) in variables {
            arguments.entry(name).or_insert(Value::String(value));
        }
        let job = Job::new(
            "resources/read",
            &uri,
            entry.target.clone(),
            Some(arguments),
        )?
        .with_answers(request.input_responses, request.request_state);
        let mime_type = entry.skill.manifest.mcp.mime_type.as_deref();
        match self.carry_out(&client, job, cx, level).await? {
            Done::Ended(run_id, end) => {
                let contents = answer(&run_id, &end, &uri, mime_type)?;
                Ok(ReadResourceResult::new(contents).with_ttl_ms(0).into())
            }
            Done::Asks(asks) => Ok(asks.into()),
            Done::Task(run_id) => Err(no_answer(&run_id)),
        }
    }

    /// The skill whose address that is, and what its variables stand for. One that has just this address goes before
    /// those whose template it fits.
    pub(super) async fn resource_at(&self, uri: &str) -> Option<(Entry, Vec<(String, String)>)> {
        let all = self.entries(McpRole::Resource).await;
        let fits = |entry: Entry| {
            let address = entry.skill.manifest.mcp.address.as_ref()?;
            let variables = address.matched(uri)?;
            Some((entry, variables))
        };
        let fitting = all.into_values().filter_map(fits);
        // Of two with as many variables, the first by name.
        fitting.min_by_key(|(_, variables)| variables.len())
    }
}

/// There is nothing at that address, which is not repeated at length.
pub(super) fn not_found(uri: &str) -> ErrorData {
    let end = uri.floor_char_boundary(URI_BYTES_MAX);
    let data = json!({ "code": "not_found", "uri": uri.get(..end) });
    ErrorData::resource_not_found("there is no such resource", Some(data))
}

fn listed(entry: &Entry, uri: &str) -> Resource {
    let mcp = &entry.skill.manifest.mcp;
    let mut resource = Resource::new(uri, entry.name.clone()).with_description(entry.description());
    resource.title = mcp.title.clone();
    resource.mime_type = mcp.mime_type.clone();
    resource
}

fn template(entry: &Entry, uri: &str) -> ResourceTemplate {
    let mcp = &entry.skill.manifest.mcp;
    let mut template =
        ResourceTemplate::new(uri, entry.name.clone()).with_description(entry.description());
    template.title = mcp.title.clone();
    template.mime_type = mcp.mime_type.clone();
    template
}

/// What a skill answers as a resource, where it is more than a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    contents: Vec<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Content {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
    #[serde(default)]
    mime_type: Option<String>,
}

/// What the client is answered with when the run of a resource has ended.
fn answer(
    run_id: &RunId,
    end: &RunCompleted,
    uri: &str,
    mime_type: Option<&str>,
) -> Result<Vec<ResourceContents>, ErrorData> {
    if end.status != RunStatus::Ok {
        return Err(refusal(run_id, end));
    }
    let invalid = |problem: String| {
        let message = format!("the skill's result is no resource: {problem}");
        protocol_error(run_id, OutcomeCode::InvalidOutput, message, None)
    };
    let value = end.output.clone().unwrap_or_default().to_value();
    let value = value.map_err(|error| invalid(error.to_string()))?;
    if let Value::String(text) = value {
        let contents = ResourceContents::text(text, uri);
        return Ok(vec![with_mime_type(contents, mime_type)]);
    }
    let given = Contents::deserialize(value).map_err(|error| invalid(error.to_string()))?;
    if !(1..=BLOCKS_MAX).contains(&given.contents.len()) {
        return Err(invalid(format!("expected 1 to {BLOCKS_MAX} contents")));
    }
    let mut contents = Vec::new();
    for (at, content) in given.contents.into_iter().enumerate() {
        let one = match (content.text, content.blob) {
            (Some(text), None) => Ok(ResourceContents::text(text, uri)),
            (None, Some(blob)) => base64(&blob).map(|()| ResourceContents::blob(blob, uri)),
            _ => Err("expected either text or blob".to_owned()),
        };
        let one = one.map_err(|problem| invalid(format!("contents[{at}]: {problem}")))?;
        contents.push(with_mime_type(
            one,
            content.mime_type.as_deref().or(mime_type),
        ));
    }
    Ok(contents)
}

fn with_mime_type(contents: ResourceContents, mime_type: Option<&str>) -> ResourceContents {
    match mime_type {
        Some(mime_type) => contents.with_mime_type(mime_type),
        None => contents,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{URI_BYTES_MAX, answer, not_found};
    use crate::ledger::{Json, RunCompleted, RunStatus};
    use crate::outcome::OutcomeCode;

    fn answered(output: &Value) -> Result<Value, Value> {
        let end = RunCompleted {
            output: Some(Json::parse(&output.to_string()).unwrap()),
            ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
        };
        let run_id = "run_0190a0a0a0a07000800000000000002a".parse().unwrap();
        match answer(&run_id, &end, "test://a", Some("text/css")) {
            Ok(contents) => Ok(serde_json::to_value(contents).unwrap()),
            Err(error) => Err(serde_json::to_value(error).unwrap()),
        }
    }

    #[test]
    fn what_a_skill_answers_is_a_text_or_contents_or_an_error() {
        let text = json!([{ "uri": "test://a", "mimeType": "text/css", "text": "a{}" }]);
        assert_eq!(answered(&json!("a{}")), Ok(text));
        let contents =
            json!({ "contents": [{ "text": "t" }, { "blob": "aGk=", "mimeType": "image/png" }] });
        let expected = json!([
            { "uri": "test://a", "mimeType": "text/css", "text": "t" },
            { "uri": "test://a", "mimeType": "image/png", "blob": "aGk=" },
        ]);
        assert_eq!(answered(&contents), Ok(expected));
        for (output, problem) in [
            (json!(null), "the skill's result is no resource"),
            (json!({ "contents": [] }), "expected 1 to 1000"),
            (json!({ "contents": [{}] }), "contents[0]: expected either"),
            (
                json!({ "contents": [{ "text": "a", "blob": "" }] }),
                "expected either",
            ),
            (
                json!({ "contents": [{ "blob": "!" }] }),
                "contents[0]: expected base64",
            ),
            (
                json!({ "contents": [{ "text": "a", "uri": "test://b" }] }),
                "unknown field",
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

    #[test]
    fn a_long_address_is_not_repeated_whole() {
        let error = not_found(&"é".repeat(URI_BYTES_MAX));
        let data = error.data.unwrap();
        assert_eq!(data["uri"].as_str().unwrap().len(), URI_BYTES_MAX);
    }
}
