//! JSON Schema 2020-12 of Rust types. It is generated where it is asked for and not kept.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of what is read as `T`, as of a skill's input or a model's answer. `true`, if that is
/// anything.
pub fn of_input<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of what `T` is written as, as of a skill's result.
pub fn of_output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// A schema as a descriptor has it: empty where anything fits.
pub(crate) fn text(schema: &Value) -> String {
    match schema {
        Value::Bool(true) => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        schema => schema.to_string(),
    }
}

/// Types are written out where they are used, since not every model follows references; only one that
/// contains itself is referred to.
fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> Value {
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of the Rust type says nothing to whoever calls.
    schema.remove("title");
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::{of_input, of_output, text};

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
        Large,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[schemars(length(min = 1, max = 8))]
        name: String,
        #[serde(default)]
        size: Option<Size>,
    }

    #[test]
    fn a_type_becomes_one_self_contained_schema() {
        assert_eq!(
            of_input::<Order>(),
            json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "minLength": 1, "maxLength": 8 },
                    "size": {
                        "type": ["string", "null"],
                        "enum": ["small", "large", null],
                        "default": null,
                    },
                },
                "required": ["name"],
                "additionalProperties": false,
            })
        );
        assert_eq!(of_output::<Order>()["required"], json!(["name", "size"]));
    }

    #[test]
    fn anything_is_an_empty_text() {
        assert_eq!(text(&of_input::<Value>()), "");
        assert_eq!(text(&of_output::<u8>()), of_output::<u8>().to_string());
    }
}
