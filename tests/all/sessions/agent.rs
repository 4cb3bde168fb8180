//! The agent of the tests in an execution, driven as a backend drives it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun::id::{ExecutionId, RunId};
use skillrun::ledger::{Json, SessionFacts};
use skillrun::runner::{
    Caller, JsonObject, ResumeOptions, RunError, RunHandle, RunOutcome, Runner, Session,
    SessionObserver, SessionOptions, SessionSignal, StartOptions, ToolSurface, TurnEnd,
};
use skillrun_test_artifacts::PROBE_AGENT;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::harness::Home;
use crate::resume::library::{Parts, runner_in};

/// What an agent that listens needs on no machine.
const GRACE: Duration = Duration::from_secs(60);
/// For one that does not, so that it is interrupted soon.
const GRACE_SHORT: Duration = Duration::from_millis(100);
/// How long anything may take, on a machine that does much else.
const EVENTUALLY_MAX: Duration = Duration::from_secs(60);

struct Told(UnboundedSender<SessionSignal>);

impl SessionObserver for Told {
    fn signal(&self, signal: SessionSignal) {
        // Whoever watched may be gone.
        let _told = self.0.send(signal);
    }
}

/// A home with the agent in it.
pub(super) struct Agents {
    pub(super) home: Home,
    agent: &'static str,
    grace: Duration,
}

/// An execution that goes on.
pub(super) struct Live {
    pub(super) session: Session,
    pub(super) run_id: RunId,
    pub(super) handle: RunHandle,
    signals: UnboundedReceiver<SessionSignal>,
    generation: u64,
}

impl Agents {
    pub(super) fn new(more: &str) -> Self {
        Self::of("probe-agent", Home::new(&[PROBE_AGENT]), more)
    }

    /// With another agent, which is in the home.
    pub(super) fn of(agent: &'static str, home: Home, more: &str) -> Self {
        home.configure(&format!(
            "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"approval\", \"llm:local/*\", \"tool:*\"]\n{more}\n"
        ));
        Self {
            home,
            agent,
            grace: GRACE,
        }
    }

    /// Interrupts soon what does not end by itself.
    pub(super) fn with_short_grace(self) -> Self {
        Self {
            grace: GRACE_SHORT,
            ..self
        }
    }

    pub(super) fn runner(&self, parts: Parts) -> Runner {
        runner_in(self.home.path(), parts)
    }

    /// Launches the agent and waits until it is ready.
    pub(super) async fn launch(&self, runner: &Runner, metadata: &Value) -> Live {
        let mut live = self.launched(runner, metadata).await;
        assert_eq!(live.booted().await, 0);
        live
    }

    /// Launches the agent.
    pub(super) async fn launched(&self, runner: &Runner, metadata: &Value) -> Live {
        let run_id = RunId::generate();
        let (session, signals) = self.session(&run_id, 1);
        let metadata = JsonObject::parse(metadata.to_string()).unwrap();
        let mut options = StartOptions::new(self.agent, metadata);
        options.run_id = Some(run_id.clone());
        options.session = Some(session.clone());
        let started = runner.start(Caller::new(), options).await.unwrap();
        Live {
            session,
            run_id,
            handle: started.handle,
            signals,
            generation: 0,
        }
    }

    /// Takes the ledger of an execution up.
    pub(super) async fn taken_up(&self, runner: &Runner, run_id: &RunId, part: u32) -> Live {
        let (session, signals) = self.session(run_id, part);
        let options = ResumeOptions {
            session: Some(session.clone()),
            ..ResumeOptions::default()
        };
        let started = runner.start_resume(Caller::new(), run_id, options);
        Live {
            session,
            run_id: run_id.clone(),
            handle: started.await.unwrap().handle,
            signals,
            generation: 0,
        }
    }

    pub(super) fn payloads(&self, run_id: &RunId, kind: &str) -> Vec<Value> {
        let events = self.home.events_of(run_id.as_str(), kind);
        let payloads = events.into_iter();
        payloads.map(|mut event| event["payload"].take()).collect()
    }

