//! Values that are too large for a line: stored whole beside the ledger, under their digest.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Mutex;

use super::digest::Digest;
use super::error::StoreError;
use super::event::{Event, Large, LargeMut};
use super::folder::{Folder, unless_gone};
use super::json::{BlobRef, Json, JsonError, Text};
use super::line::string_len;
use super::sync::lock;
use crate::id::RunId;

/// Bytes of JSON text that a payload field may have in a line. Protects readers of lists and pages,
/// which hold whole lines, from values that nobody asked to see.
pub(super) const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Blobs of one run, and their bytes together. Protects the operator's disk from one run.
pub(super) const BLOBS_PER_RUN_MAX: u64 = 10_000;
pub(super) const BLOB_BYTES_PER_RUN_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of one blob that are read into memory; no limit of a run lets a larger value arise.
pub(super) const BLOB_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Characters that one byte of a text has at most as part of a JSON string.
const ESCAPED_CHARS_PER_BYTE_MAX: usize = 6;
/// Files that wait for the next sync. Protects the process's file descriptors.
const UNSYNCED_FILES_MAX: usize = 64;
/// A blob's name while it is being written.
const TEMPORARY_NAME: &str = ".new";

/// The folder of a run's blobs, inside the folder of ledgers.
pub(super) fn folder_name(run_id: &RunId) -> String {
    format!("{run_id}.blobs")
}

/// Whether a field cannot stand in a line as it is.
fn is_oversize(field: &Large<'_>) -> bool {
    match field {
        Large::Json(json) => {
            json.as_str().len() > INLINE_BYTES_MAX || json.looks_like_a_reference()
        }
        Large::Text(Text::Inline(text)) => {
            let quotes = 2;
            text.len() > (INLINE_BYTES_MAX - quotes) / ESCAPED_CHARS_PER_BYTE_MAX
                && string_len(text) > INLINE_BYTES_MAX
        }
        Large::Text(Text::Blob(_)) => false,
    }
}

/// How an event can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// As a line.
    Line,
    /// As a line after [`Blobs::outsource`].
    Blobs,
    /// Not at all: it has a type that this version does not know, or holds a text's reference instead
    /// of the text, whose blob may be another run's.
    Nothing,
}

/// How `event` can be written.
pub(super) fn fit(event: &Event) -> Fit {
    if matches!(event, Event::Unknown { .. }) {
        return Fit::Nothing;
    }
    let mut fit = Fit::Line;
    event.visit_large(&mut |field| {
        if matches!(field, Large::Text(Text::Blob(_))) {
            fit = Fit::Nothing;
        } else if fit == Fit::Line && is_oversize(&field) {
            fit = Fit::Blobs;
        }
    });
    fit
}

/// Whether an event that was read has a value in its place that a ledger has beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inlined {
    /// It has none.
    No,
    /// It has one, or a reference to one: they look alike.
    Perhaps,
    /// It has one.
    Yes,
}

/// Whether `event`, which was read, has a value in its place that a ledger has beside it.
pub(super) fn inlined(event: &Event) -> Inlined {
    let mut found = Inlined::No;
    event.visit_large(&mut |field| {
        let is_large = is_oversize(&field);
        let may_refer = matches!(field, Large::Json(json) if json.looks_like_a_reference());
        found = match (is_large, may_refer) {
            (false, _) => found,
            (true, false) => Inlined::Yes,
            (true, true) if found == Inlined::No => Inlined::Perhaps,
            (true, true) => found,
        };
    });
    found
}

/// `event` with a reference in place of every large value, as [`Blobs::outsource`] would leave it, without
/// anything being stored. In an event that is not whole, what looks like a reference is one.
pub(super) fn referenced(event: &Event, is_whole: bool) -> Event {
    let mut event = event.clone();
    event.visit_large_mut(&mut |field| match field {
        LargeMut::Json(json)
            if is_oversize(&Large::Json(json)) && (is_whole || json.blob().is_none()) =>
        {
            let reference = BlobRef::to_value(json.as_str(), Digest::of(json.as_str().as_bytes()));
            // It has a JSON form; if it had none, the values would be compared whole.
            if let Ok(reference) = Json::from_serialize(&reference) {
                *json = reference;
            }
        }
        LargeMut::Text(text) if is_oversize(&Large::Text(text)) => {
            let digest = Digest::of(text.as_str().as_bytes());
            *text = Text::Blob(BlobRef::to_value(text.as_str(), digest));
        }
        LargeMut::Json(_) | LargeMut::Text(_) => {}
    });
    event
}

