//! What the daemon does between its first answer and its end.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::reload::Reload;
use super::supervisor;
use crate::api::Api;
use crate::assembly::Skillrun;
use crate::cli::daemon::Published;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::trace::ExporterHandle;

/// How often it is looked whether runs still go on that a shutdown waits for.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// The signals that are listened to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
enum Asked {
    /// To end.
    End,
    /// To read the configuration anew.
    Reload,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Waits for another signal to end. A process that is about to end reads no configuration.
    pub(super) async fn end(&mut self) {
        while let Asked::Reload = self.next().await {}
    }
}

/// All that there is to look after.
pub(super) struct Life<'a> {
    pub(super) api: &'a Api,
    pub(super) host: &'a Skillrun,
    /// Sends spans, where they are to be sent.
    pub(super) exporter: Option<ExporterHandle>,
    /// Lets commands find the process.
    pub(super) record: Published,
    /// Closes the sockets.
    pub(super) shutdown: CancellationToken,
    /// Ends when the last answer was given after that.
    pub(super) served: JoinHandle<()>,
    pub(super) signals: Signals,
    pub(super) reload: Reload,
    pub(super) printer: Printer,
}

/// Takes signals until the process is to end: the first begins to drain, the second interrupts what goes on at
/// once, and the third waits for nothing.
pub(super) async fn live(life: Life<'_>) -> Exit {
    let Life {
        api,
        host,
        exporter,
        record,
        shutdown,
        mut served,
        mut signals,
        reload,
        printer,
    } = life;
    loop {
        let asked = tokio::select! {
            asked = signals.next() => asked,
            // Only a fault of ours ends it before it is told to. Whoever started the process has to know.
            _ended = &mut served => {
                tracing::error!("requests are taken no more");
                host.shutdown().await;
                return Exit::Failed;
            }
        };
        if let Asked::End = asked {
            break;
        }
        read_anew(host, api, &reload, printer).await;
    }
    supervisor::stopping();
    api.drain();
    let drain_ms = api.settings().drain_ms;
    let going_on = going_on(host);
    if going_on > 0 {
        printer.note(&format!(
            "ending: runs that go on: {going_on}, for at most {drain_ms} ms; a second signal interrupts them at once"
        ));
    }
    let drain_time = Duration::from_millis(drain_ms);
    tokio::select! {
        () = drained(host, drain_time) => {}
        () = signals.end() => {}
    }
    let interrupted = async {
        host.runtime().shutdown().await;
        host.runner().shutdown().await;
        // Streams have told of the ends of all runs by now, or are about to.
        shutdown.cancel();
        // It may have panicked, which the log has.
        let _served = served.await;
        // Whoever looks for the daemon from here on finds none.
        drop(record);
        host.shutdown().await;
        if let Some(exporter) = exporter {
            exporter.shutdown().await;
        }
    };
    tokio::select! {
        () = interrupted => Exit::Ok,
        () = signals.end() => Exit::Interrupted,
    }
}

/// Takes the configuration over as it is now, or says why it stays as it was.
async fn read_anew(host: &Skillrun, api: &Api, reload: &Reload, printer: Printer) {
    supervisor::reloading();
    let applied = {
        let (host, api, reload) = (host.clone(), api.clone(), reload.clone());
        tokio::task::spawn_blocking(move || reload.apply(&host, &api)).await
    };
    match applied {
        Ok(Ok(())) => printer.note("config.toml was read anew"),
        Ok(Err(error)) => tracing::error!(
            error = crate::telemetry::chain(error.as_ref()),
            "config.toml stays as it was read before"
        ),
        Err(error) => tracing::error!(%error, "config.toml stays as it was read before"),
    }
    supervisor::ready();
}

/// How many runs work. An execution is a run that goes on until somebody stops it: one that waits for a prompt
/// works on nothing, and nobody waits for it.
fn going_on(host: &Skillrun) -> usize {
    let idle = host.runtime().statistics().live.ready;
    host.runner().statistics().going_on.saturating_sub(idle)
}

/// Waits until no run works, but not for longer than runs may go on.
async fn drained(host: &Skillrun, time: Duration) {
    let mut looks = tokio::time::interval(DRAIN_LOOK);
    let gone = async {
        while going_on(host) > 0 {
            looks.tick().await;
        }
    };
    let _late = tokio::time::timeout(time, gone).await;
}
