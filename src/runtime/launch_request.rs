//! What is to be launched, put together from the fields of a spec and from its metadata.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::error::RuntimeError;
use super::mode::Mode;
use super::types::{LaunchSpec, Metadata, PROMPT_BYTES_MAX};
use crate::capability::Capability;
use crate::id::{ExecutionId, RunId};
use crate::limits::LimitOverrides;
use crate::runner::JsonObject;

/// Bytes of the metadata of an execution, as JSON. Protects every ledger, list and snapshot that has them.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the id of a session or a task.
const ID_BYTES_MAX: usize = 128;
/// Bytes of the name of an agent, a backend or a repository.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a path; no system takes a longer one.
const PATH_BYTES_MAX: usize = 4096;

/// The key of metadata that is taken for more than that.
const LAUNCH_REQUEST: &str = "launch_request";

/// A launch whose every part is in order, as far as that can be told without looking anywhere.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Empty for one that is taken up.
    pub(super) agent_profile_id: String,
    /// Empty: the default.
    pub(super) executor_id: String,
    pub(super) workspace_path: Option<PathBuf>,
    pub(super) repository_id: Option<String>,
    pub(super) is_ephemeral: bool,
    pub(super) prompt: Option<String>,
    pub(super) prior_session: Option<RunId>,
    pub(super) mode: Mode,
    pub(super) session_id: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) retry_ambiguous: bool,
    pub(super) limits: LimitOverrides,
    pub(super) metadata: Metadata,
    /// The same as text, for the agent.
    pub(super) input: JsonObject,
    pub(super) parent: Option<ExecutionId>,
    pub(super) grants: Vec<Capability>,
    pub(super) is_foreign: bool,
}

/// An object inside the metadata, whose fields are taken out one by one, so that what is left is unknown.
struct Fields {
    path: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// The object of that name inside these metadata; one without a field when there is none.
    fn take_from(
        path: &str,
        from: &mut Map<String, Value>,
        key: &str,
    ) -> Result<Self, RuntimeError> {
        let path = format!("{path}.{key}");
        let fields = match from.remove(key) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields,
            Some(other) => return Err(wrong_type(&path, "an object", &other)),
        };
        Ok(Self { path, fields })
    }

    fn object(&mut self, key: &str) -> Result<Self, RuntimeError> {
        Self::take_from(&self.path, &mut self.fields, key)
    }

    /// A text; empty when there is none.
    fn text(&mut self, key: &str) -> Result<String, RuntimeError> {
        match self.fields.remove(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong_type(&self.at(key), "a string", &other)),
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool, RuntimeError> {
        match self.fields.remove(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong_type(&self.at(key), "a boolean", &other)),
        }
    }

    fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    /// # Errors
    /// Something is left that nobody knows.
    fn end(self) -> Result<(), RuntimeError> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(key) => {
                let field = super::error::shown(&self.at(key));
                Err(RuntimeError::invalid(field, "there is no such field"))
            }
        }
    }
}

fn wrong_type(path: &str, expected: &str, found: &Value) -> RuntimeError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    RuntimeError::invalid(path, format!("expected {expected}, found {found}"))
}

impl Launch {
    /// Puts a launch together: what the spec does not set is taken from the launch request in its metadata.
    ///
    /// # Errors
    /// Something of it is not what it has to be.
    pub(super) fn of(spec: LaunchSpec) -> Result<Self, RuntimeError> {
        let mut metadata = spec.metadata;
        let mut request = Fields::take_from("metadata", &mut metadata, LAUNCH_REQUEST)?;
        let mut folder = request.object("workspace")?;
        let mut overlay = |field: &'static str, set: String| -> Result<String, RuntimeError> {
            let below = request.text(field)?;
            Ok(if set.is_empty() { below } else { set })
        };
        let agent_profile_id = overlay("agent_profile_id", spec.agent_profile_id)?;
        let executor_id = overlay("executor_id", spec.executor_id)?;
        let prompt = overlay("prompt", spec.prompt)?;
        let prior_session = overlay("prior_session", spec.prior_session)?;
        let mcp_mode = overlay("mcp_mode", spec.mcp_mode)?;
        let session_id = overlay("session_id", String::new())?;
        let task_id = overlay("task_id", String::new())?;
        let retry_ambiguous = request.flag("retry_ambiguous")?;
        let limits = limits(request.object("limits")?, spec.is_foreign)?;
        let more = request.object("metadata")?.fields;
        let mut overlay = |field: &'static str, set: String| -> Result<String, RuntimeError> {
            let below = folder.text(field)?;
            Ok(if set.is_empty() { below } else { set })
        };
        let path = overlay("path", spec.workspace.path)?;
        let repository_id = overlay("repository_id", spec.workspace.repository_id)?;
        let is_ephemeral = folder.flag("is_ephemeral")? || spec.workspace.is_ephemeral;
        folder.end()?;
        request.end()?;
        let prior_session = prior(&prior_session)?;
        if agent_profile_id.is_empty() && prior_session.is_none() {
            let problem = "expected the name of an installed skill, found nothing";
            return Err(RuntimeError::invalid("agent_profile_id", problem));
        }
        check_text("agent_profile_id", &agent_profile_id, NAME_BYTES_MAX)?;
        check_text("executor_id", &executor_id, NAME_BYTES_MAX)?;
        check_text("workspace.repository_id", &repository_id, NAME_BYTES_MAX)?;
        check_length("workspace.path", &path, PATH_BYTES_MAX)?;
        check_length("prompt", &prompt, PROMPT_BYTES_MAX)?;
        let (metadata, input) = whole(more, metadata)?;
        let set = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            agent_profile_id,
            executor_id,
            is_ephemeral: is_ephemeral && path.is_empty(),
            workspace_path: set(path).map(PathBuf::from),
            repository_id: set(repository_id),
            prompt: set(prompt),
            prior_session,
            mode: match mcp_mode.as_str() {
                "" => Mode::default(),
                mode => mode.parse()?,
            },
            session_id: checked_id("session_id", session_id)?,
            task_id: checked_id("task_id", task_id)?,
            retry_ambiguous,
            limits,
            metadata,
            input,
            parent: spec.parent,
            grants: spec.grants,
            is_foreign: spec.is_foreign,
        })
    }
}

