//! Requests on the wire: the flow of `wasi:http` from a request to its whole response.

use std::time::Duration;

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

use crate::http::{Error, Request, Response};

/// Bytes that a stream takes or gives at a time.
const CHUNK_BYTES: usize = 4096;

/// Sends a request, all of its body, and does not wait for the response.
pub(crate) fn start_request(request: &Request) -> Result<Pending, Error> {
    let (scheme, rest) = request
        .url
        .split_once("://")
        .ok_or(Error::Malformed("expected http:// or https://"))?;
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let fields = Fields::from_list(&request.headers)
        .map_err(|_| Error::Malformed("a header field is malformed or not for guests"))?;
    let outgoing = OutgoingRequest::new(fields);
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let is_set = outgoing.set_method(&request.method).is_ok()
        && outgoing.set_scheme(Some(&scheme)).is_ok()
        && outgoing.set_authority(Some(authority)).is_ok()
        && outgoing.set_path_with_query(Some(path)).is_ok();
    if !is_set {
        return Err(Error::Malformed("method or address"));
    }
    let body = outgoing
        .body()
        .map_err(|()| Error::Malformed("content-length"))?;
    let response = outgoing_handler::handle(outgoing, Some(options(request)))?;
    let written = write(&request.body, &body);
    // A body that could not be written is told by the response.
    if written {
        OutgoingBody::finish(body, None)?;
    }
    Ok(Pending(response))
}

fn options(request: &Request) -> RequestOptions {
    let nanos = |time: Option<Duration>| {
        time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    let options = RequestOptions::new();
    // The host takes every time.
    let _taken = options.set_connect_timeout(nanos(request.connect_timeout));
    let _taken = options.set_first_byte_timeout(nanos(request.first_byte_timeout));
    let _taken = options.set_between_bytes_timeout(nanos(request.between_bytes_timeout));
    options
}

/// Whether the host took all of the body.
fn write(bytes: &[u8], body: &OutgoingBody) -> bool {
    let Ok(stream) = body.write() else {
        return false;
    };
    bytes
        .chunks(CHUNK_BYTES)
        .all(|chunk| stream.blocking_write_and_flush(chunk).is_ok())
}

/// A request that is under way. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Pending(FutureIncomingResponse);

impl Pending {
    /// Waits for the response.
    pub(crate) fn wait(self) -> Result<Response, Error> {
        let response = loop {
            match self.0.get() {
                Some(Ok(response)) => break response?,
                Some(Err(())) => return Err(Error::Malformed("the response was taken")),
                None => self.0.subscribe().block(),
            }
        };
        read(&response)
    }
}

fn read(response: &IncomingResponse) -> Result<Response, Error> {
    let body = response
        .consume()
        .map_err(|()| Error::Malformed("the body was taken"))?;
    Ok(Response {
        status: response.status(),
        headers: response.headers().entries(),
        body: read_body(&body)?,
    })
}

fn read_body(body: &IncomingBody) -> Result<Vec<u8>, Error> {
    let stream = body
        .stream()
        .map_err(|()| Error::Malformed("the body was taken"))?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(CHUNK_BYTES as u64) {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(_)) => {
                return Err(Error::Failed(ErrorCode::HttpResponseIncomplete));
            }
        }
    }
}
