//! What the person allows.

use std::collections::BTreeSet;

use serde_json::json;
use skillrun_sdk::llm::ToolUse;
use skillrun_sdk::tools::Tool;
use skillrun_sdk::{HostError, session};

const ALLOW: &str = "allow";
const ALLOW_ALWAYS: &str = "allow_always";
const DENY: &str = "deny";

/// The tools that need not be asked about any more.
#[derive(Default)]
pub(crate) struct Permissions {
    always: BTreeSet<String>,
}

impl Permissions {
    /// Why a tool must not be called; nothing, if it may. The person is asked about what changes something.
    ///
    /// # Errors
    /// The turn is being cancelled.
    pub(crate) fn refusal(
        &mut self,
        tool: &Tool,
        wanted: &ToolUse,
    ) -> Result<Option<String>, HostError> {
        if tool.read_only || self.always.contains(&tool.name) {
            return Ok(None);
        }
        let title = format!("Call {}?", tool.name);
        let options = [
            (ALLOW, "Allow"),
            (ALLOW_ALWAYS, "Allow always"),
            (DENY, "Deny"),
        ];
        let details = json!({ "tool": tool.name, "arguments": wanted.arguments });
        match session::request_permission(&title, &options, &details).as_deref() {
            Ok(ALLOW) => Ok(None),
            Ok(ALLOW_ALWAYS) => {
                self.always.insert(tool.name.clone());
                Ok(None)
            }
            Ok(_) => Ok(Some("the user said no".to_owned())),
            Err(HostError::Cancelled) => Err(HostError::Cancelled),
            // Nobody said yes.
            Err(error) => Ok(Some(format!("nobody allowed it: {error}"))),
        }
    }
}
