//! Requests that a test asks for, and what a hostile guest would do with them.

use std::net::ToSocketAddrs;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skillrun_sdk::SkillError;
use skillrun_sdk::http::{Error, Method, Pending, Request, Response};
use skillrun_sdk::recorder;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, OutgoingBody, OutgoingRequest, Scheme};

/// A request with everything that a test may want to set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// So many bytes that are no text, in place of `body`.
    #[serde(default)]
    body_bytes: usize,
    #[serde(default)]
    connect_ms: Option<u64>,
    #[serde(default)]
    first_byte_ms: Option<u64>,
    #[serde(default)]
    between_bytes_ms: Option<u64>,
}

/// A request whose body is written in pieces.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pieces {
    url: String,
    /// Of so many bytes each.
    bytes: usize,
    /// The response is not waited for.
    give_up: bool,
}

impl From<Wanted> for Request {
    fn from(wanted: Wanted) -> Self {
        let method = match wanted.method.as_deref() {
            None | Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            Some("PUT") => Method::Put,
            Some("DELETE") => Method::Delete,
            Some("CONNECT") => Method::Connect,
            Some("TRACE") => Method::Trace,
            Some(other) => Method::Other(other.to_owned()),
        };
        let mut request = Self::new(method, &wanted.url);
        for (name, value) in &wanted.headers {
            request = request.with_header(name, value);
        }
        request.body = match wanted.body_bytes {
            0 => wanted.body.into_bytes(),
            bytes => vec![0xff; bytes],
        };
        request.connect_timeout = wanted.connect_ms.map(Duration::from_millis);
        request.first_byte_timeout = wanted.first_byte_ms.map(Duration::from_millis);
        request.between_bytes_timeout = wanted.between_bytes_ms.map(Duration::from_millis);
        request
    }
}

/// The response, or an error of the skill's own.
pub(crate) fn one(wanted: Wanted) -> Result<Value, SkillError> {
    Ok(shown(&Request::from(wanted).send()?))
}

/// Each response or error, one request after another.
pub(crate) fn each(urls: &[String]) -> Value {
    urls.iter()
        .map(|url| outcome(Request::get(url).send()))
        .collect()
}

/// All at once, in a step of their own: all are started before the first is waited for.
pub(crate) fn at_once(urls: &[String]) -> Value {
    let node = recorder::Node::new("at-once");
    let started: Vec<Result<Pending, Error>> =
        urls.iter().map(|url| Request::get(url).start()).collect();
    node.end(true);
    started
        .into_iter()
        .map(|pending| outcome(pending.and_then(Pending::wait)))
        .collect()
}

/// Starts a request and gives it up, or ends without looking back.
pub(crate) fn leave(url: &str, drop_it: bool) -> Result<Value, SkillError> {
    let pending = Request::get(url).start()?;
    if drop_it {
        drop(pending);
    } else {
        std::mem::forget(pending);
    }
    Ok(Value::Null)
}

/// Starts so many requests and reads none of the responses, whose headers it waits for.
pub(crate) fn hoard(url: &str, requests: u64) -> Value {
    let mut kept = Vec::new();
    for n in 0..requests {
        let request = OutgoingRequest::new(Fields::new());
        let (authority, path) = parts(url);
        let set = request.set_scheme(Some(&Scheme::Http)).is_ok()
            && request.set_authority(Some(authority)).is_ok()
            && request.set_path_with_query(Some(path)).is_ok();
        let Ok(pending) = handle(request, None) else {
            return json!({ "kept": n, "error": "refused", "set": set });
        };
        pending.subscribe().block();
        match pending.get() {
            Some(Ok(Ok(response))) => kept.push(response),
            other => return json!({ "kept": n, "error": format!("{other:?}") }),
        }
    }
    json!({ "kept": kept.len() })
}

/// A request whose body ends in some other way than it should: with trailers, or not at all.
pub(crate) fn odd_body(url: &str, trailers: bool) -> Value {
    let request = post(url);
    let Ok(body) = request.body() else {
        return json!("malformed");
    };
    let pending = match handle(request, None) {
        Ok(pending) => pending,
        Err(error) => return json!(format!("{error:?}")),
    };
    if trailers {
        let fields = Fields::new();
        let appended = fields.append("x-sum", b"1").is_ok();
        let finished = OutgoingBody::finish(body, Some(fields)).is_ok();
        if !(appended && finished) {
            return json!("malformed");
        }
    } else {
        drop(body);
    }
    pending.subscribe().block();
    json!(format!(
        "{:?}",
        pending.get().map(|got| got.map(|got| got.map(|_| ())))
    ))
}

/// Writes a body in pieces of so many bytes until that is refused, and gives what it was allowed before and
/// after each, and after each wait. Where it waits, the host has all the time to take up what is there.
pub(crate) fn pieces(pieces: &Pieces) -> Value {
    let request = post(&pieces.url);
    let Ok(body) = request.body() else {
        return json!("malformed");
    };
    let Ok(stream) = body.write() else {
        return json!("malformed");
    };
    let mut pending = handle(request, None).ok();
    if pieces.give_up {
        pending = None;
    }
    let mut allowed = Vec::new();
    loop {
        std::thread::sleep(Duration::from_millis(5));
        match stream.check_write() {
            Ok(0) => {
                allowed.push(0);
                stream.subscribe().block();
            }
            Ok(most) => {
                allowed.push(most);
                if stream.write(&vec![b'x'; pieces.bytes]).is_err() {
                    break;
                }
            }
            Err(_closed) => break,
        }
    }
    drop(stream);
    let finished = OutgoingBody::finish(body, None).is_ok();
    let got = pending.map(|pending| {
        pending.subscribe().block();
        let got = pending.get().map(|got| got.map(|got| got.map(|_| ())));
        format!("{got:?}")
    });
    json!({ "allowed": allowed, "finished": finished, "got": got })
}

/// A request with a body.
fn post(url: &str) -> OutgoingRequest {
    let request = OutgoingRequest::new(Fields::new());
    let (authority, path) = parts(url);
    // What cannot be set is found to be missing when the request is handed in.
    let _set = request
        .set_method(&Method::Post)
        .and_then(|()| request.set_scheme(Some(&Scheme::Http)))
        .and_then(|()| request.set_authority(Some(authority)))
        .and_then(|()| request.set_path_with_query(Some(path)));
    request
}

/// Asks for the addresses of a name, past `wasi:http`.
pub(crate) fn look_up(name: &str) -> Value {
    let found = (name, 80).to_socket_addrs();
    match found {
        Ok(addresses) => json!({ "addresses": addresses.count() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

fn outcome(result: Result<Response, Error>) -> Value {
    match result {
        Ok(response) => shown(&response),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn shown(response: &Response) -> Value {
    let fields = response.headers.iter();
    let headers: Vec<(&str, String)> = fields
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value).into_owned()))
        .collect();
    json!({
        "status": response.status,
        "headers": headers,
        "bytes": response.body.len(),
        "text": response.text().chars().take(1000).collect::<String>(),
    })
}
