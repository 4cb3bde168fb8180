//! The fixtures of the conformance suite of MCP. The suite calls tools, prompts and resources by names of its own and
//! looks at what it is answered. Each is a skill with a folder in `skills`, and all have this component, which does
//! what belongs to the name under which it was called.

mod blocks;
mod client;
mod jobs;
mod prompts;
mod questions;
mod resources;
mod tools;

use serde_json::Value;
use skillrun_sdk::{Descriptor, Skill, SkillError, run};

struct Conformance;

impl Skill for Conformance {
    type Input = Value;
    type Output = Value;

    fn describe() -> Descriptor {
        Descriptor::new("conformance", "0.1.0", "A fixture of the conformance suite")
    }

    fn run(input: Value) -> Result<Value, SkillError> {
        let name = run::skill_name();
        let families = [
            tools::answer,
            questions::answer,
            jobs::answer,
            prompts::answer,
            resources::answer,
        ];
        let answered = families.iter().find_map(|answer| answer(&name, &input));
        answered.unwrap_or_else(|| Err(SkillError::new(format!("there is no fixture {name:?}"))))
    }
}

/// What a fixture answers; none where the name belongs to another family.
type Answer = Option<Result<Value, SkillError>>;

/// A text of the input; empty where there is none.
fn text<'i>(input: &'i Value, key: &str) -> &'i str {
    input.get(key).and_then(Value::as_str).unwrap_or_default()
}

skillrun_sdk::export!(Conformance);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};
    use skillrun_sdk::mock::Mock;
    use skillrun_sdk::tools::Answer;
    use skillrun_sdk::{HostError, SkillError};

    use super::Conformance;

    fn called(mock: Mock, name: &str, input: &Value) -> Result<Value, SkillError> {
        let mock = mock.skill_name(name);
        mock.run_skill::<Conformance>(input).result
    }

    /// A client that has nothing to say.
    fn silent() -> Mock {
        let names = ["client__elicit", "client__sample", "client__roots"];
        let silent = |mock: Mock, name| mock.tool(name, |_| Ok(json!({})));
        names.into_iter().fold(Mock::new(), silent)
    }

    #[test]
    fn every_folder_is_a_fixture() {
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        let input = json!({ "seconds": 0 });
        for folder in fs::read_dir(folders).unwrap() {
            let name = folder.unwrap().file_name().into_string().unwrap();
            if name == "test-tool-with-task" {
                // It takes its time even where nobody answers.
                continue;
            }
            if let Err(error) = called(silent(), &name, &input) {
                assert!(!error.message.contains("no fixture"), "{error}");
            }
        }
        let error = called(silent(), "other", &input).unwrap_err();
        assert_eq!(error.message, "there is no fixture \"other\"");
    }

    #[test]
    fn what_the_client_answers_is_used() {
        let mock = Mock::new().tool("client__elicit", |question| {
            let field = match question["key"].as_str() {
                Some("step2") => "color",
                _ => "name",
            };
            Ok(json!({ "action": "accept", "content": { field: format!("a {field}") } }))
        });
        let name = "test-input-required-result-multi-round";
        let answered = called(mock, name, &json!({})).unwrap();
        assert_eq!(answered["content"][0]["text"], "a name likes a color.");
    }

    #[test]
    fn a_client_that_cannot_be_asked_one_thing_is_asked_another() {
        let mock = Mock::new()
            .tool("client__sample", |_| {
                Ok(json!({ "content": { "type": "text", "text": "something" } }))
            })
            .tool("client__elicit", |_| {
                Err::<Answer, _>(HostError::Failed("did not declare it".to_owned()))
            });
        let name = "test-input-required-result-capabilities";
        let answered = called(mock, name, &json!({})).unwrap();
        assert_eq!(answered["content"][0]["text"], "something");
    }
}
