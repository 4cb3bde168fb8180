//! `[serve]`: the HTTP surface.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::file::{Number, Place};
use super::secret::read_value;
use super::{Config, ConfigError, ConfigProblem};

/// Bytes that a token has at least. A shorter one could be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

/// Connections at most: each takes a descriptor, of which a process has some thousands.
const CONNECTIONS_MAX: u64 = 100_000;
/// As many as there can be connections.
const STREAMS_MAX: u64 = CONNECTIONS_MAX;
/// An input of the largest size, every byte of it escaped.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A petabyte: no disk has more to spare.
const DISK_FREE_BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Ten minutes: nobody waits longer for one answer.
const TIME_MS_MAX: u64 = 600_000;

/// `[serve]`: who is listened to, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    /// The address and port to listen on. Any address but a loopback one needs a token.
    pub listen: SocketAddr,
    /// Where the token is that every request has to bring; none when nobody has to.
    pub token: Option<TokenSource>,
    /// Names that a request may have in `Host`, beside those of the address itself and `localhost`.
    pub hosts: Vec<String>,
    /// Origins, such as `https://board.example.com`, that a browser may send requests from, beside the
    /// surface's own.
    pub origins: Vec<String>,
    /// Connections at once, 16 to 100,000. Further ones wait in the system's queue.
    pub connections_max: usize,
    /// Bytes of a request's body, 1,024 to 67,108,864.
    pub body_bytes_max: usize,
    /// Milliseconds in which the head of a request has to come, 100 to 600,000.
    pub header_timeout_ms: u64,
    /// Milliseconds in which a request has to be answered, its body included, 100 to 600,000. Streams and
    /// requests that wait for a run are not held to it.
    pub request_timeout_ms: u64,
    /// Milliseconds for which runs may go on after a shutdown was asked for, before they are interrupted, 0 to
    /// 600,000.
    pub drain_ms: u64,
    /// Bytes that have to be free where the ledgers are, 0 to 1,000,000,000,000,000. With fewer the surface says
    /// that it is not ready.
    pub disk_free_bytes_min: u64,
    /// Whether `/metrics` can be read without the token.
    pub metrics_open: bool,
    /// Streams of events at once, 1 to 100,000. Each takes a connection.
    pub streams_max: usize,
    /// Milliseconds after which a stream that has nothing to say says that it is there, 100 to 600,000.
    pub heartbeat_ms: u64,
    /// Milliseconds for which a client may take nothing of what is sent to it before its connection is ended,
    /// 100 to 600,000.
    pub stall_timeout_ms: u64,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8420)),
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            connections_max: 2_048,
            body_bytes_max: 16 * 1024 * 1024,
            header_timeout_ms: 10_000,
            request_timeout_ms: 30_000,
            drain_ms: 1_000,
            disk_free_bytes_min: 64 * 1024 * 1024,
            metrics_open: false,
            streams_max: 1_024,
            heartbeat_ms: 15_000,
            stall_timeout_ms: 60_000,
        }
    }
}

/// Where a token is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// In a file, on its one line. A relative one lies in the home folder.
    File(PathBuf),
    /// In a variable of the host's environment.
    Env(String),
}

impl fmt::Display for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "file {}", file.display()),
            Self::Env(variable) => write!(f, "variable {variable}"),
        }
    }
}

/// What a request has to bring along. Its `Debug` does not show it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token of at least [`TOKEN_BYTES_MIN`] bytes, printable ASCII without spaces; none otherwise.
    pub fn new(value: impl Into<String>) -> Option<Self> {
        let value = value.into();
        let is_token =
            value.len() >= TOKEN_BYTES_MIN && value.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(Self(value))
    }

    /// The token itself.
    pub fn value(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Config {
    /// The token of `[serve]`, if there is to be one.
    ///
    /// # Errors
    /// It is not there, or is none.
    pub fn read_serve_token(&self) -> Result<Option<Token>, ConfigError> {
        let Some(source) = &self.serve.token else {
            return Ok(None);
        };
        let (file, variable) = match source {
            TokenSource::File(file) => (Some(file), None),
            TokenSource::Env(variable) => (None, Some(variable)),
        };
        let value = read_value(&self.home, file, variable);
        let value = value.map_err(|problem| ConfigError::Token { problem })?;
        let token = Token::new(value);
        Ok(Some(token.ok_or(ConfigError::TokenMalformed)?))
    }
}

/// The section as it stands in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServeSection {
    listen: Option<toml::Spanned<String>>,
    token_file: Option<toml::Spanned<PathBuf>>,
    token_env: Option<String>,
    hosts: Vec<toml::Spanned<String>>,
    origins: Vec<toml::Spanned<String>>,
    connections_max: Number,
    body_bytes_max: Number,
    header_timeout_ms: Number,
    request_timeout_ms: Number,
    drain_ms: Number,
    disk_free_bytes_min: Number,
    metrics_open: bool,
    streams_max: Number,
    heartbeat_ms: Number,
    stall_timeout_ms: Number,
}

