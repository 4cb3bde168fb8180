//! A run that is asked for over HTTP, beside the same through the library.
//!
//! Clients ask at the same rate both times, one that the machine keeps up with: what is compared is how long one
//! of them waits, not how many there can be.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Method;
use skillrun::config::Durability;
use skillrun::runner::{Caller, JsonObject, StartOptions};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};

use crate::client::Client;
use crate::place::Place;
use crate::{median, micros_since, now, quantile};

/// Runs a second, of all clients together.
const RUNS_PER_SECOND: u32 = 200;
/// Runs of all clients together, each way and round.
const RUNS: u32 = 600;
const ROUNDS: usize = 5;
/// What HTTP may add to half of the runs.
const ADDED_MICROS_MAX: f64 = 150.0;
const INPUT: &str = r#"{"verb":"noop"}"#;

pub(crate) fn beside_the_library() -> Result<()> {
    for durability in [Durability::Sync, Durability::Relaxed] {
        println!("\nPOST, run and terminal event, {durability:?}, {RUNS_PER_SECOND} runs a second");
        println!(
            "clients   library p50   HTTP p50   added p50 (aim <= {ADDED_MICROS_MAX} µs)   HTTP p99 / library p99"
        );
        for clients in [16, 64] {
            let folder = tempfile::tempdir()?;
            let place = Place::new(folder.path(), durability)?;
            let (mut ours, mut http) = (Vec::new(), Vec::new());
            let (mut added, mut tails) = (Vec::new(), Vec::new());
            // The first round compiles, and is not counted.
            for round in 0..=ROUNDS {
                let mut through_library = library(&place, clients)?;
                let mut over_http = over_http(&place, clients)?;
                if round == 0 {
                    continue;
                }
                let (a, b) = (
                    quantile(&mut through_library, 0.5),
                    quantile(&mut over_http, 0.5),
                );
                added.push(b - a);
                ours.push(a);
                http.push(b);
                tails.push(quantile(&mut over_http, 0.99) / quantile(&mut through_library, 0.99));
            }
            println!(
                "{clients:>7} {:>10.0} µs {:>7.0} µs {:>9.0} µs {:>42.2} x",
                median(ours),
                median(http),
                median(added),
                median(tails)
            );
        }
    }
    Ok(())
}

fn ticks(clients: u32) -> tokio::time::Interval {
    let mut ticks = interval(Duration::from_secs(1) * clients / RUNS_PER_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits a part of the time between two runs that is different for each client.
async fn offset(client: u32) {
    tokio::time::sleep(Duration::from_secs(1) * client / RUNS_PER_SECOND).await;
}

fn library(place: &Place, clients: u32) -> Result<Vec<f64>> {
    let one = |client: u32| {
        let runner = place.host.runner().clone();
        async move {
            offset(client).await;
            let mut ticks = ticks(clients);
            let mut figures = Vec::new();
            for _ in 0..RUNS / clients {
                ticks.tick().await;
                let start = now();
                let options = StartOptions::new("probe", JsonObject::parse(INPUT)?);
                runner.run(Caller::new(), options).await?;
                figures.push(micros_since(start));
            }
            Ok(figures)
        }
    };
    gather(&place.runtime, (0..clients).map(one))
}

fn over_http(place: &Place, clients: u32) -> Result<Vec<f64>> {
    let address = place.address;
    let one = |client: u32| async move {
        let mut connection = Client::connect(address).await?;
        let body = Bytes::from(format!(r#"{{"skill_name":"probe","input":{INPUT}}}"#));
        offset(client).await;
        let mut ticks = ticks(clients);
        let mut figures = Vec::new();
        for _ in 0..RUNS / clients {
            ticks.tick().await;
            let start = now();
            let path = "/api/agent/runs?wait=true";
            let answer = connection.ask(Method::POST, path, &body).await?;
            figures.push(micros_since(start));
            anyhow::ensure!(answer.windows(4).any(|part| part == b"\"ok\""), "no end");
        }
        Ok(figures)
    };
    gather(&Runtime::new()?, (0..clients).map(one))
}

fn gather<F>(runtime: &Runtime, clients: impl Iterator<Item = F>) -> Result<Vec<f64>>
where
    F: Future<Output = Result<Vec<f64>>> + Send + 'static,
{
    let clients: Vec<_> = clients.map(|client| runtime.spawn(client)).collect();
    let mut all = Vec::new();
    for client in clients {
        all.extend(runtime.block_on(client).context("a client panicked")??);
    }
    Ok(all)
}
