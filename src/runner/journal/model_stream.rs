//! An answer of a model that comes in pieces. The guest gets the pieces that are recorded, and no others:
//! what a provider sends in crumbs is put together first.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::Journal;
use super::flight::InFlight;
use super::model::Asked;
use super::model_json;
use super::provided::CallId;
use super::recall::Recall;
use crate::call::{ModelChunk, ModelRequest, Usage};
use crate::clock::Stopwatch;
use crate::executor::{Answer, CallError, ModelAnswer, RecordRefused};
use crate::ledger::{self, Origin};
use crate::models::{ModelError, ModelStream};
use crate::telemetry::chain;
use crate::trace_context;

/// Bytes of text from which on a piece is handed over.
const PIECE_BYTES: usize = 512;
/// How long text is waited for that could be put together with what is there. Nobody who reads along
/// sees it.
const PIECE_WAIT: Duration = Duration::from_millis(100);
/// Pieces that are read ahead of the guest. Protects the host's heap.
const AHEAD_MAX: usize = 16;

/// What a provider sent, and what the answer had taken by then.
type Sent = (Result<ModelChunk, ModelError>, Usage);

struct Streaming {
    journal: Journal,
    asked: Asked,
    coming: mpsc::Receiver<Sent>,
    _reading: AbortOnDropHandle<()>,
    /// Text that was not handed over yet.
    text: String,
    /// What came after it.
    next: Option<Result<ModelChunk, ModelError>>,
    usage: Usage,
    /// Pieces handed over.
    pieces: u64,
    /// The end is on record.
    is_over: bool,
    _in_flight: InFlight,
}

impl Journal {
    pub(super) async fn model_stream(
        &self,
        id: CallId,
        request: ModelRequest,
        in_flight: InFlight,
    ) -> Result<Box<dyn ModelAnswer>, CallError> {
        let asking = self.asking(id, &request, true).await?;
        match self
            .recall(&asking.id, || asking.call.clone().into())
            .await?
        {
            Recall::New => {}
            Recall::Answered(..) => return Ok(self.answer_from_record(asking)),
            Recall::Open(_) if self.cx.is_record_only() => {
                return Ok(self.answer_from_record(asking));
            }
            Recall::Open(call) => {
                // The guest that is told anew knows of no piece. If the one before it did something when it
                // had the first, this one has to be told the same.
                if self.acted_on_pieces(&asking) {
                    self.check_stream(&asking).await;
                    return Ok(self.answer_from_record(asking));
                }
                self.check_repetition(&asking.id, &call.event).await;
            }
        }
        let asked = self.ask(asking, &request).await?;
        let request = asked.within_budget(request);
        let trace = self.handed_on(&asked.asking.id.call_id);
        let began = self.models.start(&asked.name, request);
        let began = self
            .unless_cancelled(trace_context::scope(trace, began))
            .await;
        let stream = match began {
            Err(cancelled) => return Err(self.unanswered(&asked, cancelled, &Usage::default())),
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unanswered(&asked, error.into(), &Usage::default())),
        };
        // Also an answer that is given up before its first piece took something.
        let usage = stream.usage();
        let (sender, coming) = mpsc::channel(AHEAD_MAX);
        Ok(Box::new(Streaming {
            journal: self.clone(),
            asked,
            coming,
            _reading: AbortOnDropHandle::new(tokio::spawn(read(stream, sender))),
            text: String::new(),
            next: None,
            usage,
            pieces: 0,
            is_over: false,
            _in_flight: in_flight,
        }))
    }
}

/// Passes on what comes until the end. It is a task of its own because waiting for a piece must be given
/// up without losing half of it.
async fn read(mut stream: Box<dyn ModelStream>, sender: mpsc::Sender<Sent>) {
    loop {
        let piece = stream.next().await;
        let is_last = !matches!(piece, Ok(ModelChunk::Text(_) | ModelChunk::ToolUse(_)));
        if sender.send((piece, stream.usage())).await.is_err() || is_last {
            return;
        }
    }
}

