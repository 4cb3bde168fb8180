//! A process that uses ledgers and says what it was promised, so that it can be stopped at any moment
//! and held against its word. `cargo xtask faults` drives it.
//!
//! - `write FOLDER WRITERS` writes runs without end, on so many tasks at once.
//! - `once FOLDER` writes one run of each kind and ends.
//! - `fill FOLDER` writes until the disk is full, waits for a line on standard input, and goes on.
//! - `recover FOLDER` closes what was cut off.
//! - `check FOLDER cut|killed` reads promises from standard input and checks the folder against them.
//!
//! Every promise is one line on standard output: run id, number, digest, and `durable` or `written`.
//! Exit code 1 says that a promise was broken, 3 that the ledger became unavailable.

mod check;
mod work;

use std::error::Error;
use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::path::Path;
use std::process::ExitCode;

use skillrun::ledger::{RecordError, Store, StoreError};

use self::check::{Fault, Promise, Strength};
use self::work::Worker;

/// What every part ends with.
type Ended = Result<ExitCode, Box<dyn Error>>;

const USAGE: &str =
    "usage: ledger_faults write|once|fill|recover|check FOLDER [WRITERS|cut|killed]";
/// The ledger became unavailable, as it should when the disk fails.
const UNAVAILABLE: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Without a driver for I/O, which would wake its threads by the very system call that is to fail.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            let _unread = writeln!(io::stderr(), "{error}");
            let is_unavailable = error
                .downcast_ref::<RecordError>()
                .is_some_and(|error| matches!(error, RecordError::Poisoned(_)))
                || error.downcast_ref::<StoreError>().is_some_and(|error| {
                    matches!(
                        error,
                        StoreError::Unavailable(_)
                            | StoreError::Record { .. }
                            | StoreError::Io { .. }
                    )
                });
            ExitCode::from(if is_unavailable { UNAVAILABLE } else { 1 })
        }
    }
}

async fn run(arguments: &[&str]) -> Ended {
    match arguments {
        ["write", folder, writers] => write(folder, writers.parse()?).await,
        ["once", folder] => {
            let worker = Worker::new(Path::new(folder))?;
            for kind in 0..work::KINDS {
                worker.write_run(kind, &promise).await?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ["fill", folder] => fill(folder).await,
        ["recover", folder] => {
            let worker = Worker::new(Path::new(folder))?;
            recover(&worker.0).await
        }
        ["check", folder, fault] => {
            let fault = fault.parse::<Fault>()?;
            let promises = io::stdin().lines().map(|line| line?.parse::<Promise>());
            let promises = promises.collect::<Result<Vec<_>, _>>()?;
            let outcome = check::check(Path::new(folder), &promises, fault).await;
            for violation in &outcome.violations {
                writeln!(io::stdout(), "{violation}")?;
            }
            writeln!(io::stdout(), "{outcome}")?;
            Ok(ExitCode::from(u8::from(!outcome.violations.is_empty())))
        }
        _ => Err(USAGE.into()),
    }
}

/// Tells a promise. Nobody listening is the end: what is promised to nobody cannot be checked.
///
/// By another system call than ledgers are written with, so that a fault at one of those is never met
/// here.
fn promise(promise: &Promise) -> io::Result<()> {
    let line = format!("{promise}\n");
    let told = rustix::io::writev(io::stdout(), &[IoSlice::new(line.as_bytes())])?;
    if told == line.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

async fn write(folder: &str, writers: usize) -> Ended {
    let worker = Worker::new(Path::new(folder))?;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let worker = worker.clone();
        tasks.spawn(async move {
            for kind in writer.. {
                worker
                    .write_run(kind, &promise)
                    .await
                    .map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(ExitCode::SUCCESS)
}

async fn fill(folder: &str) -> Ended {
    let worker = Worker::new(Path::new(folder))?;
    let full = loop {
        if let Err(error) = worker.write_run(0, &promise).await {
            break error;
        }
    };
    if worker.0.healthy().is_ok() {
        return Err(full);
    }
    let refused = worker.write_run(0, &promise).await;
    if refused.is_ok() {
        return Err("a run was started while the ledger was unavailable".into());
    }
    writeln!(io::stderr(), "full")?;
    io::stdin().lock().read_line(&mut String::new())?;
    worker.0.probe()?;
    worker.write_run(0, &promise).await?;
    Ok(ExitCode::SUCCESS)
}

async fn recover(store: &Store) -> Ended {
    for run in store.close_abandoned().await? {
        match run.closed {
            Ok(head) => promise(&Promise {
                run_id: run.run_id,
                head,
                strength: Strength::Durable,
            })?,
            // Its first line never was whole, so nobody was promised anything.
            Err(StoreError::NeverStarted { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}
