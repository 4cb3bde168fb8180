//! JSON Schema, draft 2020-12, of what an operation takes and gives.

use serde_json::{Map, Value, json};

use super::shape::{Member, Shape};

/// Says which draft the schemas are written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of an operation's arguments: an object by parameter name.
pub(super) fn of_parameters(parameters: &[Member]) -> Value {
    document(record(parameters))
}

/// The schema of an operation's answer. Of a `result` it is what `ok` holds: `err` is no answer.
pub(super) fn of_result(result: &Shape) -> Value {
    document(match result {
        Shape::Result(ok, _) => of(ok),
        shape => of(shape),
    })
}

fn document(schema: Value) -> Value {
    let mut document = Map::new();
    document.insert("$schema".to_owned(), DIALECT.into());
    if let Value::Object(schema) = schema {
        document.extend(schema);
    }
    document.into()
}

/// The schema of every value that is read as this shape, and that is written for it.
pub(super) fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Nothing => json!({ "type": "null" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer(integer) => {
            let (minimum, maximum) = integer.range();
            json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
        }
        Shape::Float32 => json!({ "type": "number", "minimum": f32::MIN, "maximum": f32::MAX }),
        Shape::Float64 => json!({ "type": "number" }),
        Shape::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        Shape::String => json!({ "type": "string" }),
        Shape::List(items) => json!({ "type": "array", "items": of(items) }),
        Shape::Record(fields) => record(fields),
        Shape::Tuple(items) => json!({
            "type": "array",
            "prefixItems": items.iter().map(of).collect::<Vec<_>>(),
            "minItems": items.len(),
            "maxItems": items.len(),
        }),
        Shape::Variant(cases) => variant(&cases.members),
        Shape::Enum(names) => json!({ "type": "string", "enum": names }),
        Shape::Option(some) if matches!(**some, Shape::Option(_)) => {
            json!({ "anyOf": [tagged("some", some), { "type": "null" }] })
        }
        Shape::Option(some) => json!({ "anyOf": [of(some), { "type": "null" }] }),
        Shape::Result(ok, err) => json!({ "oneOf": [tagged("ok", ok), tagged("err", err)] }),
        Shape::Flags(names) => json!({
            "type": "array",
            "items": { "type": "string", "enum": names },
            "uniqueItems": true,
        }),
    }
}

fn record(fields: &[Member]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.clone(), of(&field.shape)))
        .collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| !matches!(field.shape, Shape::Option(_)))
        .map(|field| field.name.as_str())
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn variant(cases: &[Member]) -> Value {
    let is_bare = |case: &&Member| case.shape == Shape::Nothing;
    let bare: Vec<&str> = cases
        .iter()
        .filter(is_bare)
        .map(|case| case.name.as_str())
        .collect();
    let bare = (!bare.is_empty()).then(|| json!({ "type": "string", "enum": bare }));
    let with_payload = cases.iter().filter(|case| !is_bare(case));
    let with_payload = with_payload.map(|case| tagged(&case.name, &case.shape));
    json!({ "oneOf": bare.into_iter().chain(with_payload).collect::<Vec<_>>() })
}

/// An object with this one key.
fn tagged(key: &str, shape: &Shape) -> Value {
    json!({
        "type": "object",
        "properties": { key: of(shape) },
        "required": [key],
        "additionalProperties": false,
    })
}