/// The settings that a section is.
pub(super) fn settings(place: &Place<'_>, section: ServeSection) -> Result<Serve, ConfigProblem> {
    let default = Serve::default();
    let number = |key, value, default: usize, range| {
        let default = u64::try_from(default).unwrap_or(u64::MAX);
        let number = place.number(key, value, default, range)?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    };
    let time = |key, value, default, min| place.number(key, value, default, min..=TIME_MS_MAX);
    Ok(Serve {
        listen: listen(place, section.listen.as_ref())?.unwrap_or(default.listen),
        connections_max: number(
            "serve.connections_max",
            &section.connections_max,
            default.connections_max,
            16..=CONNECTIONS_MAX,
        )?,
        body_bytes_max: number(
            "serve.body_bytes_max",
            &section.body_bytes_max,
            default.body_bytes_max,
            1024..=BODY_BYTES_MAX,
        )?,
        header_timeout_ms: time(
            "serve.header_timeout_ms",
            &section.header_timeout_ms,
            default.header_timeout_ms,
            100,
        )?,
        request_timeout_ms: time(
            "serve.request_timeout_ms",
            &section.request_timeout_ms,
            default.request_timeout_ms,
            100,
        )?,
        drain_ms: time("serve.drain_ms", &section.drain_ms, default.drain_ms, 0)?,
        disk_free_bytes_min: place.number(
            "serve.disk_free_bytes_min",
            &section.disk_free_bytes_min,
            default.disk_free_bytes_min,
            0..=DISK_FREE_BYTES_MAX,
        )?,
        metrics_open: section.metrics_open,
        streams_max: number(
            "serve.streams_max",
            &section.streams_max,
            default.streams_max,
            1..=STREAMS_MAX,
        )?,
        heartbeat_ms: time(
            "serve.heartbeat_ms",
            &section.heartbeat_ms,
            default.heartbeat_ms,
            100,
        )?,
        stall_timeout_ms: time(
            "serve.stall_timeout_ms",
            &section.stall_timeout_ms,
            default.stall_timeout_ms,
            100,
        )?,
        token: token(place, section.token_file, section.token_env)?,
        hosts: checked(place, "serve.hosts", HOST, section.hosts, is_host)?,
        origins: checked(place, "serve.origins", ORIGIN, section.origins, is_origin)?,
    })
}

/// What a host has to be.
const HOST: &str = "a host name or address, without a port";
/// What an origin has to be.
const ORIGIN: &str = "scheme://host[:port], without a path";

fn invalid(line: usize, key: &'static str, expected: &'static str) -> ConfigProblem {
    ConfigProblem::Setting {
        line,
        key,
        expected,
    }
}

fn listen(
    place: &Place<'_>,
    text: Option<&toml::Spanned<String>>,
) -> Result<Option<SocketAddr>, ConfigProblem> {
    let parse = |text: &toml::Spanned<String>| {
        text.get_ref().parse().map_err(|_| {
            let expected = "an IP address and a port, such as 127.0.0.1:8420";
            invalid(place.line(text), "serve.listen", expected)
        })
    };
    text.map(parse).transpose()
}

fn token(
    place: &Place<'_>,
    file: Option<toml::Spanned<PathBuf>>,
    variable: Option<String>,
) -> Result<Option<TokenSource>, ConfigProblem> {
    match (file, variable) {
        (None, None) => Ok(None),
        (Some(file), None) => Ok(Some(TokenSource::File(file.into_inner()))),
        (None, Some(variable)) => Ok(Some(TokenSource::Env(variable))),
        (Some(file), Some(_)) => {
            let expected = "either this or serve.token_env";
            Err(invalid(place.line(&file), "serve.token_file", expected))
        }
    }
}

/// The texts in lower case, all of which have to be what is expected.
fn checked(
    place: &Place<'_>,
    key: &'static str,
    expected: &'static str,
    texts: Vec<toml::Spanned<String>>,
    is_one: fn(&str) -> bool,
) -> Result<Vec<String>, ConfigProblem> {
    let check = |text: toml::Spanned<String>| match is_one(text.get_ref()) {
        true => Ok(text.into_inner().to_ascii_lowercase()),
        false => Err(invalid(place.line(&text), key, expected)),
    };
    texts.into_iter().map(check).collect()
}

fn is_host(text: &str) -> bool {
    url::Host::parse(text).is_ok()
}

fn is_origin(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        let origin = url.origin();
        origin.is_tuple() && origin.ascii_serialization() == text.to_ascii_lowercase()
    })
}
