//! A new configuration for a process that goes on.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::api::Api;
use crate::assembly::Skillrun;
use crate::cli::assemble;
use crate::cli::exit::Refused;
use crate::config::{Admission, Config, Durability, RuntimeSettings, Serve, Telemetry};

/// What was read at the start. A later reading is compared with it.
#[derive(Clone)]
pub(super) struct Reload {
    home: PathBuf,
    runs: Admission,
    runtime: RuntimeSettings,
    durability: Durability,
    /// Whether and how spans are sent.
    sent: Telemetry,
    /// As the file has it.
    serve: Serve,
    /// The address in use, which the command line or a socket that was handed over may have set.
    listen: SocketAddr,
}

impl Reload {
    pub(super) fn new(config: &Config, listen: SocketAddr) -> Self {
        Self {
            home: config.home.clone(),
            runs: config.runs,
            runtime: config.runtime.clone(),
            durability: config.durability,
            sent: config.telemetry.clone(),
            serve: config.serve.clone(),
            listen,
        }
    }

    /// Reads config.toml anew and holds to it from now on. Nothing changes when this fails.
    ///
    /// # Errors
    /// The configuration, or something that it names, cannot be used.
    pub(super) fn apply(&self, host: &Skillrun, api: &Api) -> anyhow::Result<()> {
        let config = Config::load(&self.home)?;
        let token = config.read_serve_token()?;
        if token.is_none() && !self.listen.ip().is_loopback() {
            let refused = format!(
                "{} is no loopback address, and there would be no token",
                self.listen
            );
            return Err(Refused::usage(refused).into());
        }
        for key in self.kept(&config) {
            tracing::warn!(key, "has changed, and takes effect after a restart");
        }
        let settings = config.serve.clone();
        host.reload(config).map_err(assemble::refused)?;
        api.reconfigure(settings, token);
        Ok(())
    }

    /// The keys that were changed in vain.
    fn kept(&self, config: &Config) -> Vec<&'static str> {
        let (old, new) = (&self.serve, &config.serve);
        let keys = [
            ("runs", self.runs != config.runs),
            ("runtime", self.runtime != config.runtime),
            (
                "serve.connections_max",
                old.connections_max != new.connections_max,
            ),
            (
                "serve.body_bytes_max",
                old.body_bytes_max != new.body_bytes_max,
            ),
            (
                "serve.header_timeout_ms",
                old.header_timeout_ms != new.header_timeout_ms,
            ),
            ("serve.listen", old.listen != new.listen),
            ("serve.streams_max", old.streams_max != new.streams_max),
            (
                "serve.stall_timeout_ms",
                old.stall_timeout_ms != new.stall_timeout_ms,
            ),
            ("ledger", self.durability != config.durability),
            (
                "telemetry",
                self.sent
                    != Telemetry {
                        propagate: self.sent.propagate,
                        ..config.telemetry.clone()
                    },
            ),
        ];
        let kept = keys.into_iter().filter(|(_, differs)| *differs);
        kept.map(|(key, _)| key).collect()
    }
}
