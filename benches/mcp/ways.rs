//! All ways to the same run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use skillrun::config::Durability;
use skillrun::runner::{Caller, JsonObject, StartOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::http::Http;
use crate::place::Place;
use crate::requests::{Era, TOOL};
use crate::stdio::Stdio;
use crate::{micros_since, now};

const LIBRARY: &str = "library";
const STDIO: &str = "stdio, sessions";
const STDIO_STATELESS: &str = "stdio, stateless";
const HTTP: &str = "HTTP, sessions";
const HTTP_STATELESS: &str = "HTTP, stateless";

/// The ways, the library first.
pub(crate) const NAMES: [&str; 5] = [LIBRARY, STDIO, STDIO_STATELESS, HTTP, HTTP_STATELESS];
const INPUT: &str = r#"{"name":"Ada"}"#;

/// A client of each kind, at one place.
pub(crate) struct Ways {
    // The clients' runtime, which ends first.
    clients: Runtime,
    place: Place,
    at_once: usize,
    stdio: Stdio,
    stdio_stateless: Stdio,
    http: Http,
    http_stateless: Http,
}

impl Ways {
    pub(crate) fn new(home: &Path, durability: Durability, at_once: usize) -> Result<Self> {
        let clients = Runtime::new()?;
        let place = Place::new(home, durability)?;
        let stdio = |era| clients.block_on(Stdio::connect(&place, era));
        let http = |era| clients.block_on(Http::connect(place.address, era, at_once));
        Ok(Self {
            at_once,
            stdio: stdio(Era::Sessions)?,
            stdio_stateless: stdio(Era::Stateless)?,
            http: http(Era::Sessions)?,
            http_stateless: http(Era::Stateless)?,
            clients,
            place,
        })
    }

    /// Calls so often by one way, and gives how long each call took.
    pub(crate) fn call(&mut self, name: &str, count: usize) -> Result<Vec<f64>> {
        let at_once = self.at_once;
        match name {
            LIBRARY => library(&self.place, count, at_once),
            STDIO => self.clients.block_on(self.stdio.call(count, at_once)),
            STDIO_STATELESS => self
                .clients
                .block_on(self.stdio_stateless.call(count, at_once)),
            HTTP => self.clients.block_on(self.http.call(count)),
            HTTP_STATELESS => self.clients.block_on(self.http_stateless.call(count)),
            other => bail!("no such way: {other}"),
        }
    }
}

fn library(place: &Place, count: usize, at_once: usize) -> Result<Vec<f64>> {
    place.runtime.block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..at_once {
            let runner = place.host.runner().clone();
            callers.spawn(async move {
                let mut micros = Vec::new();
                for _ in 0..count / at_once {
                    let options = StartOptions::new(TOOL, JsonObject::parse(INPUT)?);
                    let start = now();
                    runner.run(Caller::new(), options).await?;
                    micros.push(micros_since(start));
                }
                anyhow::Ok(micros)
            });
        }
        let mut all = Vec::new();
        while let Some(caller) = callers.join_next().await {
            all.extend(caller.context("a caller panicked")??);
        }
        Ok(all)
    })
}
