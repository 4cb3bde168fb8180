use super::events::EventReader;
use super::remote::AnswerStream;
use super::{ModelError, anthropic, openai};
use crate::call::{ModelChunk, ModelResponse};
use crate::config::ModelApi;

/// The answer that the body of a response is, at no price. It has the length that it has: whoever reads
/// it bounds it.
///
/// # Errors
/// It is no answer, says that there is none, or does not say what it took.
pub fn parse_answer(api: ModelApi, body: &[u8]) -> Result<ModelResponse, ModelError> {
    let answer = match api {
        ModelApi::Openai => openai::whole(body)?,
        ModelApi::Anthropic => anthropic::whole(body)?,
    };
    Ok(ModelResponse {
        content: answer.content,
        stop_reason: answer.stop_reason,
        usage: answer.tokens.priced(None),
        model: answer.model,
    })
}

/// The chunks that the body of a streamed response is, at no price. It does not matter where the pieces
/// begin and end.
///
/// # Errors
/// It breaks off, is no answer, says that there is none, or does not say what it took.
pub fn parse_stream<'p>(
    api: ModelApi,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<Vec<ModelChunk>, ModelError> {
    let mut events = EventReader::new();
    let mut stream = AnswerStream::of(api);
    let mut chunks = Vec::new();
    let mut is_over = false;
    for piece in pieces {
        events.push(piece);
        while !is_over && let Some(event) = events.next()? {
            is_over = stream.take(&event)?;
            chunks.extend(std::iter::from_fn(|| stream.assembly().next()));
        }
    }
    let answer = stream.assembly().end()?;
    chunks.extend(std::iter::from_fn(|| stream.assembly().next()));
    chunks.push(ModelChunk::Done(Box::new(ModelResponse {
        content: answer.content,
        stop_reason: answer.stop_reason,
        usage: answer.tokens.priced(None),
        model: answer.model,
    })));
    Ok(chunks)
}
