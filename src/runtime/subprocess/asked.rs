//! What the tools of an execution in a process of its own ask of the process that has all executions: its children,
//! skills and limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::frame::FromWorker;
use crate::capability::{Capability, Policy, SkillName};
use crate::id::ExecutionId;
use crate::runtime::mode::Mode;
use crate::runtime::modes::{
    Child, ChildSpec, ChildStopped, ChildTurn, Children, ModeParts, Refusal, RefusalCode, Settings,
    SettingsRequest,
};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Ask {
    /// Launch a child.
    Launch {
        /// Which.
        spec: ChildSpec,
    },
    /// Send a prompt to a child and wait for its turn.
    Prompt {
        /// The child.
        child: String,
        /// What it is told.
        text: String,
    },
    /// Stop a child.
    Stop {
        /// The child.
        child: String,
        /// Why.
        reason: String,
    },
    /// Which children there are.
    List,
    /// Something about skills and limits.
    Settings {
        /// What.
        request: SettingsRequest,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Told {
    /// A child was launched.
    Launched {
        /// Which.
        child: Child,
    },
    /// A turn of a child ended.
    Turn {
        /// How.
        turn: ChildTurn,
    },
    /// A child was stopped.
    Stopped {
        /// How it ended.
        stopped: ChildStopped,
    },
    /// The children.
    Children {
        /// These.
        children: Vec<Child>,
    },
    /// What was asked about skills and limits.
    Settings {
        /// The answer.
        value: Value,
    },
    /// It was no use.
    Refused {
        /// Why.
        refusal: Refusal,
    },
}

/// What an execution may ask for, as this process knows it. Its worker has checked that before, and may be one that
/// its agent broke out into.
#[derive(Clone)]
pub(super) struct Rights {
    pub(super) policy: Arc<Policy>,
    /// The mode of its tools.
    pub(super) mode: String,
}

impl Rights {
    /// # Errors
    /// No tool of the mode asks for that, or the policy does not allow it.
    fn check(&self, ask: &Ask) -> Result<(), Refusal> {
        let denied = |problem: String| Err(Refusal::new(RefusalCode::Denied, problem));
        let mode = match ask {
            Ask::Settings { .. } => Mode::Config,
            Ask::Launch { .. } | Ask::Prompt { .. } | Ask::Stop { .. } | Ask::List => Mode::Task,
        };
        if self.mode != mode.as_str() {
            return denied(format!("the execution is not in the mode {mode}"));
        }
        let Ask::Launch { spec } = ask else {
            return Ok(());
        };
        spec.check()?;
        let name = spec.agent.parse::<SkillName>().ok();
        match name.filter(|name| self.policy.holds(&Capability::Skill { name: name.clone() })) {
            Some(_) => Ok(()),
            None => denied("the policy does not allow to launch this agent".to_owned()),
        }
    }
}

/// Does what is asked for the execution `parent`, if that has the right to.
pub(super) async fn carry_out(
    parts: Option<&ModeParts>,
    parent: &ExecutionId,
    rights: &Rights,
    ask: Ask,
) -> Told {
    if let Err(refusal) = rights.check(&ask) {
        return Told::Refused { refusal };
    }
    let Some(parts) = parts else {
        let refusal = Refusal::new(RefusalCode::Failed, "this process offers nothing of that");
        return Told::Refused { refusal };
    };
    let children = &parts.children;
    let told = match ask {
        Ask::Launch { spec } => {
            let launched = children.launch(parent, spec).await;
            launched.map(|child| Told::Launched { child })
        }
        Ask::Prompt { child, text } => {
            let turn = children.prompt(parent, &child, &text).await;
            turn.map(|turn| Told::Turn { turn })
        }
        Ask::Stop { child, reason } => {
            let stopped = children.stop(parent, &child, &reason).await;
            stopped.map(|stopped| Told::Stopped { stopped })
        }
        Ask::List => {
            let listed = children.list(parent).await;
            listed.map(|children| Told::Children { children })
        }
        Ask::Settings { request } => {
            let carried_out = parts.settings.carry_out(request).await;
            carried_out.map(|value| Told::Settings { value })
        }
    };
    told.unwrap_or_else(|refusal| Told::Refused { refusal })
}

/// The other side: asks, by frames, and waits.
pub(super) struct Asking {
    frames: mpsc::Sender<FromWorker>,
    waiting: Arc<Waiting>,
}

/// Who waits for an answer, by the number of what was asked.
#[derive(Default)]
pub(super) struct Waiting(Mutex<(u64, HashMap<u64, oneshot::Sender<Told>>)>);

impl Waiting {
    fn state(&self) -> MutexGuard<'_, (u64, HashMap<u64, oneshot::Sender<Told>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an answer to whoever waits for it.
    pub(super) fn answer(&self, number: u64, told: Told) {
        let waiter = self.state().1.remove(&number);
        // Whoever asked may not wait any more.
        let _told = waiter.map(|waiter| waiter.send(told));
    }
}

/// Something that was asked. If it is dropped before there is an answer, it is taken back.
struct Asked {
    number: u64,
    frames: mpsc::Sender<FromWorker>,
    waiting: Arc<Waiting>,
    answer: oneshot::Receiver<Told>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.waiting.state().1.remove(&self.number).is_some() {
            let number = self.number;
            // Without room for it, the end of the execution takes it back.
            let _taken_back = self.frames.try_send(FromWorker::TakeBack { number });
        }
    }
}

impl Asking {
    pub(super) fn new(frames: mpsc::Sender<FromWorker>, waiting: Arc<Waiting>) -> Self {
        Self { frames, waiting }
    }

    async fn ask(&self, ask: Ask) -> Result<Told, Refusal> {
        let gone = || Refusal::new(RefusalCode::Failed, "nobody is there to be asked");
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting.state();
            waiting.0 += 1;
            let number = waiting.0;
            waiting.1.insert(number, sender);
            number
        };
        let mut asked = Asked {
            number,
            frames: self.frames.clone(),
            waiting: Arc::clone(&self.waiting),
            answer,
        };
        let frame = FromWorker::Ask { number, ask };
        self.frames.send(frame).await.map_err(|_gone| gone())?;
        match (&mut asked.answer).await {
            Ok(Told::Refused { refusal }) => Err(refusal),
            Ok(told) => Ok(told),
            Err(_gone) => Err(gone()),
        }
    }
}

