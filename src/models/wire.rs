//! One request to a provider and its response, bounded, without redirects, cookies and proxies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Response, retry};
use tokio::sync::OnceCell;

use super::anthropic;
use super::refusal::Refusal;
use super::retry::{Attempted, asked_wait};
use crate::clock::Clock;
use crate::config::{ModelApi, ModelKey, ModelProviderSettings};
use crate::telemetry::chain;
use crate::{tls, trace_context};

/// Milliseconds for one connection, so that an address that is silent can be tried again.
const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// Bytes of a response that is an error; its message is far shorter.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a whole answer, streamed or not. Protects the host's memory.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Characters of a content type that are repeated.
const CONTENT_TYPE_CHARS_MAX: usize = 80;

/// Talks to one provider.
pub(super) struct Wire {
    api: ModelApi,
    url: String,
    is_https: bool,
    key: Option<ModelKey>,
    ca_certificates: Arc<[Vec<u8>]>,
    clock: Clock,
    /// Made for the first request, since the system's certificates are many.
    client: OnceCell<reqwest::Client>,
}

/// Why there is no answer to one request.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no connection, or it ended before the response began.
    Unreachable(String),
    /// The response is an error.
    Refused {
        status: u16,
        refusal: Refusal,
        asked_wait: Option<Duration>,
    },
    /// The response is none that can be used.
    Unusable(String),
}

impl Attempted for Failure {
    fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => *status == 429 || (500..=599).contains(status),
            Self::Unusable(_) => false,
        }
    }

    fn asked_wait(&self) -> Option<Duration> {
        match self {
            Self::Refused { asked_wait, .. } => *asked_wait,
            _ => None,
        }
    }
}

impl Wire {
    pub(super) fn new(
        settings: &ModelProviderSettings,
        key: Option<ModelKey>,
        ca_certificates: Arc<[Vec<u8>]>,
        clock: Clock,
    ) -> Self {
        let path = match settings.api {
            ModelApi::Openai => super::openai::PATH,
            ModelApi::Anthropic => anthropic::PATH,
        };
        Self {
            api: settings.api,
            url: format!("{}{path}", settings.url.as_str().trim_end_matches('/')),
            is_https: settings.url.scheme() == "https",
            key,
            ca_certificates,
            clock,
            client: OnceCell::new(),
        }
    }

    /// The key, to be kept out of messages.
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_ref().map(ModelKey::value)
    }

    /// Sends a request and waits for the head of a response that has an answer of that type. The caller
    /// bounds the time.
    pub(super) async fn send(
        &self,
        body: &Bytes,
        content_type: &'static str,
    ) -> Result<Response, Failure> {
        let client = self.client.get_or_try_init(|| self.make_client()).await?;
        let mut request = client
            .post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, content_type)
            .body(body.clone());
        if let Some(trace) = trace_context::current() {
            let mut headers = HeaderMap::new();
            trace.add_to(&mut headers);
            request = request.headers(headers);
        }
        if self.api == ModelApi::Anthropic {
            request = request.header(anthropic::VERSION_HEADER, anthropic::VERSION);
        }
        if let Some(key) = self.key() {
            let (name, field) = match self.api {
                ModelApi::Openai => (AUTHORIZATION.as_str(), format!("Bearer {key}")),
                ModelApi::Anthropic => (anthropic::KEY_HEADER, key.to_owned()),
            };
            let mut field = http::HeaderValue::try_from(field)
                .map_err(|_| Failure::Unusable("key is no header field".to_owned()))?;
            field.set_sensitive(true);
            request = request.header(name, field);
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| Failure::Unreachable(chain(&error.without_url())))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(self.refused(status, response).await);
        }
        let given = response.headers().get(CONTENT_TYPE);
        let given = given.and_then(|field| field.to_str().ok()).unwrap_or("");
        let essence = given.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(content_type) {
            let given: String = given.chars().take(CONTENT_TYPE_CHARS_MAX).collect();
            let problem = format!("answer of type {given:?}: expected {content_type}");
            return Err(Failure::Unusable(problem));
        }
        Ok(response)
    }

    async fn refused(&self, status: u16, mut response: Response) -> Failure {
        let field = response.headers().get(RETRY_AFTER);
        let field = field.and_then(|field| field.to_str().ok());
        let asked_wait = field.and_then(|field| asked_wait(field, self.clock.now()));
        let mut body = Vec::new();
        // What breaks off is the message; the status has come whole.
        while let Ok(Some(piece)) = response.chunk().await {
            let room = REFUSAL_BYTES_MAX - body.len();
            body.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
            if body.len() >= REFUSAL_BYTES_MAX {
                break;
            }
        }
        Failure::Refused {
            status,
            refusal: Refusal::of(&body),
            asked_wait,
        }
    }

    async fn make_client(&self) -> Result<reqwest::Client, Failure> {
        let (is_https, extra) = (self.is_https, Arc::clone(&self.ca_certificates));
        let made = tokio::task::spawn_blocking(move || {
            let tls = match is_https {
                true => tls::trusting(&extra),
                false => tls::trusting_nobody(),
            };
            let tls = tls.map_err(|error| error.to_string())?;
            reqwest::Client::builder()
                .redirect(Policy::none())
                .retry(retry::never())
                .no_proxy()
                .referer(false)
                .connect_timeout(Duration::from_millis(CONNECT_TIMEOUT_MS))
                .tls_backend_preconfigured(tls)
                .build()
                .map_err(|error| chain(&error))
        });
        let made = made.await.map_err(|error| error.to_string());
        let made = made.and_then(|made| made);
        made.map_err(|reason| Failure::Unusable(format!("cannot set up TLS: {reason}")))
    }
}
