//! Resources.

use serde_json::{Value, json};

use crate::blocks::PNG;
use crate::{Answer, text};

pub(crate) fn answer(name: &str, input: &Value) -> Answer {
    Some(Ok(match name {
        "static-text" => json!("This is the content of the static text resource."),
        "static-binary" => json!({ "contents": [{ "blob": PNG, "mimeType": "image/png" }] }),
        "watched-resource" => json!("This is the content of the watched resource."),
        "template-data" => {
            let id = text(input, "id");
            let data = format!("Data for ID: {id}");
            let document = json!({ "id": id, "templateTest": true, "data": data });
            json!({ "contents": [{ "text": document.to_string(), "mimeType": "application/json" }] })
        }
        _ => return None,
    }))
}