/// The metadata that are carried over, as values and as text.
fn whole(mut below: Metadata, above: Metadata) -> Result<(Metadata, JsonObject), RuntimeError> {
    below.remove(LAUNCH_REQUEST);
    below.extend(above);
    let invalid = |problem: String| RuntimeError::invalid("metadata", problem);
    let text = serde_json::to_string(&below).map_err(|error| invalid(error.to_string()))?;
    if text.len() > METADATA_BYTES_MAX {
        let bytes = text.len();
        let problem = format!("expected at most {METADATA_BYTES_MAX} bytes, found {bytes}");
        return Err(invalid(problem));
    }
    let input = JsonObject::parse(&text).map_err(|error| invalid(error.to_string()))?;
    Ok((below, input))
}

fn prior(text: &str) -> Result<Option<RunId>, RuntimeError> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<RunId>();
    let parsed =
        parsed.map_err(|error| RuntimeError::invalid("prior_session", error.to_string()))?;
    Ok(Some(parsed))
}

fn limits(section: Fields, is_foreign: bool) -> Result<LimitOverrides, RuntimeError> {
    let path = section.path.clone();
    if is_foreign && !section.fields.is_empty() {
        let problem = "limits are the operator's to set, and not a client's";
        return Err(RuntimeError::invalid(path, problem));
    }
    let limit = |(key, value): (String, Value)| match value.as_i64() {
        Some(number) => Ok((key, number)),
        None => {
            let path = super::error::shown(&format!("{path}.{key}"));
            Err(wrong_type(&path, "a whole number", &value))
        }
    };
    section.fields.into_iter().map(limit).collect()
}

/// An id of the launcher's own, which may become part of a path or an address somewhere: visible ASCII, without
/// separators, and no name that means a folder.
fn checked_id(field: &'static str, id: String) -> Result<Option<String>, RuntimeError> {
    if id.is_empty() {
        return Ok(None);
    }
    check_id(&format!("metadata.{LAUNCH_REQUEST}.{field}"), &id)?;
    Ok(Some(id))
}

fn check_id(field: &str, id: &str) -> Result<(), RuntimeError> {
    let is_id = id.len() <= ID_BYTES_MAX
        && id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !br"/\".contains(&byte))
        && ![".", ".."].contains(&id);
    if is_id {
        return Ok(());
    }
    let id = super::error::shown(id);
    let problem = format!(
        r"expected 1 to {ID_BYTES_MAX} visible ASCII characters without / and \, and neither . nor .., found {id:?}"
    );
    Err(RuntimeError::invalid(field, problem))
}

fn check_length(field: &str, text: &str, bytes_max: usize) -> Result<(), RuntimeError> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let problem = format!("expected at most {bytes_max} bytes, found {}", text.len());
    Err(RuntimeError::invalid(field, problem))
}

fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<(), RuntimeError> {
    check_length(field, text, bytes_max)?;
    if text.chars().any(char::is_control) {
        let problem = "expected text without control characters";
        return Err(RuntimeError::invalid(field, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Launch, LaunchSpec, METADATA_BYTES_MAX};
    use crate::runtime::{Mode, WorkspaceRef};

    fn spec(metadata: &Value) -> LaunchSpec {
        LaunchSpec {
            metadata: metadata.as_object().unwrap().clone(),
            ..LaunchSpec::default()
        }
    }

    fn base() -> Value {
        json!({"launch_request": {
            "agent_profile_id": "below",
            "executor_id": "there",
            "workspace": {"path": "/below", "repository_id": "r", "is_ephemeral": true},
            "prompt": "below",
            "mcp_mode": "office",
            "session_id": "s",
            "task_id": "t",
            "retry_ambiguous": true,
            "limits": {"fuel": 7},
            "metadata": {"a": 1, "b": 1},
        }, "b": 2, "c": 3})
    }

    #[test]
    fn the_launch_request_is_what_the_spec_does_not_set() {
        let given = spec(&base());
        let launch = Launch::of(given.clone()).unwrap();
        assert_eq!(launch.agent_profile_id, "below");
        assert_eq!(launch.executor_id, "there");
        assert_eq!(launch.workspace_path.unwrap().to_str(), Some("/below"));
        assert_eq!(launch.repository_id.as_deref(), Some("r"));
        assert!(!launch.is_ephemeral);
        assert_eq!(launch.prompt.as_deref(), Some("below"));
        assert_eq!(launch.mode, Mode::Office);
        assert_eq!(launch.session_id.as_deref(), Some("s"));
        assert_eq!(launch.task_id.as_deref(), Some("t"));
        assert!(launch.retry_ambiguous);
        assert_eq!(launch.limits.get("fuel"), Some(&7));
        assert_eq!(
            Value::from(launch.metadata),
            json!({"a": 1, "b": 2, "c": 3})
        );
        assert_eq!(launch.input.as_str(), r#"{"a":1,"b":2,"c":3}"#);
        // What the caller holds is as it was.
        assert_eq!(given, spec(&base()));
    }

    #[test]
    fn each_field_that_is_set_counts_more() {
        let above = LaunchSpec {
            agent_profile_id: "above".to_owned(),
            executor_id: "here".to_owned(),
            workspace: WorkspaceRef {
                path: "/above".to_owned(),
                ..WorkspaceRef::default()
            },
            prompt: "above".to_owned(),
            mcp_mode: "config".to_owned(),
            ..spec(&base())
        };
        let launch = Launch::of(above).unwrap();
        assert_eq!(launch.agent_profile_id, "above");
        assert_eq!(launch.executor_id, "here");
        assert_eq!(launch.workspace_path.unwrap().to_str(), Some("/above"));
        assert_eq!(launch.repository_id.as_deref(), Some("r"));
        assert_eq!(launch.prompt.as_deref(), Some("above"));
        assert_eq!(launch.mode, Mode::Config);
    }

    #[test]
    fn what_is_of_a_wrong_type_is_refused_with_its_path() {
        let request = |field: &str, value: Value| json!({"launch_request": {field: value}});
        for (metadata, path) in [
            (json!({"launch_request": 1}), "metadata.launch_request:"),
            (json!({"launch_request": []}), "metadata.launch_request:"),
            (
                request("prompt", json!(1)),
                "metadata.launch_request.prompt:",
            ),
            (
                request("workspace", json!("/a")),
                "metadata.launch_request.workspace:",
            ),
            (
                request("workspace", json!({"path": true})),
                "metadata.launch_request.workspace.path:",
            ),
            (
                request("workspace", json!({"paths": "/a"})),
                "metadata.launch_request.workspace.paths:",
            ),
            (
                request("retry_ambiguous", json!("yes")),
                "metadata.launch_request.retry_ambiguous:",
            ),
            (
                request("limits", json!({"fuel": "7"})),
                "metadata.launch_request.limits.fuel:",
            ),
            (
                request("metadata", json!(1)),
                "metadata.launch_request.metadata:",
            ),
            (
                request("parent_execution_id", json!("x")),
                "metadata.launch_request.parent_execution_id:",
            ),
            (
                request("session_id", json!("a/b")),
                "metadata.launch_request.session_id:",
            ),
            (
                request("task_id", json!("..")),
                "metadata.launch_request.task_id:",
            ),
            (json!({"a": "x".repeat(METADATA_BYTES_MAX)}), "metadata:"),
        ] {
            let mut given = spec(&metadata);
            given.agent_profile_id = "a".to_owned();
            let error = Launch::of(given).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid {path}")), "{error}");
        }
    }

    #[test]
    fn ids_that_could_lead_somewhere_are_refused() {
        for bad in [".", "..", "a/b", r"a\b", "a b", "ä", "\n", &"a".repeat(129)] {
            assert!(super::check_id("id", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "...", "PROJ-1", "a.b:c@d", &"a".repeat(128)] {
            assert!(super::check_id("id", good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_client_of_a_surface_has_no_say_in_limits() {
        let foreign = LaunchSpec {
            is_foreign: true,
            ..spec(&base())
        };
        let error = Launch::of(foreign).unwrap_err().to_string();
        assert!(error.contains("metadata.launch_request.limits"), "{error}");
    }
}
