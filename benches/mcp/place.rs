//! A home with one skill, and an MCP server for it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use axum::Router;
use skillrun::Skillrun;
use skillrun::api::{Api, ApiOptions};
use skillrun::config::{Config, Durability};
use skillrun::mcp::Mcp;
use skillrun::registry::{Registry, Skill};
use skillrun::runner::runtime_builder;
use skillrun_test_artifacts::GREET;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Bytes of the largest request.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Place {
    /// What the host works on. Clients have another one.
    pub(crate) runtime: Runtime,
    pub(crate) host: Skillrun,
    pub(crate) mcp: Mcp,
    pub(crate) address: SocketAddr,
}

impl Place {
    pub(crate) fn new(home: &Path, durability: Durability) -> Result<Self> {
        let runtime = runtime_builder().build()?;
        let mut config = Config::load(home)?;
        config.durability = durability;
        let settings = config.serve.clone();
        let skill = Skill::from_wasm(GREET.wasm.as_ref())?;
        let host = Skillrun::builder(config)
            .skills(Registry::of([skill]))
            .build()?;
        let mcp = Mcp::new(host.clone())?;
        let route = Router::new().route_service("/mcp", mcp.http_service(BODY_BYTES_MAX));
        let api = Api::new(ApiOptions {
            mcp: Some(route),
            host: host.clone(),
            settings,
            token: None,
            local_token: None,
            traces: None,
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move { api.serve(listener, CancellationToken::new()).await });
        Ok(Self {
            runtime,
            host,
            mcp,
            address,
        })
    }
}
