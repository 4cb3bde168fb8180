//! A daemon of one's own with skillrun's HTTP surface in it. `Api::router` gives the surface as a router instead,
//! for a server that has other routes too.
//!
//! `cargo run --example http_daemon -- <home folder> [address:port]`, until it is interrupted.
#![expect(
    clippy::print_stdout,
    reason = "whoever starts it has to know where it listens"
)]

use std::env;
use std::error::Error;
use std::path::Path;

use skillrun::Skillrun;
use skillrun::api::{Api, ApiOptions};
use skillrun::config::Config;
use skillrun::runner::runtime_builder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> Result<(), Box<dyn Error>> {
    // Guests compute on its threads, so it is one that looks at timers and sockets often.
    runtime_builder().build()?.block_on(daemon())
}

async fn daemon() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (home, address) = match arguments.as_slice() {
        [home] => (home, "127.0.0.1:0"),
        [home, address] => (home, address.as_str()),
        _ => return Err("expected: <home folder> [address:port]".into()),
    };
    let config = Config::load(Path::new(home))?;
    let (settings, recovery) = (config.serve.clone(), config.recovery);
    let host = Skillrun::builder(config).watch_skills().build()?;

    // Before anybody is listened to: runs whose process is gone go on, or are closed.
    let (closed, recovered) = host.runner().recover(recovery).await?;
    println!("{} runs closed, {} go on", closed.len(), recovered.len());

    let api = Api::new(ApiOptions {
        mcp: None,
        host: host.clone(),
        settings,
        token: None,
        local_token: None,
        traces: None,
    });
    // Heard from now on: whoever reads the address may interrupt at once, and that has to end it in order.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let shutdown = CancellationToken::new();
    let stop = async {
        interrupts.recv().await;
        shutdown.cancel();
    };
    tokio::join!(api.serve(listener, shutdown.clone()), stop);
    host.shutdown().await;
    Ok(())
}
