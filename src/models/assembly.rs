//! An answer that is put together from its pieces, whichever wire format they came in.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::ModelError;
use super::prices::Tokens;
use crate::call::{ModelChunk, Part, StopReason, ToolUse};

/// Requests for tools in one answer. Protects whoever calls them.
const TOOL_USES_MAX: usize = 256;
/// Bytes of a model's name that are kept.
const MODEL_BYTES_MAX: usize = 256;

/// An answer so far.
#[derive(Default)]
pub(super) struct Assembly {
    parts: Vec<Piece>,
    ready: VecDeque<ModelChunk>,
    /// Pieces of text and arguments, each of which is at least one token.
    pieces: u64,
    model: String,
    stop_reason: Option<StopReason>,
    tokens: Option<Tokens>,
    /// Whether `tokens` is what the whole answer took.
    is_counted: bool,
}

/// An answer that is whole, without its price.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) content: Vec<Part>,
    pub(super) stop_reason: StopReason,
    pub(super) tokens: Tokens,
    pub(super) model: String,
}

enum Piece {
    Text(String),
    Tool {
        /// What the provider calls this part of the answer.
        key: u64,
        tool: ToolUse,
        is_whole: bool,
    },
}

impl Assembly {
    /// More text.
    pub(super) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.pieces += 1;
        match self.parts.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.parts.push(Piece::Text(text.to_owned())),
        }
        self.ready.push_back(ModelChunk::Text(text.to_owned()));
    }

    /// More of a request for a tool. Each of its pieces names it by the same key; one that has another
    /// id is another request, since some providers give all of them the same key.
    pub(super) fn tool(
        &mut self,
        key: u64,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> Result<(), ModelError> {
        self.pieces += 1;
        let known = self.parts.iter_mut().rev().find_map(|part| match part {
            Piece::Tool {
                key: its,
                tool,
                is_whole: false,
            } if *its == key => Some(tool),
            _ => None,
        });
        if let Some(tool) = known
            && (id.is_empty() || tool.id.is_empty() || tool.id == id)
        {
            if tool.id.is_empty() {
                id.clone_into(&mut tool.id);
            }
            if tool.name.is_empty() {
                name.clone_into(&mut tool.name);
            }
            tool.arguments.push_str(arguments);
            return Ok(());
        }
        let is_tool = |part: &&Piece| matches!(part, Piece::Tool { .. });
        if self.parts.iter().filter(is_tool).count() >= TOOL_USES_MAX {
            let problem = format!("more than {TOOL_USES_MAX} requests for tools in one answer");
            return Err(ModelError::Failed(problem));
        }
        self.parts.push(Piece::Tool {
            key,
            tool: ToolUse {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            },
            is_whole: false,
        });
        Ok(())
    }

    /// All requests for tools so far are whole.
    pub(super) fn finish_tools(&mut self) -> Result<(), ModelError> {
        for (index, part) in self.parts.iter_mut().enumerate() {
            let Piece::Tool { tool, is_whole, .. } = part else {
                continue;
            };
            if std::mem::replace(is_whole, true) {
                continue;
            }
            if tool.name.is_empty() {
                let problem = "request for a tool without a name".to_owned();
                return Err(ModelError::Failed(problem));
            }
            if tool.id.is_empty() {
                tool.id = format!("call_{index}");
            }
            // A tool without parameters is asked for with nothing at all by some.
            if tool.arguments.trim().is_empty() {
                "{}".clone_into(&mut tool.arguments);
            }
            if !is_object(&tool.arguments) {
                let problem = format!("arguments for {:?} are no JSON object", tool.name);
                return Err(ModelError::Failed(problem));
            }
            self.ready.push_back(ModelChunk::ToolUse(tool.clone()));
        }
        Ok(())
    }

    /// Who answers, as the provider names it.
    pub(super) fn model(&mut self, name: &str) {
        if self.model.is_empty() {
            let end = name.floor_char_boundary(MODEL_BYTES_MAX);
            self.model = name.get(..end).unwrap_or_default().to_owned();
        }
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.stop_reason = Some(reason);
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stop_reason.is_some()
    }

    pub(super) fn has_tools(&self) -> bool {
        let is_tool = |part: &Piece| matches!(part, Piece::Tool { .. });
        self.parts.iter().any(is_tool)
    }

    /// Whether a request for a tool of that key has begun and is not whole.
    pub(super) fn awaits_arguments(&self, key: u64) -> bool {
        let is_it = |part: &Piece| match part {
            Piece::Tool {
                key: its, is_whole, ..
            } => *its == key && !is_whole,
            Piece::Text(_) => false,
        };
        self.parts.iter().any(is_it)
    }

    /// What the answer took so far; `is_all` says that no more is to come.
    pub(super) fn took(&mut self, tokens: Tokens, is_all: bool) {
        self.tokens = Some(tokens);
        self.is_counted |= is_all;
    }

    /// What the provider said that it took so far.
    pub(super) fn said(&self) -> Option<Tokens> {
        self.tokens
    }

    /// What it has taken: what the provider said, and where it said nothing yet, what is known to have
    /// been taken at least, so that an answer that is given up is not free.
    pub(super) fn tokens(&self, request_tokens: u64) -> Tokens {
        match self.tokens {
            Some(tokens) if self.is_counted => tokens,
            Some(tokens) => Tokens {
                output: tokens.output.max(self.pieces),
                ..tokens
            },
            None => Tokens {
                input: request_tokens,
                output: self.pieces,
                ..Tokens::default()
            },
        }
    }

    /// The next chunk that can be handed over.
    pub(super) fn next(&mut self) -> Option<ModelChunk> {
        self.ready.pop_front()
    }

    /// The whole answer.
    pub(super) fn end(&mut self) -> Result<Answer, ModelError> {
        let Some(stop_reason) = self.stop_reason else {
            let problem = "answer broke off before its end".to_owned();
            return Err(ModelError::Failed(problem));
        };
        let Some(tokens) = self.tokens.filter(|_| self.is_counted) else {
            // It could not be counted, and a budget that nothing is counted for is none.
            let problem = "answer does not say how many tokens it took".to_owned();
            return Err(ModelError::Failed(problem));
        };
        self.finish_tools()?;
        let part = |piece| match piece {
            Piece::Text(text) => Part::Text(text),
            Piece::Tool { tool, .. } => Part::ToolUse(tool),
        };
        Ok(Answer {
            content: std::mem::take(&mut self.parts)
                .into_iter()
                .map(part)
                .collect(),
            stop_reason,
            tokens,
            model: std::mem::take(&mut self.model),
        })
    }
}

/// Whether a text is one JSON object.
pub(super) fn is_object(text: &str) -> bool {
    let parsed = serde_json::from_str::<&RawValue>(text);
    parsed.is_ok_and(|value| value.get().starts_with('{'))
}
