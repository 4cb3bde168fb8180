//! A provider that is reached over the network, in one of the wire formats.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::assembly::{Answer, Assembly};
use super::events::{Event, EventReader};
use super::openai::TokensField;
use super::retry::with_retries;
use super::wire::{ANSWER_BYTES_MAX, Failure, Wire};
use super::{ModelError, ModelProvider, ModelStream, anthropic, openai, prices, refusal};
use crate::call::{ModelChunk, ModelRequest, ModelResponse, Usage};
use crate::clock::Clock;
use crate::config::{ModelApi, ModelKey, ModelPrices, ModelProviderSettings};

const WHOLE: &str = "application/json";
const STREAM: &str = "text/event-stream";
/// Hosts that know the newer name of the bound on an answer, and refuse the older one.
const NEWER_HOSTS: [&str; 1] = ["api.openai.com"];
/// Bytes of a request that are taken for a token, where nobody has counted.
const BYTES_PER_TOKEN: usize = 4;

/// A provider of `[model_providers]`. Cheap to clone.
#[derive(Clone)]
pub(super) struct Remote(Arc<Inner>);

struct Inner {
    name: String,
    settings: ModelProviderSettings,
    wire: Wire,
    /// Whether the server was found to know only the newer name of the bound on an answer.
    is_newer: AtomicBool,
}

/// A request that is under way.
struct Asked {
    response: Response,
    deadline: Instant,
    request_tokens: u64,
}

impl Remote {
    pub(super) fn new(
        name: &str,
        settings: &ModelProviderSettings,
        key: Option<ModelKey>,
        ca_certificates: Arc<[Vec<u8>]>,
        clock: Clock,
    ) -> Self {
        let host = settings.url.host_str().unwrap_or_default();
        Self(Arc::new(Inner {
            name: name.to_owned(),
            settings: settings.clone(),
            wire: Wire::new(settings, key, ca_certificates, clock),
            is_newer: AtomicBool::new(NEWER_HOSTS.contains(&host)),
        }))
    }
}

impl Inner {
    fn body(&self, request: &ModelRequest, is_stream: bool) -> Result<Bytes, ModelError> {
        let default = self.settings.output_tokens_max;
        let body: Value = match self.settings.api {
            ModelApi::Anthropic => anthropic::body(request, default, is_stream)?,
            ModelApi::Openai => {
                let field = match self.is_newer.load(Ordering::Relaxed) {
                    true => TokensField::Newer,
                    false => TokensField::Older,
                };
                openai::body(request, default, field, is_stream)?
            }
        };
        Ok(Bytes::from(body.to_string()))
    }

    /// Sends a request, again where that may help, until a response begins that has an answer.
    async fn ask(&self, request: &ModelRequest, is_stream: bool) -> Result<Asked, ModelError> {
        let timeout_ms = self.settings.timeout_ms;
        let deadline = sleep(Duration::from_millis(timeout_ms)).deadline();
        let content_type = if is_stream { STREAM } else { WHOLE };
        loop {
            let body = self.body(request, is_stream)?;
            let request_tokens = body.len().div_ceil(BYTES_PER_TOKEN);
            let attempts = with_retries(self.settings.retries_max, deadline, || {
                self.wire.send(&body, content_type)
            });
            let Ok(answered) = timeout_at(deadline, attempts).await else {
                return Err(ModelError::TimedOut { timeout_ms });
            };
            match answered {
                Ok(response) => {
                    return Ok(Asked {
                        response,
                        deadline,
                        request_tokens: u64::try_from(request_tokens).unwrap_or(u64::MAX),
                    });
                }
                Err((failure, _)) if self.is_about_tokens_field(&failure) => {}
                Err((failure, attempts)) => {
                    return Err(self.failed(request, &failure, attempts));
                }
            }
        }
    }

    /// Whether a server refused the older name of the bound on an answer and named the newer. It is
    /// asked by that name from then on.
    fn is_about_tokens_field(&self, failure: &Failure) -> bool {
        let Failure::Refused {
            status: 400,
            refusal,
            ..
        } = failure
        else {
            return false;
        };
        self.settings.api == ModelApi::Openai
            && refusal.message.contains(TokensField::Newer.as_str())
            && !self.is_newer.swap(true, Ordering::Relaxed)
    }

    fn failed(&self, request: &ModelRequest, failure: &Failure, attempts: u32) -> ModelError {
        let name = &self.name;
        let tried = match attempts {
            1 => String::new(),
            attempts => format!(" after {attempts} attempts"),
        };
        match failure {
            Failure::Unreachable(reason) => {
                ModelError::Failed(format!("no connection{tried}: {reason}"))
            }
            Failure::Unusable(problem) => ModelError::Failed(problem.clone()),
            Failure::Refused {
                status, refusal, ..
            } => {
                let is_unknown = refusal.code.contains("model_not_found")
                    || refusal.code.contains("not_found_error");
                let text = format!("HTTP status {status}{tried}: {}", refusal.message);
                match status {
                    404 if is_unknown => ModelError::NotFound(format!("{name}/{}", request.model)),
                    400 | 413 | 422 => ModelError::Invalid(text),
                    _ => ModelError::Failed(text),
                }
            }
        }
    }

    /// A message with the provider's name, as it may be shown.
    fn shown(&self, message: &str) -> String {
        let message = refusal::shown(message, self.wire.key());
        format!("{}: {message}", self.name)
    }

