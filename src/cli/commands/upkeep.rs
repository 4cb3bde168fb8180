//! The parts of `skillrun runs` that keep the folder of ledgers in order.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;

use crate::cli::args::PruneArgs;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::id::RunId;
use crate::ledger::{Retention, Store};
use crate::telemetry::chain;

/// An export holds what the ledger holds, which only its owner may read.
const EXPORT_MODE: u32 = 0o600;

/// Hands every whole line to the printer.
struct Lines {
    printer: Printer,
    line: Vec<u8>,
    failed: Option<anyhow::Error>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            let printed = self.printer.line(&String::from_utf8_lossy(&self.line));
            self.line.clear();
            if let Err(error) = printed {
                self.failed = Some(error);
                return Err(io::ErrorKind::Other.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies a run into one file, or to standard output.
pub(crate) fn export(
    run_id: &RunId,
    output: Option<&Path>,
    store: &Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    // Looked for first, so that no file is left for a run that does not exist.
    store.summary(run_id)?;
    let Some(path) = output else {
        let mut lines = Lines {
            printer,
            line: Vec::new(),
            failed: None,
        };
        let exported = store.export(run_id, &mut lines);
        if let Some(error) = lines.failed {
            return Err(error);
        }
        exported?;
        return Ok(Exit::Ok);
    };
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(EXPORT_MODE)
        .open(path)
        .with_context(|| format!("cannot make {}", path.display()))?;
    let exported = store.export(run_id, &mut BufWriter::new(&file));
    let events = exported.map_err(anyhow::Error::from).and_then(|events| {
        file.sync_all()
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(events)
    });
    // A part of a run is not an export of it, and would be in the way of the next attempt.
    let events = events.inspect_err(|_| drop(std::fs::remove_file(path)))?;
    if printer.json() {
        printer.value(&serde_json::json!({ "run_id": run_id, "events": events, "file": path }))?;
    } else {
        printer.note(&format!("{run_id}: {events} events in {}", path.display()));
    }
    Ok(Exit::Ok)
}

/// Closes what was cut off.
pub(crate) async fn recover(store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let runs = store.close_abandoned().await?;
    let mut exit = Exit::Ok;
    let mut rows = Vec::new();
    for run in &runs {
        let error = run.closed.as_ref().err().map(|error| chain(error));
        if error.is_some() {
            exit = Exit::Failed;
        }
        if !printer.json() {
            match &error {
                None => printer.line(&format!("{}: interrupted", run.run_id))?,
                Some(error) => printer.note(&format!("error: {error}")),
            }
        }
        rows.push(serde_json::json!({
            "run_id": run.run_id,
            "status": error.is_none().then_some("interrupted"),
            "error": error,
        }));
    }
    if printer.json() {
        printer.value(&serde_json::json!({ "runs": rows }))?;
    }
    Ok(exit)
}

/// Removes what need not be kept.
pub(crate) fn prune(args: &PruneArgs, store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let retention = Retention {
        max_age: args.older_than,
        max_runs: args.keep,
        max_bytes: args.max_bytes,
    };
    let report = store.prune(retention, args.dry_run)?;
    if printer.json() {
        printer.value(&serde_json::json!({
            "removed": report.removed,
            "removed_bytes": report.removed_bytes,
            "kept": report.kept,
            "kept_bytes": report.kept_bytes,
            "dry_run": args.dry_run,
        }))?;
        return Ok(Exit::Ok);
    }
    for run_id in &report.removed {
        printer.line(run_id.as_str())?;
    }
    let done = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    printer.note(&format!(
        "{done} {} runs of {} bytes, {} runs of {} bytes are left",
        report.removed.len(),
        report.removed_bytes,
        report.kept,
        report.kept_bytes
    ));
    Ok(Exit::Ok)
}