    /// What the agent said, chunk by chunk.
    pub(super) fn said(&self, run_id: &RunId) -> Vec<String> {
        let told = self.payloads(run_id, "session_update").into_iter();
        let chunks = told.filter(|told| told["kind"] == "message_chunk");
        chunks
            .map(|chunk| chunk["text"].as_str().unwrap().to_owned())
            .collect()
    }

    fn session(&self, run_id: &RunId, part: u32) -> (Session, UnboundedReceiver<SessionSignal>) {
        let (told, signals) = unbounded_channel();
        let session = Session::new(SessionOptions {
            facts: SessionFacts {
                execution_id: ExecutionId::new(run_id, part).unwrap(),
                session_id: "s1".to_owned(),
                task_id: None,
                agent_profile_id: "probe-agent".to_owned(),
                executor_id: "test".to_owned(),
                workspace_path: None,
                repository_id: None,
                is_ephemeral: false,
                mcp_mode: "task".to_owned(),
                parent_execution_id: None,
                metadata: Json::parse("{}").unwrap(),
            },
            surface: ToolSurface {
                mode: "task".to_owned(),
                ..ToolSurface::default()
            },
            grace: self.grace,
            observer: Arc::new(Told(told)),
        });
        (session, signals)
    }

    #[track_caller]
    pub(super) fn verifies(&self, run_id: &RunId) {
        let verified = self.home.skillrun(&["runs", "verify", run_id.as_str()]);
        assert_eq!(verified.exit, Some(0), "{verified:?}");
    }

    #[track_caller]
    pub(super) fn replays(&self, run_id: &RunId) {
        let replayed = self.home.skillrun(&["runs", "replay", run_id.as_str()]);
        assert_eq!(replayed.exit, Some(0), "{replayed:?}");
    }
}

impl Live {
    pub(super) async fn signal(&mut self) -> SessionSignal {
        let signal = tokio::time::timeout(EVENTUALLY_MAX, self.signals.recv()).await;
        signal.expect("a signal in time").expect("a signal")
    }

    /// The number of the newest prompt, when the agent takes one for the first time.
    pub(super) async fn booted(&mut self) -> u64 {
        let signal = self.signal().await;
        let SessionSignal::Booted { generation, .. } = signal else {
            panic!("{signal:?}");
        };
        self.generation = generation;
        generation
    }

    /// Begins a turn.
    pub(super) async fn begin(&mut self, prompt: &str) -> u64 {
        self.generation += 1;
        self.session
            .prompt(self.generation, prompt.to_owned())
            .unwrap();
        let signal = self.signal().await;
        let begun = matches!(&signal, SessionSignal::TurnBegun { generation, .. } if *generation == self.generation);
        assert!(begun, "{signal:?}");
        self.generation
    }

    /// The end of the turn that goes on.
    pub(super) async fn ended(&mut self) -> TurnEnd {
        let signal = self.signal().await;
        let SessionSignal::TurnEnded { turn, .. } = signal else {
            panic!("{signal:?}");
        };
        turn
    }

    /// The end of the turn that goes on, and that the agent takes the next prompt.
    pub(super) async fn ready(&mut self) -> TurnEnd {
        let turn = self.ended().await;
        let signal = self.signal().await;
        assert!(matches!(signal, SessionSignal::Ready { .. }), "{signal:?}");
        turn
    }

    /// A whole turn.
    pub(super) async fn turn(&mut self, prompt: &str) -> TurnEnd {
        self.begin(prompt).await;
        self.ready().await
    }

    /// Lets it finish, and gives its end.
    pub(super) async fn finish(self, reason: &str) -> Result<RunOutcome, RunError> {
        self.session.finish(reason);
        self.end().await
    }

    pub(super) async fn end(self) -> Result<RunOutcome, RunError> {
        let ended = tokio::time::timeout(EVENTUALLY_MAX, self.handle.wait()).await;
        ended.expect("an end in time")
    }
}

/// Nothing about the launch.
pub(super) fn plain() -> Value {
    json!({})
}