    /// An error as it may be shown.
    fn shown_error(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Failed(problem) => ModelError::Failed(self.shown(&problem)),
            ModelError::Invalid(problem) => ModelError::Invalid(self.shown(&problem)),
            other => other,
        }
    }

    fn prices(&self, model: &str) -> Option<&ModelPrices> {
        prices::of(&self.settings.prices, model)
    }

    fn priced(&self, answer: Answer, model: &str) -> ModelResponse {
        ModelResponse {
            content: answer.content,
            stop_reason: answer.stop_reason,
            usage: answer.tokens.priced(self.prices(model)),
            model: answer.model,
        }
    }

    /// The next bytes of an answer; none at its end.
    async fn piece(&self, asked: &mut Asked) -> Result<Option<Bytes>, ModelError> {
        let idle_timeout_ms = self.settings.idle_timeout_ms;
        let idle = Duration::from_millis(idle_timeout_ms);
        let piece = timeout_at(asked.deadline, timeout(idle, asked.response.chunk())).await;
        let timed_out = |timeout_ms| Err(ModelError::TimedOut { timeout_ms });
        match piece {
            Err(_) => timed_out(self.settings.timeout_ms),
            Ok(Err(_)) => timed_out(idle_timeout_ms),
            Ok(Ok(Ok(piece))) => Ok(piece),
            Ok(Ok(Err(error))) => {
                let reason = crate::telemetry::chain(&error.without_url());
                let problem = format!("answer broke off: {reason}");
                Err(ModelError::Failed(problem))
            }
        }
    }

    async fn whole(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut asked = self.ask(request, false).await?;
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut asked).await? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        let answer = match self.settings.api {
            ModelApi::Openai => openai::whole(&body)?,
            ModelApi::Anthropic => anthropic::whole(&body)?,
        };
        Ok(self.priced(answer, &request.model))
    }
}

fn too_large() -> ModelError {
    ModelError::Failed(format!("answer of more than {ANSWER_BYTES_MAX} bytes"))
}

#[async_trait]
impl ModelProvider for Remote {
    async fn generate(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let whole = self.0.whole(request).await;
        whole.map_err(|error| self.0.shown_error(error))
    }

    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        let asked = self.0.ask(request, true).await;
        let asked = asked.map_err(|error| self.0.shown_error(error))?;
        Ok(Box::new(Coming {
            remote: Arc::clone(&self.0),
            model: request.model.clone(),
            asked,
            events: EventReader::new(),
            bytes: 0,
            is_over: false,
            stream: AnswerStream::of(self.0.settings.api),
        }))
    }
}

/// A stream in one of the formats.
pub(super) enum AnswerStream {
    Openai(openai::Stream),
    Anthropic(anthropic::Stream),
}

impl AnswerStream {
    pub(super) fn of(api: ModelApi) -> Self {
        match api {
            ModelApi::Openai => Self::Openai(openai::Stream::default()),
            ModelApi::Anthropic => Self::Anthropic(anthropic::Stream::default()),
        }
    }

    /// Takes an event; whether it was the last.
    pub(super) fn take(&mut self, event: &Event) -> Result<bool, ModelError> {
        match self {
            Self::Openai(stream) => stream.take(event),
            Self::Anthropic(stream) => stream.take(event),
        }
    }

    fn assembled(&self) -> &Assembly {
        match self {
            Self::Openai(stream) => &stream.assembly,
            Self::Anthropic(stream) => &stream.assembly,
        }
    }

    pub(super) fn assembly(&mut self) -> &mut Assembly {
        match self {
            Self::Openai(stream) => &mut stream.assembly,
            Self::Anthropic(stream) => &mut stream.assembly,
        }
    }
}

/// An answer that is still coming.
struct Coming {
    remote: Arc<Inner>,
    model: String,
    asked: Asked,
    events: EventReader,
    bytes: usize,
    /// Whether the last event, or the end, has come.
    is_over: bool,
    stream: AnswerStream,
}

impl Coming {
    async fn chunk(&mut self) -> Result<ModelChunk, ModelError> {
        loop {
            if let Some(chunk) = self.stream.assembly().next() {
                return Ok(chunk);
            }
            if self.is_over {
                if self.stream.assembly().has_stopped() {
                    self.stream.assembly().finish_tools()?;
                    if let Some(chunk) = self.stream.assembly().next() {
                        return Ok(chunk);
                    }
                }
                let answer = self.stream.assembly().end()?;
                let response = self.remote.priced(answer, &self.model);
                return Ok(ModelChunk::Done(Box::new(response)));
            }
            if let Some(event) = self.events.next()? {
                self.is_over = self.stream.take(&event)?;
                continue;
            }
            match self.remote.piece(&mut self.asked).await? {
                Some(piece) => {
                    self.bytes += piece.len();
                    if self.bytes > ANSWER_BYTES_MAX {
                        return Err(too_large());
                    }
                    self.events.push(&piece);
                }
                None => self.is_over = true,
            }
        }
    }
}

#[async_trait]
impl ModelStream for Coming {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        let chunk = self.chunk().await;
        chunk.map_err(|error| self.remote.shown_error(error))
    }

    fn usage(&self) -> Usage {
        let tokens = self.stream.assembled().tokens(self.asked.request_tokens);
        tokens.priced(self.remote.prices(&self.model))
    }
}
