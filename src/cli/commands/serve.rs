//! `skillrun serve`.

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, ApiOptions};
use crate::assembly::Skillrun;
use crate::cli::args::ServeArgs;
use crate::cli::assemble;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::trace::{Exporter, ExporterOptions};

pub(crate) async fn serve(
    args: ServeArgs,
    mut config: Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if let Some(listen) = args.listen {
        config.serve.listen = listen;
    }
    let token = config.read_serve_token()?;
    let settings = config.serve.clone();
    if token.is_none() && !settings.listen.ip().is_loopback() {
        let refused = format!(
            "{} is no loopback address, and there is no token",
            settings.listen
        );
        let hint = "set serve.token_file or serve.token_env in config.toml";
        return Err(Refused::usage(refused).with_hint(hint).into());
    }
    let recovery = config.recovery;
    let host = Skillrun::builder(config).watch_skills().build();
    let host = host.map_err(assemble::refused)?;
    let exporter = ExporterOptions::from_config(&host.config(), host.store())?;
    let exporter = exporter
        .map(Exporter::new)
        .transpose()?
        .map(Exporter::start);
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let (closed, _recovered) = host.runner().recover(recovery).await?;
    for run in closed.iter().filter_map(|run| run.closed.as_ref().err()) {
        tracing::warn!(error = crate::telemetry::chain(run), "cannot close a run");
    }
    let shutdown = CancellationToken::new();
    let api = Api::new(ApiOptions {
        host: host.clone(),
        settings,
        tokens: token.into_iter().collect(),
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    printer.note(&format!("listening on http://{address}"));
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    };
    tokio::join!(api.serve(listener, shutdown.clone()), stop);
    host.shutdown().await;
    if let Some(exporter) = exporter {
        exporter.shutdown().await;
    }
    Ok(Exit::Ok)
}
