//! What a skill under test asked of the host.

use serde_json::Value;

use crate::approval::Question;
use crate::log::Level;
use crate::recorder::{Custom, Event};
use crate::session::{PermissionRequest, Update};
use crate::{SkillError, http, llm};

/// A result, and all that was asked of the host on the way to it.
#[derive(Debug)]
pub struct Record<T> {
    /// What the work gave.
    pub result: T,
    /// Everything in the order in which it was asked for.
    pub seen: Vec<Seen>,
}

/// One thing that was asked of the host.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A tool was called.
    ToolCall {
        /// Its name, as the skill spelled it.
        name: String,
        /// What it was given.
        arguments: Value,
    },
    /// A model was asked.
    ModelCall(llm::Request),
    /// A person was asked.
    Question(Question),
    /// Another skill was called.
    Handoff {
        /// Its name.
        skill: String,
        /// What it was given.
        input: Value,
    },
    /// An HTTP request was made.
    Http(http::Request),
    /// A line was logged.
    Log {
        /// How much it matters.
        level: Level,
        /// The line.
        message: String,
        /// Names and values beside it.
        fields: Vec<(String, String)>,
    },
    /// A step was entered.
    StepEnter {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
    },
    /// A step was left.
    StepExit {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
        /// How it went; a step that was dropped without an end has failed.
        success: bool,
    },
    /// An event of the skill's own was recorded.
    Event(Event),
    /// Whoever watches was told something.
    Update(Update),
    /// Whoever watches was asked to choose.
    Permission(PermissionRequest),
}

impl<T> Record<T> {
    /// The tools that were called, with their arguments.
    pub fn tool_calls(&self) -> Vec<(&str, &Value)> {
        self.pick(|seen| match seen {
            Seen::ToolCall { name, arguments } => Some((name.as_str(), arguments)),
            _ => None,
        })
    }

    /// What models were asked.
    pub fn model_calls(&self) -> Vec<&llm::Request> {
        self.pick(|seen| match seen {
            Seen::ModelCall(request) => Some(request),
            _ => None,
        })
    }

    /// What a person was asked.
    pub fn questions(&self) -> Vec<&Question> {
        self.pick(|seen| match seen {
            Seen::Question(question) => Some(question),
            _ => None,
        })
    }

    /// The skills that were called, with their inputs.
    pub fn handoffs(&self) -> Vec<(&str, &Value)> {
        self.pick(|seen| match seen {
            Seen::Handoff { skill, input } => Some((skill.as_str(), input)),
            _ => None,
        })
    }

    /// The HTTP requests that were made.
    pub fn http_requests(&self) -> Vec<&http::Request> {
        self.pick(|seen| match seen {
            Seen::Http(request) => Some(request),
            _ => None,
        })
    }

    /// The messages of the lines that were logged, whatever their level.
    pub fn log_messages(&self) -> Vec<&str> {
        self.pick(|seen| match seen {
            Seen::Log { message, .. } => Some(message.as_str()),
            _ => None,
        })
    }

    /// The names of the steps in the order in which they were left, and how each went.
    pub fn steps(&self) -> Vec<(&str, bool)> {
        self.pick(|seen| match seen {
            Seen::StepExit { name, success, .. } => Some((name.as_str(), *success)),
            _ => None,
        })
    }

    /// The `custom` events that were recorded.
    pub fn customs(&self) -> Vec<&Custom> {
        self.pick(|seen| match seen {
            Seen::Event(Event::Custom(custom)) => Some(custom),
            _ => None,
        })
    }

    /// What whoever watches was told.
    pub fn updates(&self) -> Vec<&Update> {
        self.pick(|seen| match seen {
            Seen::Update(update) => Some(update),
            _ => None,
        })
    }

    /// The answer: the chunks of text that were emitted, put together.
    pub fn text(&self) -> String {
        let texts = self
            .updates()
            .into_iter()
            .filter_map(|update| match update {
                Update::MessageChunk(text) => Some(text.as_str()),
                _ => None,
            });
        texts.collect()
    }

    /// The permissions that were asked for.
    pub fn permissions(&self) -> Vec<&PermissionRequest> {
        self.pick(|seen| match seen {
            Seen::Permission(request) => Some(request),
            _ => None,
        })
    }

    fn pick<'a, P>(&'a self, pick: impl Fn(&'a Seen) -> Option<P>) -> Vec<P> {
        self.seen.iter().filter_map(pick).collect()
    }
}

impl<T> Record<Result<T, SkillError>> {
    /// The code of the error with which the skill ended, if it did.
    pub fn error_code(&self) -> Option<&str> {
        self.result.as_ref().err().map(|error| error.code.as_str())
    }
}
