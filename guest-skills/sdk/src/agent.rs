//! Agents: components that are started once, prompted many times and keep what they know in memory.
//!
//! ```
//! use skillrun_sdk::agent::{Agent, Context, StopReason, agent};
//! use skillrun_sdk::llm::{self, Message, Request};
//! use skillrun_sdk::{SkillError, session};
//!
//! struct Talker {
//!     said: Vec<Message>,
//! }
//!
//! /// Talks.
//! #[agent(name = "talker")]
//! impl Agent for Talker {
//!     fn start(_context: Context) -> Result<Self, SkillError> {
//!         Ok(Self { said: Vec::new() })
//!     }
//!
//!     fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> {
//!         let mut request = Request::new("default");
//!         request.messages.clone_from(&self.said);
//!         request = request.user(text);
//!         let answer = llm::generate(&request)?;
//!         session::emit_text(&answer.text())?;
//!         self.said = request.messages;
//!         self.said.push(answer.into_message());
//!         Ok(StopReason::EndTurn)
//!     }
//! }
//!
//! // What follows belongs into a test; it needs the feature `mock`, as a dev-dependency has it.
//! use skillrun_sdk::mock::{Mock, MockSession};
//!
//! let mock = Mock::new().model(|request| Ok(format!("message {}", request.messages.len())));
//! let mut session = MockSession::<Talker>::start(&mock, Context::default()).unwrap();
//! assert_eq!(session.prompt("Hello").text(), "message 1");
//! let turn = session.prompt("And now?");
//! assert_eq!(turn.result, Ok(StopReason::EndTurn));
//! assert_eq!(turn.text(), "message 3");
//! ```

use std::cell::RefCell;
use std::io::Write;

use serde_json::Value;

pub use skillrun_sdk_macros::agent;

use crate::{Descriptor, HostError, SkillError};

/// The code of an error of an agent that is prompted before it was started, or after it has finished.
pub const NOT_STARTED: &str = "not_started";

/// An agent. [`#[agent]`](macro@agent) adds [`Agent::describe`] and exports it; an agent that describes itself
/// in another way is exported with [`export_agent!`](crate::export_agent).
///
/// What an agent knows is in its own fields. An execution that is taken up again is done again from its
/// record, prompt after prompt, so what is kept anywhere else may be different then.
pub trait Agent: Sized + 'static {
    /// Says what the agent is. No capability is granted here.
    fn describe() -> Descriptor;

    /// Called once, before the first prompt.
    ///
    /// # Errors
    /// The error ends the execution as failed.
    fn start(context: Context) -> Result<Self, SkillError>;

    /// One turn: everything between a prompt and the moment when the agent waits for the next one.
    ///
    /// While a turn is being cancelled, every call that waits for somebody answers [`HostError::Cancelled`]. An
    /// agent may end the turn with it by `?`, which is the same as [`StopReason::Cancelled`]. One that does not
    /// return in time is interrupted, and for the agent that turn never was.
    ///
    /// # Errors
    /// The error ends the turn. The agent is prompted again.
    fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError>;

    /// Called once on a graceful end, within a bounded time.
    fn finish(self) {}
}

/// Where and how an execution runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The session that the execution belongs to.
    pub session_id: String,
    /// Path of the workspace folder as the agent sees it, when there is one.
    pub workspace: Option<String>,
    /// The tool mode at the start: `task`, `config` or `office`.
    pub mode: String,
    /// What the launcher passed on: an object.
    pub metadata: Value,
}

impl Default for Context {
    /// A session in the mode `task`, without a workspace and without metadata, as a test may have it.
    fn default() -> Self {
        Self {
            session_id: "session".to_owned(),
            workspace: None,
            mode: "task".to_owned(),
            metadata: Value::Object(serde_json::Map::new()),
        }
    }
}

impl Context {
    /// The text under a key of the metadata, if there is one.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(Value::as_str)
    }

    /// The whole number under a key of the metadata, if there is one that is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.metadata.get(key).and_then(Value::as_u64)
    }
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The agent is done and waits for the next prompt.
    EndTurn,
    /// There were no tokens left.
    TokenLimit,
    /// It would not answer.
    Refusal,
    /// The turn was cancelled.
    Cancelled,
}

/// The life of an agent, as the host drives it: started, prompted, finished. It is part of what
/// [`export_agent!`](crate::export_agent) makes.
#[derive(Debug)]
pub struct Lifecycle<A>(RefCell<Option<A>>);

impl<A> Lifecycle<A> {
    /// An agent that was not started.
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }
}

impl<A> Default for Lifecycle<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Agent> Lifecycle<A> {
    /// Starts the agent.
    ///
    /// # Errors
    /// The agent's own.
    pub fn start(&self, context: Context) -> Result<(), SkillError> {
        let started = A::start(context);
        flush();
        self.0.replace(Some(started?));
        Ok(())
    }

    /// Prompts it. An error with the code of [`HostError::Cancelled`] is a turn that was cancelled.
    ///
    /// # Errors
    /// The agent's own, or it was not started ([`NOT_STARTED`]).
    pub fn prompt(&self, text: &str) -> Result<StopReason, SkillError> {
        let ended = match self.0.borrow_mut().as_mut() {
            Some(agent) => agent.prompt(text),
            None => Err(SkillError::new("the agent was not started").with_code(NOT_STARTED)),
        };
        flush();
        match ended {
            Err(error) if error.code == HostError::Cancelled.kind() => Ok(StopReason::Cancelled),
            ended => ended,
        }
    }

    /// Finishes it, if it was started. It cannot be prompted any more.
    pub fn finish(&self) {
        let agent = self.0.take();
        if let Some(agent) = agent {
            agent.finish();
        }
        flush();
    }
}

/// A last line without a break stays in the buffer otherwise, and would be read with the next turn.
fn flush() {
    // Where nobody reads it there is nothing to be told.
    let _unread = std::io::stdout().flush();
}

/// Makes a type that implements [`Agent`] the agent of this component. Once per crate, and not beside a skill;
/// off wasm nothing is exported. [`#[agent]`](macro@agent) does it by itself.
#[macro_export]
macro_rules! export_agent {
    ($agent:ty) => {
        // Off wasm this is the only use of an agent that has no tests.
        #[cfg(not(target_family = "wasm"))]
        const _: (
            fn() -> $crate::Descriptor,
            fn(&$crate::agent::Lifecycle<$agent>, &str) -> $crate::expansion::Turn,
        ) = (
            <$agent as $crate::agent::Agent>::describe,
            $crate::agent::Lifecycle::<$agent>::prompt,
        );

        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::agent_bindings::exports::skillrun::skill::session_handler as exported;

            ::std::thread_local! {
                static AGENT: $crate::agent::Lifecycle<$agent> =
                    const { $crate::agent::Lifecycle::new() };
            }

            struct Exported;

            impl exported::Guest for Exported {
                fn describe() -> exported::Descriptor {
                    <$agent as $crate::agent::Agent>::describe().into()
                }

                fn start(
                    context: exported::Context,
                ) -> ::core::result::Result<(), exported::SkillError> {
                    AGENT.with(|agent| $crate::expansion::start(agent, context))
                }

                fn prompt(
                    text: ::std::string::String,
                ) -> ::core::result::Result<exported::StopReason, exported::SkillError> {
                    AGENT.with(|agent| $crate::expansion::prompt(agent, &text))
                }

                fn finish() {
                    AGENT.with($crate::agent::Lifecycle::finish);
                }
            }

    $crate::agent_bindings::export!(Exported with_types_in $crate::agent_bindings);
        };
    };
}
