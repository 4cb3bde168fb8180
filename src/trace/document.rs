//! Spans as OTLP/JSON, which collectors and viewers read from a file.

use serde_json::{Value as Json, json};

use super::span::{Span, SpanKind, SpanStatus, Value};
use super::{Part, SERVICE_NAME};

/// The spans of these parts as one document, an `ExportTraceServiceRequest`.
pub fn document(parts: &[Part]) -> Json {
    let spans: Vec<Json> = parts
        .iter()
        .flat_map(|part| &part.spans)
        .map(span)
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                attribute("service.name", &Value::Text(SERVICE_NAME.to_owned())),
                attribute("service.version", &Value::Text(version.to_owned())),
            ] },
            "scopeSpans": [{
                "scope": { "name": SERVICE_NAME, "version": version },
                "spans": spans,
            }],
        }],
    })
}

fn span(span: &Span) -> Json {
    let attributes = span.attributes.iter();
    let attributes: Vec<Json> = attributes
        .map(|(key, value)| attribute(key, value))
        .collect();
    let parent = span.parent_span_id.map(|id| id.to_string());
    // Numbers of 64 bits are texts in the JSON of protocol buffers.
    let nanos = |micros: i64| (i128::from(micros) * 1000).max(0).to_string();
    json!({
        "traceId": span.trace_id.to_string(),
        "spanId": span.span_id.to_string(),
        "parentSpanId": parent.unwrap_or_default(),
        "name": span.name,
        "kind": match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": nanos(span.start_micros),
        "endTimeUnixNano": nanos(span.end_micros),
        "attributes": attributes,
        "status": match &span.status {
            SpanStatus::Unset => json!({}),
            SpanStatus::Error(message) => json!({ "code": 2, "message": message }),
        },
    })
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Int(number) => json!({ "intValue": number.to_string() }),
        Value::Float(number) => json!({ "doubleValue": number }),
        Value::Bool(flag) => json!({ "boolValue": flag }),
    };
    json!({ "key": key, "value": value })
}
