//! `skillrun serve`: from the lock of the home folder to the end of the last run.
//!
//! A home has one daemon. It takes the lock, looks after the runs that the last process left, and only then
//! answers. What it does when it is told to end is in `lifecycle`.

mod lifecycle;
mod listener;
mod reload;
mod supervisor;

use std::io::ErrorKind;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::lifecycle::{Life, Signals};
pub(crate) use self::listener::Inherited;
use self::reload::Reload;
use anyhow::Context as _;

use axum::Router;

use crate::api::{Api, ApiOptions, MCP_ROUTE};
use crate::assembly::Skillrun;
use crate::cli::args::ServeArgs;
use crate::cli::assemble;
use crate::cli::commands::worker;
use crate::cli::daemon::{DaemonLock, DaemonRecord};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::{Config, Serve, Token};
use crate::ledger::Abandoned;
use crate::runner::{NotRestarted, Recovered};
use crate::runtime::BackendRecovery;
use crate::trace::{Exporter, ExporterHandle, ExporterOptions};

pub(crate) async fn serve(
    args: ServeArgs,
    inherited: Inherited,
    config: Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut settings = config.serve.clone();
    settings.listen = args.listen.unwrap_or(settings.listen);
    // Signals are taken before anything is begun that would have to be ended.
    let mut signals = Signals::new()?;
    let lock = DaemonLock::take(&config.home)?;
    let token = config.read_serve_token()?;
    let listener = bind(inherited, &mut settings, token.as_ref()).await?;
    listener::raise_descriptors(&config);
    let reload = Reload::new(&config, settings.listen);
    let recovery = config.recovery;
    let worker = worker::program(&config).context("cannot find this program")?;
    let has_mcp = args.mcp || config.mcp.serve;
    let host = assemble::builder(config)
        .watch_skills()
        .worker(worker)
        .build();
    let host = host.map_err(assemble::refused)?;
    let exporter = exporter(&host)?;
    // It lists all runs, which brings the index up to date as well.
    let (closed, recovered) = tokio::select! {
        recovered = host.runner().recover(recovery) => recovered?,
        () = signals.end() => {
            host.shutdown().await;
            return Ok(Exit::Ok);
        }
    };
    tell_of_recovery(&closed, &recovered, printer);
    tell_of_executions(&host.runtime().recover().await);
    tell_of_skills(&host, printer);
    let record = DaemonRecord::new(settings.listen);
    tell_where_executions_are(&host, &record);
    let api = Api::new(ApiOptions {
        mcp: mcp(&host, has_mcp)?,
        host: host.clone(),
        local_token: record.token(),
        traces: exporter.as_ref().map(ExporterHandle::counter),
        settings: settings.clone(),
        token,
    });
    let record = lock.publish(&record)?;
    let shutdown = CancellationToken::new();
    supervisor::ready();
    printer.note(&format!("listening on http://{}", settings.listen));
    let served = tokio::spawn({
        let (api, shutdown) = (api.clone(), shutdown.clone());
        async move { api.serve(listener, shutdown).await }
    });
    let life = lifecycle::live(Life {
        api: &api,
        host: &host,
        exporter,
        record,
        shutdown,
        served,
        signals,
        reload,
        printer,
    });
    tokio::select! {
        exit = life => Ok(exit),
        never = supervisor::watchdog() => match never {},
    }
}

/// The MCP server at its route, where it is wanted.
#[cfg(feature = "mcp")]
fn mcp(host: &Skillrun, is_wanted: bool) -> anyhow::Result<Option<Router>> {
    if !is_wanted {
        return Ok(None);
    }
    let mcp = crate::mcp::Mcp::new(host.clone())?;
    let body_bytes_max = host.config().serve.body_bytes_max;
    let service = mcp.http_service(body_bytes_max);
    let handle = move |request: axum::extract::Request| {
        let service = service.clone();
        async move { service.handle(request).await }
    };
    Ok(Some(
        Router::new().route(MCP_ROUTE, axum::routing::any(handle)),
    ))
}