fn other() -> Refusal {
    Refusal::new(RefusalCode::Failed, "something else was answered")
}

#[async_trait]
impl Children for Asking {
    async fn launch(&self, _parent: &ExecutionId, spec: ChildSpec) -> Result<Child, Refusal> {
        match self.ask(Ask::Launch { spec }).await? {
            Told::Launched { child } => Ok(child),
            _ => Err(other()),
        }
    }

    async fn prompt(
        &self,
        _parent: &ExecutionId,
        child: &str,
        text: &str,
    ) -> Result<ChildTurn, Refusal> {
        let (child, text) = (child.to_owned(), text.to_owned());
        match self.ask(Ask::Prompt { child, text }).await? {
            Told::Turn { turn } => Ok(turn),
            _ => Err(other()),
        }
    }

    async fn stop(
        &self,
        _parent: &ExecutionId,
        child: &str,
        reason: &str,
    ) -> Result<ChildStopped, Refusal> {
        let (child, reason) = (child.to_owned(), reason.to_owned());
        match self.ask(Ask::Stop { child, reason }).await? {
            Told::Stopped { stopped } => Ok(stopped),
            _ => Err(other()),
        }
    }

    async fn list(&self, _parent: &ExecutionId) -> Result<Vec<Child>, Refusal> {
        match self.ask(Ask::List).await? {
            Told::Children { children } => Ok(children),
            _ => Err(other()),
        }
    }
}

#[async_trait]
impl Settings for Asking {
    async fn carry_out(&self, request: SettingsRequest) -> Result<Value, Refusal> {
        match self.ask(Ask::Settings { request }).await? {
            Told::Settings { value } => Ok(value),
            _ => Err(other()),
        }
    }
}
