//! An agent that is driven by a test.

use super::{Mock, Record};
use crate::SkillError;
use crate::agent::{Agent, Context, Lifecycle, StopReason};

/// An execution of an agent under test: the agent lives as long as this, and each turn is a [`Record`].
pub struct MockSession<A> {
    mock: Mock,
    agent: Lifecycle<A>,
}

impl<A: Agent> MockSession<A> {
    /// Starts the agent with this mock as its host.
    ///
    /// # Errors
    /// The agent's own.
    ///
    /// # Panics
    /// The agent makes a call that is not mocked.
    pub fn start(mock: &Mock, context: Context) -> Result<Self, SkillError> {
        let session = Self {
            mock: mock.clone(),
            agent: Lifecycle::new(),
        };
        let started = session.mock.run(|| session.agent.start(context)).result;
        started.map(|()| session)
    }

    /// Prompts the agent. [`Record::text`] of what comes back is its answer.
    ///
    /// # Panics
    /// The agent makes a call that is not mocked.
    pub fn prompt(&mut self, text: &str) -> Record<Result<StopReason, SkillError>> {
        self.mock.run(|| self.agent.prompt(text))
    }

    /// Takes another mock for what comes next, as when the tools of an execution change.
    pub fn set_mock(&mut self, mock: &Mock) {
        self.mock = mock.clone();
    }

    /// Finishes the agent.
    ///
    /// # Panics
    /// The agent makes a call that is not mocked.
    pub fn finish(self) -> Record<()> {
        self.mock.run(|| self.agent.finish())
    }
}

#[cfg(test)]
mod tests;
