//! A host for tests: with the feature `mock`, and on no target but that of the test itself, every call of
//! this crate goes to the [`Mock`] that the test runs in. So `cargo test` needs no wasm target, no model
//! and no network.
//!
//! ```
//! use serde_json::json;
//! use skillrun_sdk::mock::Mock;
//! use skillrun_sdk::{SkillError, approval, log, tools};
//!
//! fn close(ticket: &str) -> Result<(), SkillError> {
//!     approval::require("Close it?", &json!({ "id": ticket }))?;
//!     tools::invoke("tickets__close", &json!({ "id": ticket }))?.check()?;
//!     log::info("closed");
//!     Ok(())
//! }
//!
//! let mock = Mock::new().approve(true).tool("tickets__close", |_arguments| Ok("done"));
//! let record = mock.run(|| close("T-1"));
//! assert_eq!(record.result, Ok(()));
//! assert_eq!(record.tool_calls(), [("tickets__close", &json!({ "id": "T-1" }))]);
//! assert_eq!(record.log_messages(), ["closed"]);
//!
//! let record = Mock::new().approve(false).run(|| close("T-1"));
//! assert_eq!(record.error_code(), Some("rejected"));
//! ```
//!
//! A call that the test did not prepare panics, and says what to add: an error could be taken by the skill
//! for one of the host's.

mod active;
mod record;
mod session;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

pub(crate) use active::{Active, current, with};
pub use record::{Record, Seen};
pub use session::MockSession;

use crate::approval::{Decision, Question};
use crate::session::{PermissionRequest, Update};
use crate::tools::{Answer, Tool};
use crate::{HostError, Skill, SkillError, http, llm, run_json};

/// How a mocked tool or skill answers.
type Respond<A, R> = Rc<dyn Fn(&A) -> R>;

/// What the host answers to a skill under test, and what a run is said to be.
#[derive(Clone)]
pub struct Mock {
    pub(crate) tools: BTreeMap<String, Respond<Value, Result<Answer, HostError>>>,
    pub(crate) available: Option<Vec<Tool>>,
    pub(crate) model: Option<Respond<llm::Request, Result<llm::Response, HostError>>>,
    pub(crate) decide: Option<Respond<Question, Decision>>,
    pub(crate) skills: BTreeMap<String, Respond<Value, Result<Value, HostError>>>,
    pub(crate) http: Option<Respond<http::Request, Result<http::Response, http::Error>>>,
    pub(crate) broken_stream: Option<(usize, HostError)>,
    pub(crate) may_emit: Option<Respond<Update, Result<(), HostError>>>,
    pub(crate) choose: Option<Respond<PermissionRequest, Result<String, HostError>>>,
    pub(crate) run_id: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) skill_name: String,
    pub(crate) skill_body: String,
    pub(crate) remaining_ms: u32,
    pub(crate) attempt: u32,
}

impl Default for Mock {
    fn default() -> Self {
        Self {
            tools: BTreeMap::new(),
            available: None,
            model: None,
            decide: None,
            skills: BTreeMap::new(),
            http: None,
            broken_stream: None,
            may_emit: None,
            choose: None,
            run_id: format!("run_{:032x}", 1),
            parent_id: None,
            skill_name: "skill".to_owned(),
            skill_body: String::new(),
            remaining_ms: 60_000,
            attempt: 1,
        }
    }
}

impl Mock {
    /// A host that offers nothing: a first run, without a parent, with 60 s left.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers calls of a tool, by its full name. A text or a JSON value becomes an answer with one block
    /// of text; [`Answer::error`] is one with which the tool says that it failed.
    #[must_use]
    pub fn tool<A: Into<Answer>>(
        mut self,
        name: &str,
        respond: impl Fn(&Value) -> Result<A, HostError> + 'static,
    ) -> Self {
        let respond = move |arguments: &Value| respond(arguments).map(Into::into);
        self.tools.insert(name.to_owned(), Rc::new(respond));
        self
    }

    /// Sets what [`tools::available`](crate::tools::available) gives; without it, the mocked tools, each
    /// without a description and with the schema of any object.
    #[must_use]
    pub fn available(mut self, tools: Vec<Tool>) -> Self {
        self.available = Some(tools);
        self
    }

