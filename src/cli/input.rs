//! The input of a run, from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use super::exit::Refused;
use crate::runner::{INPUT_BYTES_MAX, JsonObject};

/// Reads what `--input` names: JSON text, `@` and a file, or `-` for standard input.
pub(crate) fn read(argument: &str) -> anyhow::Result<JsonObject> {
    let (origin, bytes) = if argument == "-" {
        let bytes = bounded(io::stdin().lock()).map_err(|error| {
            Refused::usage(format!(
                "cannot read the input from standard input: {error}"
            ))
        })?;
        ("standard input".to_owned(), bytes)
    } else if let Some(path) = argument.strip_prefix('@') {
        let bytes = File::open(path).and_then(bounded).map_err(|error| {
            Refused::usage(format!("cannot read the input from {path}: {error}"))
        })?;
        (path.to_owned(), bytes)
    } else {
        ("--input".to_owned(), argument.as_bytes().to_owned())
    };
    JsonObject::parse(bytes).map_err(|error| {
        Refused::usage(format!("{error} ({origin})"))
            .with_hint("an input is a JSON object, such as --input '{\"name\":\"Ada\"}'")
            .into()
    })
}

/// Reads what a prompt is: text, `@` and a file, or `-` for standard input. Line breaks at the
/// end of what is read are no part of it.
pub(crate) fn prompt(argument: &str) -> anyhow::Result<String> {
    let (origin, read) = match argument.strip_prefix('@') {
        _ if argument == "-" => ("standard input", bounded(io::stdin().lock())),
        Some(path) => (path, File::open(path).and_then(bounded)),
        None => return Ok(argument.to_owned()),
    };
    let bytes = read.map_err(|error| {
        Refused::usage(format!("cannot read the prompt from {origin}: {error}"))
    })?;
    let mut text = String::from_utf8(bytes)
        .map_err(|_| Refused::usage(format!("the prompt is no UTF-8 ({origin})")))?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

/// Everything that `source` has, up to one byte more than an input may have.
fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX);
    source
        .take(bound.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
