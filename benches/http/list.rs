//! One page of many runs.

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use hyper::Method;
use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Origin, RunCompleted, RunQuery, RunStarted, RunStatus, Store, StoreOptions,
};
use skillrun::outcome::OutcomeCode;
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::place::Place;
use crate::{median, micros_since, now};

const RUNS: usize = 100_000;
const LISTED: usize = 50;
const TIMES: usize = 50;
const AIM_MS: f64 = 50.0;

pub(crate) fn one_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    seed(folder.path())?;
    let place = Place::new(folder.path(), Durability::Relaxed)?;
    place.host.store().update_index()?;
    let clients = Runtime::new()?;
    let mut client = clients.block_on(Client::connect(place.address))?;
    let (mut raw, mut pages, mut next) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let start = now();
        let listing = place.host.store().list(&RunQuery::newest(LISTED))?;
        raw.push(micros_since(start));
        anyhow::ensure!(listing.runs.len() == LISTED, "{} runs", listing.runs.len());
        let mut page = |path: &str| -> Result<(f64, String)> {
            let start = now();
            let body = clients.block_on(client.ask(Method::GET, path, &Bytes::new()))?;
            let took = micros_since(start);
            let body: serde_json::Value = serde_json::from_slice(&body)?;
            let cursor = body.get("next_cursor").and_then(|cursor| cursor.as_str());
            Ok((took, cursor.unwrap_or_default().to_owned()))
        };
        let path = format!("/api/agent/runs?limit={LISTED}");
        let (took, cursor) = page(&path)?;
        pages.push(took);
        next.push(page(&format!("{path}&skill=bench&cursor={cursor}"))?.0);
    }
    println!("\na page of {LISTED} among {RUNS} runs (aim <= {AIM_MS} ms)");
    let (raw, page) = (median(raw), median(pages));
    println!("through the library {:>8.2} ms", raw / 1e3);
    println!(
        "over HTTP           {:>8.2} ms, {:.2} x",
        page / 1e3,
        page / raw
    );
    println!("the next, of one skill {:>5.2} ms", median(next) / 1e3);
    Ok(())
}

fn seed(home: &Path) -> Result<()> {
    let store = Store::open(StoreOptions {
        runs_dir: home.join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    })?;
    let runtime = Runtime::new()?;
    for _ in 0..RUNS {
        let started = RunStarted {
            skill: "bench".to_owned(),
            ..RunStarted::default()
        };
        let (recorder, _) = runtime.block_on(store.create(RunId::generate(), started))?;
        let end = RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok);
        recorder.record(Origin::Host, &end.into())?;
    }
    Ok(())
}
