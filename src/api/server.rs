//! Connections: taken, bounded, and let go.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Api;
use super::stalled::Watched;

/// Bytes of a request's head after which no more of it is read; one read may bring as many again. Protects the
/// memory, of which each connection takes as much.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Fields of a request's head.
const HEAD_FIELDS_MAX: usize = 100;
/// How long nothing is accepted after the system had no descriptor left. Protects from spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long answers that are under way may take after the surface is closed.
const CLOSE_TIME: Duration = Duration::from_millis(500);

impl Api {
    /// Answers whoever connects, until `shutdown` fires. Then nobody is accepted any more, streams end, and
    /// what is being answered is given a moment, after which its connection is ended.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) {
        let connections_max = self.settings().connections_max;
        let places = Arc::new(Semaphore::new(connections_max));
        let graceful = GracefulShutdown::new();
        // Whoever is served by the end of this, or when this is dropped, is let go.
        let cut = CancellationToken::new();
        let _cut_at_the_end = cut.clone().drop_guard();
        let router = self.router();
        loop {
            // The place first: whoever finds none waits in the system's queue, and costs nothing here.
            let place = tokio::select! {
                () = shutdown.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    let service = TowerToHyperService::new(router.clone());
                    let connection = graceful.watch(self.connection(stream, service));
                    let cut = cut.clone();
                    tokio::spawn(async move {
                        // A client that goes away, or speaks no HTTP, is no fault of the host.
                        if let Some(Err(error)) = cut.run_until_cancelled(connection).await {
                            tracing::debug!(
                                error = crate::telemetry::chain(&error),
                                "connection ended"
                            );
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        self.closing().cancel();
        self.0.streams.stats().log();
        let _late = tokio::time::timeout(CLOSE_TIME, graceful.shutdown()).await;
    }

    fn connection(
        &self,
        stream: TcpStream,
        service: TowerToHyperService<axum::Router>,
    ) -> http1::Connection<TokioIo<Watched<TcpStream>>, TowerToHyperService<axum::Router>> {
        let stall_timeout = Duration::from_millis(self.settings().stall_timeout_ms);
        let stream = Watched::tcp(stream, stall_timeout);
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.settings().header_timeout_ms))
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_FIELDS_MAX)
            .serve_connection(TokioIo::new(stream), service)
    }
}
