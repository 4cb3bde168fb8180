//! The server over streamable HTTP. What is no message is answered here, and so is whoever brings the session of
//! another client; the SDK does the rest.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::Mcp;
use super::client::id_of;
use super::message::{Refused, parse};
use super::server::Server;
use super::sessions::Sessions;

/// After so long a stream that has nothing to say says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// For so long a session may be idle beyond the time that a client has to answer a question. Protects the host's memory
/// from sessions that were left.
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);
/// When a client may try again for which there was no session.
const RETRY_AFTER_SECONDS: u64 = 300;
/// The field of the head in which a client says which session it speaks in.
const SESSION_ID: &str = "mcp-session-id";

/// What answers a request.
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub struct HttpService {
    mcp: Mcp,
    inner: StreamableHttpService<Server, Sessions>,
    sessions: Arc<Sessions>,
    body_bytes_max: usize,
}

impl Mcp {
    /// What answers requests, each of at most so many bytes. Whoever serves it checks `Host`, `Origin` and tokens
    /// before.
    pub fn http_service(&self, body_bytes_max: usize) -> HttpService {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(body_bytes_max);
        let mcp = self.clone();
        let server = move || Ok(Server::new(mcp.clone()));
        let sessions = Sessions::new(
            self.clone(),
            self.settings().input_timeout().saturating_add(SESSION_IDLE),
        );
        HttpService {
            mcp: self.clone(),
            inner: StreamableHttpService::new(server, Arc::clone(&sessions), config),
            sessions,
            body_bytes_max,
        }
    }
}

impl HttpService {
    /// Answers a request.
    pub async fn handle<B>(&self, request: Request<B>) -> Answer
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if let Some(session) = request.headers().get(SESSION_ID) {
            let session = session.to_str().unwrap_or_default();
            let client_id = id_of(&self.mcp, request.headers());
            // Of a session of another client it is not told that there is one.
            if self.sessions.is_of_another(session, &client_id) {
                return text(StatusCode::NOT_FOUND, "there is no such session");
            }
        }
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, self.body_bytes_max).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let bytes_max = self.body_bytes_max;
                let message = format!("the body is too long: expected at most {bytes_max} bytes");
                let answer = Refused::unread(message).answer();
                return json(StatusCode::PAYLOAD_TOO_LARGE, &answer);
            }
            Err(_) => return text(StatusCode::BAD_REQUEST, "the body did not come whole"),
        };
        if head.method == Method::POST {
            match parse(&body) {
                Ok(message) => {
                    if let Some(refused) = self.refused(&message).await {
                        return refused;
                    }
                }
                Err(refused) => return json(StatusCode::BAD_REQUEST, &refused.answer()),
            }
        }
        self.inner
            .handle(Request::from_parts(head, Full::new(body)))
            .await
    }

    /// Whoever wants to begin a session, where there are as many as there may be.
    async fn refused(&self, message: &ClientJsonRpcMessage) -> Option<Answer> {
        let id = begins_session(message)?;
        if !self.sessions.is_full().await {
            return None;
        }
        let error = ErrorData::internal_error("too many sessions are open", None);
        let answer = TxJsonRpcMessage::<RoleServer>::error(error, Some(id));
        let mut answer = json(StatusCode::SERVICE_UNAVAILABLE, &answer);
        let seconds = HeaderValue::from(RETRY_AFTER_SECONDS);
        answer.headers_mut().insert(RETRY_AFTER, seconds);
        Some(answer)
    }
}

fn begins_session(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(_) => Some(request.id.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn json(status: StatusCode, message: &TxJsonRpcMessage<RoleServer>) -> Answer {
    let body = serde_json::to_vec(message).unwrap_or_default();
    answer(status, "application/json", body.into())
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    answer(status, "text/plain", Bytes::from_static(text.as_bytes()))
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).boxed());
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
