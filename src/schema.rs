//! JSON Schemas, which strangers write: compiled within bounds, and without fetching anything.

mod bounded;

use std::fmt;
use std::thread;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::telemetry::chain;

/// Bytes of a schema. Protects whoever compiles it.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one compiled pattern. Protects the same.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a message about a value that does not fit; the value itself is part of it.
const MESSAGE_BYTES_MAX: usize = 512;
/// Bytes of the stack on which a schema is compiled, which goes down as deep as the schema does.
const COMPILE_STACK_BYTES: usize = 64 * 1024 * 1024;

/// A JSON Schema that values can be checked against. A schema that names no dialect is read as 2020-12.
#[derive(Debug, Clone)]
pub struct Schema {
    validator: Validator,
    in_place_max: usize,
}

impl Schema {
    /// Compiles a schema from its JSON text.
    ///
    /// # Errors
    /// It is too large, not JSON, no valid schema, or refers to something outside of itself.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge { bytes: text.len() });
        }
        let invalid = |reason| SchemaError::Invalid { reason };
        let schema: Value =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let bounded = bounded::bounded(&schema).map_err(invalid)?;
        let (given, form) = (&schema, &bounded.schema);
        let compiled = thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(COMPILE_STACK_BYTES);
            let compiling = builder.spawn_scoped(scope, || build(given, form));
            compiling
                .map_err(|error| error.to_string())
                .and_then(|thread| thread.join().unwrap_or_else(|_| Err("failed".to_owned())))
        });
        Ok(Self {
            validator: compiled.map_err(invalid)?,
            in_place_max: bounded.in_place_max,
        })
    }

    /// As [`Schema::compile`], on a thread on which nobody else waits: what a stranger wrote may take
    /// seconds.
    ///
    /// # Errors
    /// As [`Schema::compile`].
    pub(crate) async fn compile_aside(text: String) -> Result<Self, SchemaError> {
        let compiled = tokio::task::spawn_blocking(move || Self::compile(&text)).await;
        compiled.unwrap_or_else(|error| {
            let reason = error.to_string();
            Err(SchemaError::Invalid { reason })
        })
    }

    /// Checks one value.
    ///
    /// # Errors
    /// The first place that does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let too_costly = |problem: &str| Mismatch {
            path: "$".to_owned(),
            problem: problem.to_owned(),
        };
        if bounded::is_too_deep(self.in_place_max, value) {
            return Err(too_costly("too deep to be checked against its schema"));
        }
        let (is_valid, is_paid) = bounded::with_budget(|| self.validator.is_valid(value));
        if !is_paid {
            return Err(too_costly(
                "takes too long to be checked against its schema",
            ));
        }
        if is_valid {
            return Ok(());
        }
        let (found, is_paid) = bounded::with_budget(|| {
            self.validator.validate(value).map_err(|error| Mismatch {
                path: path(error.instance_path().as_str()),
                problem: cut(&error.to_string()).to_owned(),
            })
        });
        match found {
            Err(mismatch) if is_paid => Err(mismatch),
            // That it does not fit is known; where, would take too long to tell.
            _ => Err(too_costly("does not fit its schema")),
        }
    }
}

/// Compiles the bounded form of a schema that is a schema as it was given.
fn build(given: &Value, form: &Value) -> Result<Validator, String> {
    let shown = |error: ValidationError<'_>| cut(&chain(&error.to_owned())).to_owned();
    jsonschema::meta::validate(given).map_err(shown)?;
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .with_keyword(bounded::COST, |_, cost, _| {
            Ok(Box::new(bounded::Cost::of(cost)))
        })
        .should_validate_formats(false)
        .offline()
        .build(form)
        .map_err(shown)
}

/// What an input and a result have to fit; whatever has no schema may be anything.
#[derive(Debug, Clone, Default)]
pub struct Contract {
    /// What is handed over.
    pub input: Option<Schema>,
    /// What comes back.
    pub output: Option<Schema>,
}

/// Why there is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is larger than a schema may be.
    #[error("schema has {bytes} bytes: expected at most {SCHEMA_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It cannot be used.
    #[error("invalid JSON Schema: {reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
}

