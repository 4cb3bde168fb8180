//! Connecting, TLS and one HTTP/1.1 exchange.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::RequestOptions;
use wasmtime_wasi_http::io::TokioIo;

use super::HttpOptions;
use super::error::ExchangeError;
use super::fields::{self, FIELDS_MAX, RESPONSE_HEADER_BYTES_MAX};
use super::head::HeadBound;
use super::unread::{Hold, Unread};
use crate::capability::{Scheme, Target};
use crate::executor::run_host::HttpResponse;
use crate::tls;

/// Milliseconds for one address where there are several, so that one that is silent does not take the
/// time of the others.
const CONNECT_ATTEMPT_MS_MAX: u64 = 5_000;

/// What the requests of all runs share: settings, and nothing that a request leaves behind.
pub(crate) struct Client {
    pub(super) options: HttpOptions,
    /// Made for the first request that needs it, since the system's certificates are many.
    tls: OnceCell<TlsConnector>,
}

/// What came back.
pub(super) struct Answer {
    pub(super) response: HttpResponse,
    /// Counts the response as unread until the guest is through with it.
    pub(super) hold: Hold,
}

impl Client {
    pub(crate) fn new(options: HttpOptions) -> Self {
        Self {
            options,
            tls: OnceCell::new(),
        }
    }

    /// Sends one request to the first of the addresses that answers, and collects the response. What
    /// the guest set bounds the steps; the whole is for the caller to bound. Dropping the future
    /// closes the connection.
    pub(super) async fn exchange(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
        request: http::Request<Full<Bytes>>,
        times: RequestOptions,
        unread: &Arc<Unread>,
    ) -> Result<Answer, ExchangeError> {
        let connecting = async {
            let stream = connect(addresses).await?;
            Ok(match target.scheme {
                Scheme::Http => Stream::Plain(stream),
                Scheme::Https => {
                    let tls = self.tls.get_or_try_init(|| self.make_tls()).await?;
                    Stream::Tls(Box::new(secure(tls, target, stream).await?))
                }
            })
        };
        let stream = within(times.connect_timeout, connecting, |ms| {
            ExchangeError::ConnectTime { ms }
        });
        match stream.await? {
            Stream::Plain(stream) => talk(stream, request, times, unread).await,
            Stream::Tls(stream) => talk(stream, request, times, unread).await,
        }
    }

    async fn make_tls(&self) -> Result<TlsConnector, ExchangeError> {
        let extra = self.options.ca_certificates.clone();
        let made = tokio::task::spawn_blocking(move || {
            let mut config = tls::trusting(&extra)?;
            config.resumption = Resumption::disabled();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok::<_, rustls::Error>(TlsConnector::from(Arc::new(config)))
        });
        let made = made.await.map_err(|error| ExchangeError::Host {
            reason: error.to_string(),
        })?;
        made.map_err(|error| ExchangeError::Tls {
            reason: error.to_string(),
        })
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// `work`, ended by the time that the guest set, if it set one.
async fn within<T>(
    time: Option<Duration>,
    work: impl Future<Output = Result<T, ExchangeError>>,
    ended: impl FnOnce(u128) -> ExchangeError,
) -> Result<T, ExchangeError> {
    match time {
        None => work.await,
        Some(time) => match timeout(time, work).await {
            Ok(done) => done,
            Err(_elapsed) => Err(ended(time.as_millis())),
        },
    }
}

/// Connects to one of these addresses and to nothing else: there is no second look-up.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, ExchangeError> {
    let attempt = Duration::from_millis(CONNECT_ATTEMPT_MS_MAX);
    let mut last = ExchangeError::Connect {
        reason: "no address".to_owned(),
    };
    for (index, address) in addresses.iter().enumerate() {
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        let connected = if index + 1 == addresses.len() {
            connecting.await
        } else {
            let elapsed = |_| Err(io::ErrorKind::TimedOut.into());
            timeout(attempt, connecting).await.unwrap_or_else(elapsed)
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let reason = format!("{address}: {error}");
                last = ExchangeError::Connect { reason };
            }
        }
    }
    Err(last)
}

