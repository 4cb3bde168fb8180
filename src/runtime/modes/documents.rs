//! Tools for documents, which an execution has in a folder of its own.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::execution;
use super::documents_folder::{DOCUMENT_BYTES_MAX, DocumentName, Documents};
use super::tool::{Answered, Facts, ModeTool, Nothing, Refusal, RefusalCode, answer, object, text};
use crate::call::Effect;
use crate::runner::HostToolCall;

/// Characters of the name of a document.
const NAME_CHARS_MAX: usize = 64;
/// Hexadecimal digits of a digest.
const SHA256_CHARS: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    name: String,
    text: String,
    expect_sha256: Option<String>,
}

/// Works on the documents of the execution on a thread where nobody waits for others.
async fn done(
    documents_dir: PathBuf,
    call: HostToolCall,
    work: impl FnOnce(&Documents) -> Result<Value, Refusal> + Send + 'static,
) -> Answered {
    let execution = execution(&call)?;
    let documents = Documents::of(&documents_dir, execution.run_id());
    let done = tokio::task::spawn_blocking(move || work(&documents)).await;
    let ending = |_| {
        Err(Refusal::new(
            RefusalCode::Failed,
            "the process comes to its end",
        ))
    };
    answer(&done.unwrap_or_else(ending)?)
}

pub(super) fn list_documents(documents_dir: &Path) -> ModeTool {
    let facts = Facts {
        name: "skillrun__list_documents",
        description: "Lists the documents of this session, with the size and the SHA-256 of each.",
        input: object(&[], json!({})),
        effect: Effect::Read,
        keeps_record: false,
    };
    let dir = documents_dir.to_owned();
    ModeTool::new(facts, move |_: Nothing, call| {
        done(dir.clone(), call, |documents| {
            Ok(json!({ "documents": documents.list()? }))
        })
    })
}

pub(super) fn read_document(documents_dir: &Path) -> ModeTool {
    let facts = Facts {
        name: "skillrun__read_document",
        description: "Gives the text of a document of this session.",
        input: object(
            &["name"],
            json!({ "name": text("Its name.", NAME_CHARS_MAX) }),
        ),
        effect: Effect::Read,
        keeps_record: false,
    };
    let dir = documents_dir.to_owned();
    ModeTool::new(facts, move |asked: Named, call| {
        done(dir.clone(), call, move |documents| {
            let (facts, text) = documents.read(&DocumentName::parse(&asked.name)?)?;
            Ok(json!({ "name": facts.name, "sha256": facts.sha256, "text": text }))
        })
    })
}

pub(super) fn write_document(documents_dir: &Path) -> ModeTool {
    let facts = Facts {
        name: "skillrun__write_document",
        description: "Writes a document of this session, whole, and gives its SHA-256.",
        input: object(
            &["name", "text"],
            json!({
                "name": text("Its name: a-z, 0-9, '.', '_' and '-', with a letter or a digit first.", NAME_CHARS_MAX),
                "text": { "type": "string", "description": "All of it.", "maxLength": DOCUMENT_BYTES_MAX },
                "expect_sha256": {
                    "type": "string",
                    "description": "Write only if the document has this SHA-256 now; empty: if there is none.",
                    "maxLength": SHA256_CHARS,
                },
            }),
        ),
        effect: Effect::Idempotent,
        keeps_record: false,
    };
    let dir = documents_dir.to_owned();
    ModeTool::new(facts, move |asked: Write, call| {
        done(dir.clone(), call, move |documents| {
            let name = DocumentName::parse(&asked.name)?;
            let expected = asked.expect_sha256.as_deref();
            Ok(json!(documents.write(&name, &asked.text, expected)?))
        })
    })
}