impl Streaming {
    /// Waits until there is enough text for a piece, or something else.
    async fn gather(&mut self) {
        let mut since = None;
        while self.next.is_none() && self.text.len() < PIECE_BYTES {
            let sent = match &since {
                None => self.coming.recv().await,
                Some(since) => {
                    let left = PIECE_WAIT.saturating_sub(Stopwatch::elapsed(since));
                    match tokio::time::timeout(left, self.coming.recv()).await {
                        Ok(sent) => sent,
                        Err(_elapsed) => return,
                    }
                }
            };
            match sent {
                Some((Ok(ModelChunk::Text(text)), usage)) => {
                    self.usage = usage;
                    self.text.push_str(&text);
                    since.get_or_insert_with(|| self.journal.stopwatch());
                }
                Some((other, usage)) => {
                    self.usage = usage;
                    self.next = Some(other);
                }
                None => {
                    let broken = "the answer broke off before its end".to_owned();
                    self.next = Some(Err(ModelError::Failed(broken)));
                }
            }
        }
    }

    /// Puts a piece on record, and gives it as it is there.
    fn piece(&mut self, chunk: ledger::LlmChunk) -> Result<ModelChunk, CallError> {
        let chunk = ledger::LlmChunk {
            call_id: Some(self.asked.asking.id.call_id.clone()),
            index: self.pieces,
            ..chunk
        };
        self.pieces = self.pieces.saturating_add(1);
        let recorder = &self.journal.recorder;
        let recorded = recorder.redacted(chunk.into());
        let recorded = recorded.map_err(|error| RecordRefused::Invalid {
            reason: chain(&error),
        });
        let recorded = recorded.and_then(|chunk| {
            let recorded = self.journal.record(Origin::Host, chunk.clone());
            recorded.map(|_seq| chunk)
        });
        match recorded {
            Ok(chunk) => self.journal.piece(&chunk),
            Err(RecordRefused::Invalid { reason }) => {
                self.is_over = true;
                let exhausted = format!("the answer cannot be recorded: {reason}");
                let exhausted = CallError::Exhausted(exhausted);
                Err(self.journal.unanswered(&self.asked, exhausted, &self.usage))
            }
            Err(refused) => Err(CallError::Unrecorded(refused)),
        }
    }

    async fn advance(&mut self) -> Result<Option<ModelChunk>, CallError> {
        if self.is_over {
            return Ok(None);
        }
        let journal = self.journal.clone();
        if let Err(cancelled) = journal.unless_cancelled(self.gather()).await {
            self.is_over = true;
            return Err(journal.unanswered(&self.asked, cancelled, &self.usage));
        }
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            let chunk = ledger::LlmChunk {
                delta: text.into(),
                ..ledger::LlmChunk::default()
            };
            return self.piece(chunk).map(Some);
        }
        match self.next.take() {
            Some(Ok(ModelChunk::Done(response))) => {
                self.is_over = true;
                let response = self.journal.answered(&self.asked, &response)?;
                Ok(Some(ModelChunk::Done(Box::new(response))))
            }
            Some(Ok(ModelChunk::ToolUse(tool))) => {
                let tool_use = model_json::tool_use(&tool).map_err(CallError::Failed)?;
                let chunk = ledger::LlmChunk {
                    tool_use: Some(tool_use),
                    ..ledger::LlmChunk::default()
                };
                self.piece(chunk).map(Some)
            }
            Some(Ok(text @ ModelChunk::Text(_))) => Ok(Some(text)),
            Some(Err(error)) => {
                self.is_over = true;
                Err(self
                    .journal
                    .unanswered(&self.asked, error.into(), &self.usage))
            }
            None => Ok(None),
        }
    }
}

impl ModelAnswer for Streaming {
    fn next(&mut self) -> Answer<'_, Option<ModelChunk>> {
        Box::pin(self.advance())
    }

    fn give_up(mut self: Box<Self>) -> Result<(), CallError> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        // What was read ahead took something too, though the guest never saw it.
        while let Ok((_unseen, usage)) = self.coming.try_recv() {
            self.usage = usage;
        }
        let given_up = CallError::Cancelled;
        match self.journal.unanswered(&self.asked, given_up, &self.usage) {
            CallError::Cancelled => Ok(()),
            error => Err(error),
        }
    }
}