#[cfg(not(feature = "mcp"))]
fn mcp(_host: &Skillrun, is_wanted: bool) -> anyhow::Result<Option<Router>> {
    match is_wanted {
        true => Err(Refused::usage("this program was built without the MCP server").into()),
        false => Ok(None),
    }
}

/// Sends spans from here on, where they are to be sent.
fn exporter(host: &Skillrun) -> anyhow::Result<Option<ExporterHandle>> {
    let exporter = ExporterOptions::from_config(&host.config(), host.store())?;
    let exporter = exporter.map(Exporter::new).transpose()?;
    Ok(exporter.map(Exporter::start))
}

/// Lets whoever launches an execution be told its address.
fn tell_where_executions_are(host: &Skillrun, record: &DaemonRecord) {
    let executions = format!("http://{}/api/agent/executions", record.reached_at());
    host.runtime().set_base_url(&executions);
}

/// Says what became of the runs that the last process left. What cannot be mended without somebody is a warning.
fn tell_of_recovery(closed: &[Abandoned], recovered: &[Recovered], printer: Printer) {
    for run in closed.iter().filter_map(|run| run.closed.as_ref().err()) {
        tracing::warn!(error = crate::telemetry::chain(run), "cannot close a run");
    }
    let mut going_on = 0_usize;
    for Recovered { run_id, outcome } in recovered {
        match outcome {
            Ok(_) => going_on += 1,
            Err(error @ (NotRestarted::Refused(_) | NotRestarted::TooOften { .. })) => {
                tracing::warn!(
                    %run_id,
                    error = crate::telemetry::chain(error),
                    "a run does not go on"
                )
            }
            // The operator wants it so, or the ledger has said why since the run stopped.
            Err(_) => {}
        }
    }
    if going_on > 0 {
        printer.note(&format!(
            "runs of an earlier process that go on or wait: {going_on}"
        ));
    }
}

/// Says which backends could not look after the executions that the last process left.
fn tell_of_executions(recovered: &[BackendRecovery]) {
    for backend in recovered {
        if let Err(error) = &backend.outcome {
            let (name, error) = (&backend.name, crate::telemetry::chain(error));
            tracing::warn!(backend = name, error, "executions were not looked after");
        }
    }
}

/// Says which skills cannot be run, before somebody asks for one. That there are none at all is most often another
/// home than the one that was meant.
fn tell_of_skills(host: &Skillrun, printer: Printer) {
    let registry = host.skills().current();
    for refused in registry.refused() {
        tracing::warn!(
            error = crate::telemetry::chain(refused),
            "a skill cannot be used"
        );
    }
    if registry.skills().next().is_none() {
        let home = &host.config().home;
        printer.note(&format!("no skills that can be run in {}", home.display()));
    }
}

/// The socket to listen on. From then on the settings have its address.
async fn bind(
    inherited: Inherited,
    settings: &mut Serve,
    token: Option<&Token>,
) -> anyhow::Result<TcpListener> {
    let inherited = inherited.listener()?;
    if let Some(listener) = &inherited {
        settings.listen = listener.local_addr()?;
    }
    if token.is_none() && !settings.listen.ip().is_loopback() {
        let refused = format!(
            "{} is no loopback address, and there is no token",
            settings.listen
        );
        let hint = "set serve.token_file or serve.token_env in config.toml";
        return Err(Refused::usage(refused).with_hint(hint).into());
    }
    let listener = match inherited {
        Some(listener) => TcpListener::from_std(listener),
        None => TcpListener::bind(settings.listen).await,
    };
    let listener = listener.map_err(|error| not_bound(error, settings))?;
    settings.listen = listener.local_addr()?;
    Ok(listener)
}

/// An address that somebody else has is for whoever starts the daemon to mend.
fn not_bound(error: std::io::Error, settings: &Serve) -> anyhow::Error {
    let refused = format!("cannot listen on {}", settings.listen);
    match error.kind() {
        ErrorKind::AddrInUse => Refused::conflict(format!("{refused}: another process does"))
            .with_hint(
                "end that one, or name another address with --listen; port 0 is any that is free",
            )
            .into(),
        _ => anyhow::Error::new(error).context(refused),
    }
}
