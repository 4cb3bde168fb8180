//! Copies a ledger into one file, with the values in their places that are stored beside it.

use std::collections::BTreeMap;
use std::io::Write;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::digest::Digest;
use super::error::StoreError;
use super::event::Large;
use super::json::{BlobRef, Text};
use super::line::Record;
use super::reader::{Entry, Follower, Position};
use super::store::Store;
use crate::id::RunId;

/// Why an export is not whole.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A line, or a value that it names, cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger has a line that is no event of the run.
    #[error("the ledger of {run_id} is damaged at {corruption}")]
    Damaged {
        /// The run.
        run_id: RunId,
        /// What and where.
        corruption: super::Corruption,
    },
    /// The copy cannot be written.
    #[error("cannot write the export")]
    Write(#[source] std::io::Error),
}

/// See [`Store::export`].
pub(super) fn export(
    store: &Store,
    run_id: &RunId,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let mut follower: Follower = store.follow(run_id, Position::default())?;
    let mut lines = 0;
    while let Some(entry) = follower.next_entry()? {
        let record = match entry {
            Entry::Record(record) => record,
            Entry::Damaged(corruption) => {
                return Err(ExportError::Damaged {
                    run_id: run_id.clone(),
                    corruption,
                });
            }
        };
        let whole = whole_line(store, run_id, &record)?;
        let line = whole.as_deref().unwrap_or(&record.line);
        out.write_all(line.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .map_err(ExportError::Write)?;
        lines += 1;
    }
    out.flush().map_err(ExportError::Write)?;
    Ok(lines)
}

/// A JSON object, field by field, in its order and spelling.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyObject;

        impl<'de> Visitor<'de> for AnyObject {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(AnyObject).map(Self)
    }
}

impl Fields<'_> {
    /// The object's text, with other text for some of its values.
    fn text(
        &self,
        replace: impl Fn(&str, &RawValue) -> Result<Option<String>, StoreError>,
    ) -> Result<String, StoreError> {
        let mut text = String::from("{");
        for (name, value) in &self.0 {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&json_string(name));
            text.push(':');
            match replace(name, value)? {
                Some(other) => text.push_str(&other),
                None => text.push_str(value.get()),
            }
        }
        text.push('}');
        Ok(text)
    }
}

/// The line with every stored value in its place; `None` when it names none. Fields that this version
/// does not know stay as they are.
fn whole_line(
    store: &Store,
    run_id: &RunId,
    record: &Record,
) -> Result<Option<String>, StoreError> {
    // Which of the references stand for text and which for JSON only the event's type tells.
    let mut texts: BTreeMap<Digest, bool> = BTreeMap::new();
    record.event().visit_large(&mut |field| {
        if let Some(reference) = field.blob() {
            let is_text = matches!(field, Large::Text(Text::Blob(_)));
            texts.insert(reference.blob, is_text);
        }
    });
    if texts.is_empty() {
        return Ok(None);
    }
    let (Ok(line), Ok(payload)) = (
        serde_json::from_str::<Fields<'_>>(&record.line),
        serde_json::from_str::<Fields<'_>>(record.payload.as_str()),
    ) else {
        return Ok(None);
    };
    let inline = |_: &str, value: &RawValue| {
        let Ok(reference) = serde_json::from_str::<BlobRef>(value.get()) else {
            return Ok(None);
        };
        let Some(is_text) = texts.get(&reference.blob) else {
            return Ok(None);
        };
        let bytes = store.blob(run_id, &reference)?;
        let content = String::from_utf8_lossy(&bytes);
        Ok(Some(if *is_text {
            json_string(&content)
        } else {
            content.into_owned()
        }))
    };
    let payload = payload.text(inline)?;
    line.text(|name, _| Ok((name == "payload").then(|| payload.clone())))
        .map(Some)
}

fn json_string(text: &str) -> String {
    super::json::Json::string(text).as_str().to_owned()
}
