//! Requests over HTTP. Each needs a capability `net:` that covers it; the host checks, sends and records
//! it. A secret that the operator configured for the address is put in by the host.

use std::fmt;
use std::time::Duration;

pub use wasip2::http::types::{ErrorCode, Method};

use crate::error::{DENIED, SkillError};
use crate::host;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The address: `http://` or `https://`, host, path and query.
    pub url: String,
    /// Header fields. The host sets `Host` and the length itself.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// How long a connection may take, if less than the host allows for the whole.
    pub connect_timeout: Option<Duration>,
    /// How long the beginning of the response may take.
    pub first_byte_timeout: Option<Duration>,
    /// How long each further piece of it may take.
    pub between_bytes_timeout: Option<Duration>,
}

/// A response. Redirects are not followed: that would be a request of its own.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header field of that name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body as text; what is no UTF-8 in it is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why there is no response.
#[derive(Debug, Clone)]
pub enum Error {
    /// The request cannot be put together.
    Malformed(&'static str),
    /// The host did not send it, or nothing useful came back.
    Failed(ErrorCode),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed request: {what}"),
            Self::Failed(code) => write!(f, "no response: {code:?}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        Self::Failed(code)
    }
}

impl From<Error> for SkillError {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Failed(ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited) => {
                DENIED
            }
            Error::Malformed(_) => "invalid_request",
            Error::Failed(_) => "http_error",
        };
        Self::new(error.to_string()).with_code(code)
    }
}

impl Request {
    /// A request without fields and without a body.
    pub fn new(method: Method, url: &str) -> Self {
        Self {
            method,
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            connect_timeout: None,
            first_byte_timeout: None,
            between_bytes_timeout: None,
        }
    }

    /// Reads what is at an address.
    pub fn get(url: &str) -> Self {
        Self::new(Method::Get, url)
    }

    /// Hands a body over to an address.
    pub fn post(url: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..Self::new(Method::Post, url)
        }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sends it and waits for the response.
    ///
    /// # Errors
    /// It is malformed, denied or failed.
    pub fn send(&self) -> Result<Response, Error> {
        self.start()?.wait()
    }

    /// Sends it and goes on. The host carries out a few at once.
    ///
    /// # Errors
    /// It is malformed or denied.
    pub fn start(&self) -> Result<Pending, Error> {
        host::start_request(self).map(Pending)
    }
}

/// A request that is under way. Dropped, it is given up.
#[derive(Debug)]
pub struct Pending(host::Pending);

impl Pending {
    /// Waits for the response.
    ///
    /// # Errors
    /// There is none.
    pub fn wait(self) -> Result<Response, Error> {
        self.0.wait()
    }
}