/// Stores the blobs of one run.
#[derive(Debug)]
pub(super) struct Blobs {
    folder_name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    folder: Option<Folder>,
    /// Whether the name of `folder` may not be durable yet.
    folder_is_new: bool,
    count: u64,
    bytes: u64,
    /// What this writer stored itself. A file that was there before is written anew, because a power
    /// cut may have left it with other bytes.
    stored: HashSet<Digest>,
    unsynced: Vec<File>,
}

/// Why a value is not stored.
#[derive(Debug)]
pub(super) enum PutError {
    /// The run has no room for so many bytes.
    Limit(usize),
    /// The operating system refused.
    Failed(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Blobs {
    /// For a run that has none yet.
    pub(super) fn new(run_id: &RunId) -> Self {
        Self {
            folder_name: folder_name(run_id),
            state: Mutex::default(),
        }
    }

    /// For a run that may have some from before.
    pub(super) fn resume(runs: &Folder, run_id: &RunId) -> io::Result<Self> {
        let blobs = Self::new(run_id);
        let folder = match runs.open_folder(&blobs.folder_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(blobs),
            opened => opened?,
        };
        let mut state = State::default();
        for name in folder
            .names()?
            .take(usize::try_from(BLOBS_PER_RUN_MAX).unwrap_or(usize::MAX))
        {
            state.count += 1;
            state.bytes = state.bytes.saturating_add(folder.stamp_of(&name?)?.bytes);
        }
        state.folder = Some(folder);
        // The process that made it may not have come to its sync.
        state.folder_is_new = true;
        *lock(&blobs.state) = state;
        Ok(blobs)
    }

    /// `event` with every oversize field stored and replaced by a reference to it. When `durable`,
    /// what was stored waits for [`Blobs::sync`].
    pub(super) fn outsource(
        &self,
        runs: &Folder,
        event: &Event,
        durable: bool,
    ) -> Result<Event, PutError> {
        let mut event = event.clone();
        let mut outcome = Ok(());
        event.visit_large_mut(&mut |field| {
            if outcome.is_ok() {
                outcome = self.replace(runs, field, durable);
            }
        });
        outcome.map(|()| event)
    }

    fn replace(&self, runs: &Folder, field: LargeMut<'_>, durable: bool) -> Result<(), PutError> {
        match field {
            LargeMut::Json(json) if is_oversize(&Large::Json(json)) => {
                let reference = self.put(runs, json.as_str(), durable)?;
                *json = Json::from_serialize(&reference)
                    .map_err(|error| PutError::Failed(io::Error::other(error)))?;
            }
            LargeMut::Text(text) if is_oversize(&Large::Text(text)) => {
                *text = Text::Blob(self.put(runs, text.as_str(), durable)?);
            }
            LargeMut::Json(_) | LargeMut::Text(_) => {}
        }
        Ok(())
    }

    fn put(&self, runs: &Folder, value: &str, durable: bool) -> Result<BlobRef, PutError> {
        let digest = Digest::of(value.as_bytes());
        let reference = BlobRef::to_value(value, digest);
        let mut state = lock(&self.state);
        if state.stored.contains(&digest) {
            return Ok(reference);
        }
        let bytes = state.bytes.saturating_add(reference.bytes);
        if state.count >= BLOBS_PER_RUN_MAX
            || bytes > BLOB_BYTES_PER_RUN_MAX
            || reference.bytes > BLOB_BYTES_MAX
        {
            return Err(PutError::Limit(value.len()));
        }
        if state.folder.is_none() {
            state.folder_is_new |= runs.make_folder(&self.folder_name)?;
            state.folder = Some(runs.open_folder(&self.folder_name)?);
        }
        if let Some(folder) = &state.folder {
            let mut file = folder.create_temporary(TEMPORARY_NAME)?;
            file.write_all(value.as_bytes())?;
            folder.rename(TEMPORARY_NAME, &digest.to_string())?;
            if durable && state.unsynced.len() < UNSYNCED_FILES_MAX {
                state.unsynced.push(file);
            } else if durable {
                file.sync_data()?;
            }
        }
        state.count += 1;
        state.bytes = bytes;
        state.stored.insert(digest);
        Ok(reference)
    }

    /// Makes durable what was stored before this call.
    pub(super) fn sync(&self, runs: &Folder) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.unsynced.is_empty() {
            return Ok(());
        }
        for file in std::mem::take(&mut state.unsynced) {
            file.sync_data()?;
        }
        if let Some(folder) = &state.folder {
            folder.sync()?;
        }
        if std::mem::take(&mut state.folder_is_new) {
            runs.sync()?;
        }
        Ok(())
    }
}

/// Removes every value that was stored for the run. Somebody else may be doing the same.
pub(super) fn remove_all(runs: &Folder, run_id: &RunId) -> io::Result<()> {
    let name = folder_name(run_id);
    unless_gone(runs.open_folder(&name).and_then(|folder| {
        for blob in folder.names()? {
            unless_gone(folder.remove(&blob?))?;
        }
        runs.remove_folder(&name)
    }))
}

/// Opens the file of a stored value; `None` when there is none.
fn open(runs: &Folder, run_id: &RunId, blob: Digest) -> io::Result<Option<File>> {
    match runs.open_read(&format!("{}/{blob}", folder_name(run_id))) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the stored value is the one that `reference` names; `None` when it is not there, or only a
/// part of it is, as a power cut leaves a value that was not promised to be durable yet.
pub(super) fn is_intact(
    runs: &Folder,
    run_id: &RunId,
    reference: &BlobRef,
) -> io::Result<Option<bool>> {
    let Some(file) = open(runs, run_id, reference.blob)? else {
        return Ok(None);
    };
    if file.metadata()?.len() < reference.bytes {
        return Ok(None);
    }
    let found = Digest::of_reader(&mut file.take(reference.bytes.saturating_add(1)))?;
    Ok(Some(found == (reference.blob, reference.bytes)))
}

/// Reads a stored value back whole.
///
/// # Errors
/// [`StoreError::Blob`] when it is not there, or not what the reference says.
pub(super) fn load(
    runs: &Folder,
    run_id: &RunId,
    reference: &BlobRef,
) -> Result<Vec<u8>, StoreError> {
    let blob = reference.blob;
    let wrong = || StoreError::Blob {
        run_id: run_id.clone(),
        blob,
    };
    let failed = |source| runs.failed("read", &format!("{}/{blob}", folder_name(run_id)), source);
    let file = open(runs, run_id, blob)
        .map_err(failed)?
        .ok_or_else(wrong)?;
    if reference.bytes > BLOB_BYTES_MAX {
        return Err(wrong());
    }
    let mut value = Vec::new();
    file.take(reference.bytes.saturating_add(1))
        .read_to_end(&mut value)
        .map_err(failed)?;
    if BlobRef::len(&value) == reference.bytes && Digest::of(&value) == blob {
        Ok(value)
    } else {
        Err(wrong())
    }
}

/// Opens a stored value to be read from its beginning, with the number of its bytes.
///
/// # Errors
/// [`StoreError::Blob`] when it is not there, or has other bytes than those that were stored.
pub(super) fn open_intact(
    runs: &Folder,
    run_id: &RunId,
    blob: Digest,
) -> Result<(File, u64), StoreError> {
    let wrong = || StoreError::Blob {
        run_id: run_id.clone(),
        blob,
    };
    let failed = |source| runs.failed("read", &format!("{}/{blob}", folder_name(run_id)), source);
    let mut file = open(runs, run_id, blob)
        .map_err(failed)?
        .ok_or_else(wrong)?;
    let (found, bytes) =
        Digest::of_reader(&mut (&file).take(BLOB_BYTES_MAX + 1)).map_err(failed)?;
    if found != blob || bytes > BLOB_BYTES_MAX {
        return Err(wrong());
    }
    file.rewind().map_err(failed)?;
    Ok((file, bytes))
}

/// `event`, read from the ledger of `run_id`, with every stored value in its place again.
///
/// # Errors
/// As [`load`], and [`StoreError::BlobContent`].
pub(super) fn restore(
    runs: &Folder,
    run_id: &RunId,
    mut event: Event,
) -> Result<Event, StoreError> {
    let mut outcome = Ok(());
    event.visit_large_mut(&mut |field| {
        if outcome.is_ok() {
            outcome = restore_field(runs, run_id, field);
        }
    });
    outcome.map(|()| event)
}

fn restore_field(runs: &Folder, run_id: &RunId, field: LargeMut<'_>) -> Result<(), StoreError> {
    let wrong = |blob: Digest, source: JsonError| StoreError::BlobContent {
        run_id: run_id.clone(),
        blob,
        source,
    };
    match field {
        LargeMut::Json(json) => {
            if let Some(reference) = json.blob() {
                let value = load(runs, run_id, &reference)?;
                *json = Json::from_slice(&value).map_err(|error| wrong(reference.blob, error))?;
            }
        }
        LargeMut::Text(text) => {
            if let Text::Blob(reference) = text {
                let value = load(runs, run_id, reference)?;
                *text = String::from_utf8(value)
                    .map_err(|error| wrong(reference.blob, error.utf8_error().into()))?
                    .into();
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::payload::{Log, RunStarted, ToolCall};
    use super::*;

    fn log(message: &str) -> Event {
        Log {
            message: message.into(),
            ..Log::default()
        }
        .into()
    }

    #[test]
    fn only_what_is_too_large_or_could_be_mistaken_is_stored() {
        let fits = "x".repeat(INLINE_BYTES_MAX - 2);
        assert_eq!(fit(&log(&fits)), Fit::Line);
        assert_eq!(fit(&log(&format!("{fits}x"))), Fit::Blobs);
        // Escapes count: the same number of characters is six times as long in a line.
        let escaped = "\u{1}".repeat(INLINE_BYTES_MAX / 6 + 1);
        assert_eq!(fit(&log(&escaped)), Fit::Blobs);
        let forged = r#"{"blob":"0","bytes":1,"preview":"","truncated":true}"#;
        let arguments = Json::parse(forged).unwrap();
        let forged_call = ToolCall {
            arguments,
            ..ToolCall::default()
        };
        assert_eq!(fit(&forged_call.into()), Fit::Blobs);
    }

    #[test]
    fn a_stored_value_comes_back_whole_and_is_stored_once() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Folder::open(dir.path()).unwrap();
        let run_id = RunId::generate();
        let blobs = Blobs::new(&run_id);
        let input = Json::string(&"ü".repeat(INLINE_BYTES_MAX));
        let event = Event::from(RunStarted {
            input,
            ..RunStarted::default()
        });
        for event in [event, log(&"ß".repeat(INLINE_BYTES_MAX))] {
            for _ in 0..2 {
                let stored = blobs.outsource(&runs, &event, true).unwrap();
                assert_ne!(stored, event);
                let is_text = matches!(event, Event::Log(_));
                let expected = if is_text { Fit::Nothing } else { Fit::Blobs };
                assert_eq!(fit(&stored), expected);
                assert_eq!(restore(&runs, &run_id, stored).unwrap(), event);
            }
        }
        blobs.sync(&runs).unwrap();
        assert_eq!(lock(&blobs.state).count, 2);
        let resumed = Blobs::resume(&runs, &run_id).unwrap();
        assert_eq!(lock(&resumed.state).count, 2);
        assert_eq!(lock(&resumed.state).bytes, lock(&blobs.state).bytes);
    }

    #[test]
    fn an_altered_or_missing_value_is_never_returned() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Folder::open(dir.path()).unwrap();
        let run_id = RunId::generate();
        let blobs = Blobs::new(&run_id);
        let reference = blobs.put(&runs, "value", false).unwrap();
        let path = dir
            .path()
            .join(folder_name(&run_id))
            .join(reference.blob.to_string());
        assert_eq!(load(&runs, &run_id, &reference).unwrap(), b"value");
        let (altered, cut) = (Some(false), None);
        for (content, verdict) in [
            ("valuf", altered),
            ("value2", altered),
            ("valu", cut),
            ("", cut),
        ] {
            std::fs::write(&path, content).unwrap();
            assert!(matches!(
                load(&runs, &run_id, &reference),
                Err(StoreError::Blob { .. })
            ));
            assert_eq!(is_intact(&runs, &run_id, &reference).unwrap(), verdict);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            load(&runs, &run_id, &reference),
            Err(StoreError::Blob { .. })
        ));
        assert_eq!(is_intact(&runs, &run_id, &reference).unwrap(), None);
    }

    #[test]
    fn a_run_has_a_bounded_number_of_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Folder::open(dir.path()).unwrap();
        let blobs = Blobs::new(&RunId::generate());
        lock(&blobs.state).bytes = BLOB_BYTES_PER_RUN_MAX - 5;
        assert!(blobs.put(&runs, "12345", false).is_ok());
        assert!(matches!(
            blobs.put(&runs, "1", false),
            Err(PutError::Limit(1))
        ));
        assert!(blobs.put(&runs, "12345", false).is_ok());
    }
}