async fn secure(
    tls: &TlsConnector,
    target: &Target,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ExchangeError> {
    let name = match target.address {
        Some(address) => Ok(ServerName::from(address)),
        None => ServerName::try_from(target.host.clone()),
    };
    let name = name.map_err(|error| ExchangeError::Tls {
        reason: error.to_string(),
    })?;
    tls.connect(name, stream).await.map_err(|error| {
        let reason = error.to_string();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(rustls::Error::InvalidCertificate(_)) => ExchangeError::Certificate { reason },
            _ => ExchangeError::Tls { reason },
        }
    })
}

/// One request and its response, and then the connection ends.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: http::Request<Full<Bytes>>,
    times: RequestOptions,
    unread: &Arc<Unread>,
) -> Result<Answer, ExchangeError> {
    let mut builder = http1::Builder::new();
    builder
        .max_headers(FIELDS_MAX)
        .max_header_size(RESPONSE_HEADER_BYTES_MAX);
    let (stream, before_response) = HeadBound::new(stream);
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(&error))?;
    let exchange = async {
        let response = async {
            let response = sender.send_request(request).await;
            response.map_err(|error| match before_response.is_used_up() {
                true => ExchangeError::ResponseHeader,
                false => failed(&error),
            })
        };
        let read_time = |ms| ExchangeError::ReadTime { ms };
        let response = within(times.first_byte_timeout, response, read_time).await?;
        before_response.lift();
        collect(response, times, unread).await
    };
    // What the connection has to tell, the exchange is told as well; it may be over first.
    let driving = async {
        let _told_there_too = connection.await;
        std::future::pending::<Infallible>().await
    };
    let (mut exchange, mut driving) = (pin!(exchange), pin!(driving));
    tokio::select! {
        answer = &mut exchange => answer,
        never = &mut driving => match never {},
    }
}

async fn collect(
    response: http::Response<Incoming>,
    times: RequestOptions,
    unread: &Arc<Unread>,
) -> Result<Answer, ExchangeError> {
    let (mut head, mut body) = response.into_parts();
    if head.headers.contains_key(TRANSFER_ENCODING) {
        // The chunks tell the length, and a field that tells another would mislead whoever reads it.
        head.headers.remove(CONTENT_LENGTH);
    }
    let fields = head.headers.iter();
    let header_bytes: usize = fields
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if head.headers.len() > FIELDS_MAX || header_bytes > RESPONSE_HEADER_BYTES_MAX {
        return Err(ExchangeError::ResponseHeader);
    }
    // Copied: as they came, the values keep the buffer that the connection was read into.
    let headers = fields::texts(&head.headers);
    let mut hold = unread.hold(fields::text_bytes(&headers), headers.len())?;
    // Nobody has to wait for what is announced as too much.
    hold.check(body.size_hint().lower())?;
    let mut collected = BytesMut::new();
    loop {
        let frame = async { Ok(body.frame().await) };
        let read_time = |ms| ExchangeError::ReadTime { ms };
        let frame = within(times.between_bytes_timeout, frame, read_time).await?;
        let Some(frame) = frame else {
            break;
        };
        let frame = frame.map_err(|error| failed(&error))?;
        // Trailers are left out: nothing that a guest relies on comes in them.
        if let Ok(data) = frame.into_data() {
            hold.add(u64::try_from(data.len()).unwrap_or(u64::MAX))?;
            collected.extend_from_slice(&data);
        }
    }
    Ok(Answer {
        response: HttpResponse {
            status: head.status.as_u16(),
            headers,
            body: collected.freeze(),
        },
        hold,
    })
}

fn failed(error: &hyper::Error) -> ExchangeError {
    let reason = crate::telemetry::chain(error);
    if error.is_parse_too_large() {
        ExchangeError::ResponseHeader
    } else if error.is_parse() {
        ExchangeError::Protocol { reason }
    } else {
        ExchangeError::Incomplete { reason }
    }
}
