//! Keeps notes as files in `/notes`: a skill that works in a folder of the host.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillrun_sdk::{SkillError, recorder, skill};

/// The folder that the manifest asks for.
const FOLDER: &str = "/notes";
/// What a note's file ends in; other files in the folder are not ours.
const EXTENSION: &str = ".txt";

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Input {
    Add {
        #[schemars(length(min = 1))]
        title: String,
        text: String,
    },
    List {},
    Read {
        #[schemars(length(min = 1))]
        title: String,
    },
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Output {
    Added { title: String },
    Titles { titles: Vec<String> },
    Note { title: String, text: String },
}

#[skill]
fn notes(input: Input) -> Result<Output, SkillError> {
    match input {
        Input::Add { title, text } => recorder::step("add", || add(title, &text)),
        Input::List {} => recorder::step("list", list),
        Input::Read { title } => recorder::step("read", || read(title)),
    }
}

fn add(title: String, text: &str) -> Result<Output, SkillError> {
    let path = path_of(&title)?;
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| failed(&title, &error))?;
    Ok(Output::Added { title })
}

fn list() -> Result<Output, SkillError> {
    let mut titles = Vec::new();
    for entry in fs::read_dir(FOLDER).map_err(|error| failed(FOLDER, &error))? {
        let name = entry.map_err(|error| failed(FOLDER, &error))?.file_name();
        if let Some(title) = name.to_str().and_then(|name| name.strip_suffix(EXTENSION)) {
            titles.push(title.to_owned());
        }
    }
    titles.sort();
    Ok(Output::Titles { titles })
}

fn read(title: String) -> Result<Output, SkillError> {
    let text = fs::read_to_string(path_of(&title)?).map_err(|error| failed(&title, &error))?;
    Ok(Output::Note { title, text })
}

/// The file of a note. A title is a name and no path, whoever the host lets in.
fn path_of(title: &str) -> Result<PathBuf, SkillError> {
    let is_plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    if title.is_empty() || !title.chars().all(is_plain) {
        return Err(
            SkillError::new("a title is made of letters, digits, spaces, - and _")
                .with_code("invalid_input"),
        );
    }
    Ok(PathBuf::from(FOLDER).join(format!("{title}{EXTENSION}")))
}

/// What went wrong, with a code that a caller can act on.
fn failed(what: &str, error: &io::Error) -> SkillError {
    let code = match error.kind() {
        ErrorKind::PermissionDenied => "denied",
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "exists",
        _ => "io",
    };
    SkillError::new(format!("{what}: {error}")).with_code(code)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skillrun_sdk::{Skill, mock::Mock};

    use super::Notes;

    #[test]
    fn a_title_is_no_path() {
        let input = json!({ "do": "read", "title": "../secret" });
        let record = Mock::new().run_skill::<Notes>(&input);
        assert_eq!(record.error_code(), Some("invalid_input"));
        assert_eq!(record.steps(), [("read", false)]);
    }

    #[test]
    fn the_schema_has_a_case_for_each_thing_to_do() {
        let schema: Value = serde_json::from_str(&Notes::describe().input_schema).unwrap();
        assert_eq!(schema["type"], "object");
        let cases = schema["oneOf"].as_array().unwrap();
        let names: Vec<&Value> = cases
            .iter()
            .map(|case| &case["properties"]["do"]["const"])
            .collect();
        assert_eq!(names, ["add", "list", "read"]);
        assert_eq!(cases[0]["properties"]["title"]["minLength"], 1);
        assert!(
            cases
                .iter()
                .all(|case| case["additionalProperties"] == false)
        );
    }
}