    /// Answers questions to models. A text or a JSON value becomes an answer that cost nothing. Streamed,
    /// its text comes word by word.
    #[must_use]
    pub fn model<R: Into<llm::Response>>(
        mut self,
        respond: impl Fn(&llm::Request) -> Result<R, HostError> + 'static,
    ) -> Self {
        let respond = move |request: &llm::Request| respond(request).map(Into::into);
        self.model = Some(Rc::new(respond));
        self
    }

    /// Breaks streamed answers off after so many chunks: the next step of the stream is the error. An answer with no
    /// more chunks than that is whole.
    #[must_use]
    pub fn broken_stream(mut self, after_chunks: usize, error: HostError) -> Self {
        self.broken_stream = Some((after_chunks, error));
        self
    }

    /// Says what becomes of what an agent tells; without it, all of it is taken.
    #[must_use]
    pub fn emit(mut self, may_emit: impl Fn(&Update) -> Result<(), HostError> + 'static) -> Self {
        self.may_emit = Some(Rc::new(may_emit));
        self
    }

    /// Answers permission requests with the id of an option.
    #[must_use]
    pub fn permission<I: Into<String>>(
        mut self,
        choose: impl Fn(&PermissionRequest) -> Result<I, HostError> + 'static,
    ) -> Self {
        let choose = move |request: &PermissionRequest| choose(request).map(Into::into);
        self.choose = Some(Rc::new(choose));
        self
    }

    /// Answers every question to a person with yes or no.
    #[must_use]
    pub fn approve(self, approved: bool) -> Self {
        self.decide(move |_question| Decision::new(approved))
    }

    /// Answers questions to a person.
    #[must_use]
    pub fn decide(mut self, decide: impl Fn(&Question) -> Decision + 'static) -> Self {
        self.decide = Some(Rc::new(decide));
        self
    }

    /// Answers calls of another skill. A skill that fails is a [`HostError::Failed`] with its message.
    #[must_use]
    pub fn skill(
        mut self,
        name: &str,
        respond: impl Fn(&Value) -> Result<Value, HostError> + 'static,
    ) -> Self {
        self.skills.insert(name.to_owned(), Rc::new(respond));
        self
    }

    /// Answers HTTP requests.
    #[must_use]
    pub fn http(
        mut self,
        respond: impl Fn(&http::Request) -> Result<http::Response, http::Error> + 'static,
    ) -> Self {
        self.http = Some(Rc::new(respond));
        self
    }

    /// Sets the run's id.
    #[must_use]
    pub fn run_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.run_id);
        self
    }

    /// Sets the id of the run that handed work to this one.
    #[must_use]
    pub fn parent_id(mut self, id: &str) -> Self {
        self.parent_id = Some(id.to_owned());
        self
    }

    /// Sets the name under which the skill is called.
    #[must_use]
    pub fn skill_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.skill_name);
        self
    }

    /// Sets the text below the front matter of SKILL.md.
    #[must_use]
    pub fn skill_body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.skill_body);
        self
    }

    /// Sets the time that is left, in milliseconds.
    #[must_use]
    pub fn remaining_ms(mut self, remaining_ms: u32) -> Self {
        self.remaining_ms = remaining_ms;
        self
    }

    /// Sets which attempt this is, counted from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Does `work` with this mock as its host, on this thread, and gives its result with all that it
    /// asked of the host.
    ///
    /// # Panics
    /// The work makes a call that is not mocked.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Record<T> {
        let active = Rc::new(Active::new(self.clone()));
        let result = active::enter(&active, work);
        Record {
            result,
            seen: active.take_seen(),
        }
    }

    /// Runs a skill as the host does: the input is parsed first, and the result is JSON. A type that
    /// [`skill`](macro@crate::skill) made has the name of the skill: `FanOut` for `fan-out`.
    ///
    /// # Panics
    /// The skill makes a call that is not mocked.
    pub fn run_skill<S: Skill>(&self, input: &Value) -> Record<Result<Value, SkillError>> {
        self.run(|| {
            let output = run_json::<S>(&input.to_string())?;
            serde_json::from_str(&output).map_err(|error| SkillError::new(error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests;
