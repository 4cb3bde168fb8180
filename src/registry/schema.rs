//! The JSON Schemas of a skill's input and output, from the manifest or from files beside it.

use std::path::{Component as PathPart, Path};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{FileFindings, Findings, Position, Problem};
use super::folder::Folder;

/// Bytes of a schema file; protects whoever validates by it.
const SCHEMA_BYTES_MAX: u64 = 256 * 1024;

/// Whether a text is the relative path of a `.json` file, without any step upwards.
pub(super) fn is_path_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    path.ends_with(".json") && parts.all(|part| matches!(part, PathPart::Normal(_)))
}

/// The schema in a file of the folder. What is wrong is added to `findings`, at its place in that file.
pub(super) fn from_file(folder: &Folder, path: &str, findings: &mut Findings) -> Option<Value> {
    let file = folder.path.join(path);
    let expected = "the schema that skill.toml names";
    let text = folder
        .read_text(path, SCHEMA_BYTES_MAX)
        .and_then(|text| text.ok_or(Problem::Missing { expected }))
        .map_err(|problem| findings.refuse(&file, problem))
        .ok()?;
    match serde_json::from_str::<Map<String, Value>>(&text) {
        Ok(object) => Some(Value::Object(object)),
        Err(error) => {
            let position = Position {
                line: error.line().max(1),
                column: error.column().max(1),
            };
            let problem = Problem::Syntax {
                language: "JSON Schema",
                message: message(&error),
            };
            FileFindings { findings, file }.error(position, problem);
            None
        }
    }
}

/// What the JSON parser said, without the place, which is told apart.
fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}

/// A TOML value that JSON does not have.
pub(super) struct NotJson {
    /// The byte at which it stands.
    pub(super) offset: usize,
    pub(super) found: &'static str,
}

/// The schema that stands in the manifest itself.
pub(super) fn from_table(table: &DeTable<'_>) -> Result<Value, NotJson> {
    let entries = table.iter().map(|(key, entry)| {
        let key: &str = key.get_ref().as_ref();
        Ok((key.to_owned(), json(entry)?))
    });
    Ok(Value::Object(entries.collect::<Result<_, _>>()?))
}

/// The recursion ends at the depth at which the TOML parser does.
fn json(entry: &Spanned<DeValue<'_>>) -> Result<Value, NotJson> {
    let not_json = |found| NotJson {
        offset: entry.span().start,
        found,
    };
    match entry.get_ref() {
        DeValue::String(text) => Ok(Value::String(text.clone().into_owned())),
        DeValue::Boolean(value) => Ok(Value::Bool(*value)),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .map(Value::from)
            .map_err(|_| not_json("an integer of more than 64 bits")),
        DeValue::Float(value) => value
            .as_str()
            .parse()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| not_json("a number that is not finite")),
        DeValue::Datetime(_) => Err(not_json("datetime")),
        DeValue::Array(list) => list
            .iter()
            .map(json)
            .collect::<Result<_, _>>()
            .map(Value::Array),
        DeValue::Table(table) => from_table(table),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Findings, Folder, from_file};

    #[test]
    fn a_schema_file_must_be_there_and_hold_an_object() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("list.json"), "\n []").unwrap();
        fs::write(dir.path().join("half.json"), "{\n\"a\":").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        for (name, place, part) in [
            ("absent.json", "absent.json", "no such file"),
            ("list.json", "list.json:2:1", "expected a map"),
            ("half.json", "half.json:2:4", "EOF"),
        ] {
            let mut findings = Findings::default();
            assert_eq!(from_file(&folder, name, &mut findings), None);
            let (errors, _) = findings.into_sorted();
            let [error] = &errors[..] else {
                panic!("{name}: {errors:?}");
            };
            assert!(error.to_string().ends_with(place), "{error}");
            let problem = error.problem.to_string();
            assert!(
                problem.contains(part) && !problem.contains("line"),
                "{problem}"
            );
        }
    }
}
