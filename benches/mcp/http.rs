//! A client over HTTP, which keeps its connections.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::requests::{Era, TOOL, beginning, call, greeted};
use crate::{micros_since, now};

pub(crate) struct Http {
    era: Era,
    connections: Vec<Connection>,
}

struct Connection {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

impl Http {
    /// Begins a session, if there are any, and opens so many connections.
    pub(crate) async fn connect(address: SocketAddr, era: Era, at_once: usize) -> Result<Self> {
        let mut connections = Vec::new();
        let mut session = None;
        for _ in 0..at_once {
            let mut connection = Connection::open(address).await?;
            if era == Era::Sessions && session.is_none() {
                let [initialize, initialized] = beginning();
                connection.send(era, &initialize).await?;
                session = connection.session.clone();
                connection.send(era, &initialized).await?;
            }
            connection.session.clone_from(&session);
            connections.push(connection);
        }
        Ok(Self { era, connections })
    }

    /// Calls so often, on all connections at once, and gives how long each call took.
    pub(crate) async fn call(&mut self, count: usize) -> Result<Vec<f64>> {
        let (era, each) = (self.era, count / self.connections.len());
        let mut clients = JoinSet::new();
        for (place, mut connection) in self.connections.drain(..).enumerate() {
            clients.spawn(async move {
                let mut micros = Vec::new();
                for number in 0..each {
                    let message = call(era, place * count + number + 1);
                    let start = now();
                    let answer = connection.send(era, &message).await?;
                    micros.push(micros_since(start));
                    greeted(&answer)?;
                }
                anyhow::Ok((connection, micros))
            });
        }
        let mut all = Vec::new();
        while let Some(client) = clients.join_next().await {
            let (connection, micros) = client.context("a client panicked")??;
            self.connections.push(connection);
            all.extend(micros);
        }
        Ok(all)
    }
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self {
            address,
            sender,
            session: None,
        })
    }

    /// The whole answer, which has to be one of success.
    async fn send(&mut self, era: Era, message: &Value) -> Result<Bytes> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", era.version());
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if era == Era::Stateless {
            request = request
                .header("mcp-method", "tools/call")
                .header("mcp-name", TOOL);
        }
        let request = request.body(Full::new(Bytes::from(message.to_string())))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        anyhow::ensure!(
            head.status.is_success(),
            "{}: {}",
            head.status,
            String::from_utf8_lossy(&body)
        );
        if let Some(session) = head.headers.get("mcp-session-id") {
            self.session = Some(session.to_str()?.to_owned());
        }
        Ok(body)
    }
}
