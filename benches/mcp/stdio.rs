//! A client at the other ends of two pipes.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe::{Receiver, Sender, pipe};

use crate::place::Place;
use crate::requests::{Era, beginning, call, greeted};
use crate::{micros_since, now};

pub(crate) struct Stdio {
    era: Era,
    output: Sender,
    input: Lines<BufReader<Receiver>>,
    next_id: usize,
}

impl Stdio {
    /// Has a server begin at the place, and connects with it.
    pub(crate) async fn connect(place: &Place, era: Era) -> Result<Self> {
        let (output, server_input) = pipe()?;
        let (server_output, input) = pipe()?;
        let mcp = place.mcp.clone();
        // The pipes belong to the runtime on which they are read and written.
        let (server_input, server_output) = (
            server_input.into_nonblocking_fd()?,
            server_output.into_nonblocking_fd()?,
        );
        place.runtime.spawn(async move {
            let input = Receiver::from_owned_fd(server_input)?;
            let output = Sender::from_owned_fd(server_output)?;
            mcp.serve_stdio(input, output)
                .await
                .map_err(std::io::Error::other)
        });
        let mut client = Self {
            era,
            output,
            input: BufReader::new(input).lines(),
            next_id: 1,
        };
        if era == Era::Sessions {
            let [initialize, initialized] = beginning();
            client.send(&initialize).await?;
            client.receive().await?;
            client.send(&initialized).await?;
        }
        Ok(client)
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        Ok(self.output.write_all(line.as_bytes()).await?)
    }

    async fn receive(&mut self) -> Result<String> {
        let line = self.input.next_line().await?;
        line.context("the server ended")
    }

    /// Calls so often, so many at once, and gives how long each call took.
    pub(crate) async fn call(&mut self, count: usize, at_once: usize) -> Result<Vec<f64>> {
        let mut started: BTreeMap<usize, Instant> = BTreeMap::new();
        let (mut sent, mut micros) = (0, Vec::new());
        while micros.len() < count {
            while sent < count && started.len() < at_once {
                let id = self.next_id;
                self.next_id += 1;
                started.insert(id, now());
                let message = call(self.era, id);
                self.send(&message).await?;
                sent += 1;
            }
            let line = self.receive().await?;
            let answer: Answer = serde_json::from_str(&line)?;
            // What is no answer is told beside them.
            let Some(start) = answer.id.and_then(|id| started.remove(&id)) else {
                continue;
            };
            micros.push(micros_since(start));
            greeted(line.as_bytes())?;
        }
        Ok(micros)
    }
}

#[derive(serde::Deserialize)]
struct Answer {
    id: Option<usize>,
}