/// A value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where in the value, such as `$.items[0].name`.
    pub path: String,
    /// What was found there and what was expected.
    pub problem: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// A JSON path from a JSON pointer.
fn path(pointer: &str) -> String {
    let mut path = "$".to_owned();
    for part in pointer.split('/').skip(1) {
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            path.push('.');
            path.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    cut(&path).to_owned()
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MESSAGE_BYTES_MAX))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{SCHEMA_BYTES_MAX, Schema, SchemaError};

    #[test]
    fn a_value_that_does_not_fit_is_told_where_and_why() {
        let schema = Schema::compile(
            r#"{"type":"object","properties":{"list":{"items":{"type":"integer"}}},"required":["list"]}"#,
        )
        .unwrap();
        schema.check(&json!({"list": [1, 2]})).unwrap();
        let mismatch = schema.check(&json!({"list": [1, "5"]})).unwrap_err();
        assert_eq!(mismatch.path, "$.list[1]");
        assert!(mismatch.problem.contains("integer"), "{mismatch}");
        let missing = schema.check(&json!({})).unwrap_err();
        assert!(missing.to_string().contains("list"), "{missing}");
    }

    #[test]
    fn nothing_is_fetched_and_nothing_huge_is_compiled() {
        for text in [
            r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r#"{"type":"what"}"#,
            "{",
        ] {
            let refused = Schema::compile(text).unwrap_err();
            assert!(
                matches!(refused, SchemaError::Invalid { .. }),
                "{text}: {refused}"
            );
        }
        let huge = format!(r#"{{"const":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        assert!(matches!(
            Schema::compile(&huge),
            Err(SchemaError::TooLarge { .. })
        ));
    }
    /// Compiles, checks and gives up a schema on a stack of the size that threads have; the outcome in a
    /// word.
    fn outcome(schema: &Value, value: Value) -> String {
        let text = schema.to_string();
        let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        let checked = thread.spawn(move || match Schema::compile(&text) {
            Err(refused) => refused.to_string(),
            Ok(schema) => match schema.check(&value) {
                Ok(()) => "fits".to_owned(),
                Err(mismatch) => mismatch.to_string(),
            },
        });
        checked.unwrap().join().unwrap()
    }

    /// Definitions that each refer to the next.
    fn chain(length: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
        let name = |index| format!("a{index}");
        let link = |index| link(json!({ "$ref": format!("#/$defs/{}", name(index + 1)) }));
        let links = (0..length).map(|index| (name(index), link(index)));
        let definitions: Map<String, Value> = links.chain([(name(length), last)]).collect();
        json!({ "$ref": "#/$defs/a0", "$defs": definitions })
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!({ "x": inner }))
    }

    #[test]
    fn a_schema_that_never_ends_is_refused() {
        let further = |inner: Value| json!({ "properties": { "x": inner } });
        for (schema, part) in [
            (json!({ "$ref": "#" }), "comes back to itself"),
            (
                json!({ "allOf": [{ "not": { "$ref": "#" } }] }),
                "comes back to itself",
            ),
            (
                json!({
                    "$ref": "#/$defs/a",
                    "$defs": {
                        "a": { "anyOf": [{ "$ref": "#/$defs/b" }] },
                        "b": { "if": true, "then": { "$ref": "#/$defs/a" } },
                    },
                }),
                "comes back to itself",
            ),
            (
                chain(40, |next| json!({ "anyOf": [next, next] }), json!(true)),
                "comes back to itself",
            ),
            (
                chain(4_000, further, json!(true)),
                "more than 4096 subschemas",
            ),
            (
                json!({ "$dynamicRef": "#a" }),
                "$dynamicRef is not supported",
            ),
            (
                json!({ "unevaluatedItems": false }),
                "unevaluatedItems is not supported",
            ),
            (json!({ "$ref": "#/const", "const": {} }), "is no subschema"),
            (json!({ "$ref": "other" }), "expected #/.."),
            (
                json!({ "items": { "$id": "https://a/" } }),
                "$id is supported at the root",
            ),
            (
                json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
                "unknown $schema",
            ),
            (
                json!({ "pattern": "((a{100}){100}){100}" }),
                "more than 20000 positions",
            ),
            (
                json!({ "items": vec![json!({}); 9_000] }),
                "more than 4096 subschemas",
            ),
        ] {
            let outcome = outcome(&schema, json!(1));
            assert!(outcome.contains(part), "{part}: {outcome}");
        }
    }

    #[test]
    fn a_check_that_takes_too_long_is_given_up() {
        let twice = json!({ "$ref": "#" });
        let x =
            |inner: &Value| json!({ "properties": { "x": inner, "y": false }, "required": ["x"] });
        let arrays: Vec<Value> = (0..5_000).map(|number| json!([number])).collect();
        for (schema, value, part) in [
            (
                json!({ "oneOf": [x(&twice), x(&twice), { "type": "string" }] }),
                nested(60),
                "schema",
            ),
            (
                json!({ "items": { "enum": arrays } }),
                json!(vec![json!([4_999]); 100_000]),
                "takes too long",
            ),
            (
                json!({ "items": { "multipleOf": 1e-300 } }),
                json!(vec![1e300; 100_000]),
                "takes too long",
            ),
            (
                json!({ "pattern": "[ab]*a[ab]{9000}c" }),
                json!("ab".repeat(500_000)),
                "takes too long",
            ),
            (
                chain(
                    14,
                    |next| json!({ "allOf": [next, next] }),
                    json!({ "type": "integer" }),
                ),
                json!(1),
                "fits",
            ),
            (
                chain(
                    12,
                    |next| json!({ "allOf": [next] }),
                    json!({ "items": { "$ref": "#" } }),
                ),
                (0..60).fold(json!(1), |inner, _| json!([inner])),
                "too deep",
            ),
        ] {
            let outcome = outcome(&schema, value);
            assert!(outcome.contains(part), "{part}: {outcome}");
        }
    }

    #[test]
    fn honest_schemas_mean_what_they_say() {
        let tree = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.com/tree",
            "type": "object",
            "properties": {
                "name": { "type": "string", "pattern": "^[a-z]+$" },
                "children": { "items": { "$ref": "#" } },
                "properties": { "$ref": "#/$defs/a~1b" },
            },
            "additionalProperties": false,
            "$defs": { "a/b": { "enum": ["$ref", { "not": {} }] } },
        });
        let draft_7 = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": { "n": { "type": "integer" } },
            "properties": { "x": { "$ref": "#/definitions/n" } },
            "dependencies": { "x": ["y"], "z": { "required": ["x"] } },
        });
        let numbers = json!({ "items": { "type": "integer" } });
        for (schema, value, says) in [
            (
                &tree,
                json!({ "name": "a", "children": [{ "name": "b" }] }),
                "fits",
            ),
            (&tree, json!({ "properties": { "not": {} } }), "fits"),
            (&tree, json!({ "properties": "other" }), "$.properties: "),
            (
                &tree,
                json!({ "children": [{}, { "name": "B" }] }),
                "$.children[1].name: ",
            ),
            (&tree, json!({ "other": 1 }), "$: "),
            (&draft_7, json!({ "x": 1, "y": 2 }), "fits"),
            (&draft_7, json!({ "x": "1", "y": 2 }), "$.x: "),
            (&draft_7, json!({ "x": 1 }), "$: "),
            (&draft_7, json!({ "z": 1 }), "$: "),
            (&numbers, json!(vec![1; 400_000]), "fits"),
            // As deep as schemas go.
            (
                &chain(
                    2_000,
                    |next| json!({ "properties": { "x": next } }),
                    json!({}),
                ),
                nested(60),
                "fits",
            ),
            (
                &chain(
                    12,
                    |next| json!({ "allOf": [next] }),
                    json!({ "items": { "$ref": "#" } }),
                ),
                (0..17).fold(json!(1), |inner, _| json!([inner])),
                "fits",
            ),
            (&json!(true), json!(1), "fits"),
            (&json!(false), json!(1), "$: "),
        ] {
            let outcome = outcome(schema, value);
            assert!(outcome.starts_with(says), "{says}: {outcome}");
        }
    }
}
