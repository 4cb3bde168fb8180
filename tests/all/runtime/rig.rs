//! A runtime over one backend, and whoever uses it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use skillrun::Skillrun;
use skillrun::config::Config;
use skillrun::runtime::{
    Backend, Event, EventKind, EventSubscription, Execution, ExecutionStatus, InProcess,
    LaunchSpec, NoModeTools, Runtime, RuntimeError, RuntimeOptions, Subprocess, TurnEnd,
    WasmRuntime, WorkerProgram,
};
use skillrun_test_artifacts::PROBE_AGENT;

use super::fake::{AnyAgent, Fake};
use crate::harness::Home;
use crate::tools::{hostile, python};

/// How long anything may take, on a machine that does much else.
const EVENTUALLY_MAX: Duration = Duration::from_secs(60);

/// How often a status is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Who carries executions out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The backend inside this process, with the agent of the tests.
    InProcess,
    /// A process for each execution, with the same agent.
    Subprocess,
    /// The same, but none of these processes tells how its execution ended.
    Mute,
    /// Nobody: what an agent would do is played.
    Fake,
}

/// The program as a worker on a home.
fn worker(home: &Home) -> WorkerProgram {
    WorkerProgram {
        program: env!("CARGO_BIN_EXE_skillrun").into(),
        arguments: vec!["--home".into(), home.path().into(), "agent-worker".into()],
        environment: Vec::new(),
    }
}

fn mute(home: &Home) -> WorkerProgram {
    let WorkerProgram {
        program, arguments, ..
    } = worker(home);
    let before = [script().into(), "mute".into(), program.into()];
    WorkerProgram {
        program: python(),
        arguments: before.into_iter().chain(arguments).collect(),
        environment: Vec::new(),
    }
}

/// What stands in for workers.
pub(super) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/runtime/worker.py")
}

/// A home, and a runtime on it.
pub(super) struct Rig {
    pub(super) kind: Kind,
    pub(super) home: Arc<Home>,
    pub(super) host: Skillrun,
    pub(super) runtime: WasmRuntime,
}

/// What of a runtime a test sets.
pub(super) struct Settings {
    pub(super) grace: Duration,
    pub(super) executions_max: usize,
    pub(super) retention: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(200),
            executions_max: 16,
            retention: Duration::from_secs(3_600),
        }
    }
}

impl Rig {
    pub(super) fn new(kind: Kind) -> Self {
        Self::with(kind, Settings::default())
    }

    pub(super) fn with(kind: Kind, settings: Settings) -> Self {
        let home = Self::home(kind);
        home.configure(
            "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"approval\"]\n",
        );
        Self::on(kind, Arc::new(home), settings)
    }

    /// With a server of tools that goes on when its input has ended.
    pub(super) fn with_server(kind: Kind, settings: Settings) -> Self {
        let home = Self::home(kind);
        let server = hostile(&home, "stays");
        home.configure(&format!(
            "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"tool:*\"]\n{server}"
        ));
        Self::on(kind, Arc::new(home), settings)
    }

    fn home(kind: Kind) -> Home {
        let guests: &[_] = match kind {
            Kind::Fake => &[],
            Kind::InProcess | Kind::Subprocess | Kind::Mute => &[PROBE_AGENT],
        };
        Home::new(guests)
    }

    /// Another process on the same home, as far as can be told from inside of one.
    pub(super) fn restarted(&self) -> Self {
        Self::on(self.kind, Arc::clone(&self.home), Settings::default())
    }

    fn on(kind: Kind, home: Arc<Home>, settings: Settings) -> Self {
        let config = Config::load(home.path()).unwrap();
        let workspaces_dir = config.workspaces_dir();
        let builder = Skillrun::builder(config);
        let host = match kind {
            Kind::Fake => builder.executor(Arc::new(AnyAgent)),
            Kind::InProcess | Kind::Subprocess | Kind::Mute => builder,
        };
        let host = host.build().unwrap();
        let runner = host.runner().clone();
        let backend: Arc<dyn Backend> = match kind {
            Kind::InProcess => Arc::new(InProcess::new(runner.clone())),
            Kind::Fake => Arc::new(Fake::new(host.store().clone())),
            Kind::Subprocess => Arc::new(Subprocess::new(worker(&home), runner.clone())),
            Kind::Mute => Arc::new(Subprocess::new(mute(&home), runner.clone())),
        };
        let runtime = WasmRuntime::new(RuntimeOptions {
            default_backend: backend.name().to_owned(),
            backends: vec![backend],
            runner,
            mode_tools: Arc::new(NoModeTools),
            workspaces_dir,
            workspaces: Vec::new(),
            executions_max: settings.executions_max,
            grace: settings.grace,
            retention: settings.retention,
        });
        Self {
            kind,
            home,
            host,
            runtime,
        }
    }

    pub(super) fn runtime(&self) -> &dyn Runtime {
        &self.runtime
    }

    /// The agent of the tests, and nothing else about it.
    pub(super) fn spec(&self) -> LaunchSpec {
        LaunchSpec {
            agent_profile_id: "probe-agent".to_owned(),
            ..LaunchSpec::default()
        }
    }

    /// The same with something in its metadata.
    pub(super) fn spec_with(&self, metadata: &Value) -> LaunchSpec {
        LaunchSpec {
            metadata: object(metadata),
            ..self.spec()
        }
    }

    /// Launches the agent and waits until it takes a prompt.
    pub(super) async fn ready(&self) -> String {
        self.ready_with(self.spec()).await
    }

    pub(super) async fn ready_with(&self, spec: LaunchSpec) -> String {
        let id = in_time(self.runtime().launch(spec))
            .await
            .unwrap()
            .id
            .to_string();
        self.until(&id, |kind| {
            matches!(kind, EventKind::BootReady | EventKind::Ready)
        })
        .await;
        id
    }

    pub(super) async fn turn(&self, id: &str, prompt: &str) -> TurnEnd {
        in_time(self.runtime().resume(id, prompt)).await.unwrap()
    }

    /// Sends a prompt in a task, and waits until its turn goes on.
    pub(super) async fn begin(
        &self,
        id: &str,
        prompt: &str,
    ) -> tokio::task::JoinHandle<Result<TurnEnd, RuntimeError>> {
        let before = self.look(id).await.prompt_generation;
        let (runtime, owned, prompt) = (self.runtime.clone(), id.to_owned(), prompt.to_owned());
        let waits = tokio::spawn(async move { runtime.resume(&owned, &prompt).await });
        let mut events = self.events(id).await;
        loop {
            let event = next(&mut events).await.expect("a turn that begins");
            let is_running = matches!(event.kind, EventKind::Running { .. });
            if is_running && event.prompt_generation > before {
                return waits;
            }
        }
    }

    pub(super) async fn look(&self, id: &str) -> Execution {
        in_time(self.runtime().get_execution(id)).await.unwrap()
    }

    pub(super) async fn status(&self, id: &str) -> ExecutionStatus {
        self.look(id).await.status
    }

    /// Waits for a status that no event tells of.
    pub(super) async fn until_status(&self, id: &str, status: ExecutionStatus) {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        let seen = async {
            while self.status(id).await != status {
                looks.tick().await;
            }
        };
        in_time(seen).await;
    }

    pub(super) async fn events(&self, id: &str) -> EventSubscription {
        in_time(self.runtime().subscribe_events(id, None))
            .await
            .unwrap()
    }

    /// The first event that is wanted.
    pub(super) async fn until(&self, id: &str, wanted: impl Fn(&EventKind) -> bool) -> Event {
        let mut events = self.events(id).await;
        until(&mut events, wanted).await
    }

    /// All events up to the last one.
    pub(super) async fn all(&self, id: &str) -> Vec<Event> {
        let mut events = self.events(id).await;
        rest(&mut events).await
    }

    pub(super) async fn stop(&self, id: &str) {
        in_time(self.runtime().stop(id, "enough")).await.unwrap();
    }
}

/// The next event; none after the last.
pub(super) async fn next(events: &mut EventSubscription) -> Option<Event> {
    in_time(events.next()).await.unwrap()
}

pub(super) async fn until(
    events: &mut EventSubscription,
    wanted: impl Fn(&EventKind) -> bool,
) -> Event {
    loop {
        let event = next(events).await.expect("an event that is wanted");
        if wanted(&event.kind) {
            return event;
        }
    }
}

pub(super) async fn rest(events: &mut EventSubscription) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = next(events).await {
        all.push(event);
    }
    all
}

/// What the agent said in a turn.
pub(super) fn text(events: &[Event], generation: u64) -> String {
    let of_it = events
        .iter()
        .filter(|event| event.prompt_generation == generation);
    of_it
        .filter_map(|event| match &event.kind {
            EventKind::MessageChunk { text } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

pub(super) fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).collect()
}

pub(super) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(super) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(EVENTUALLY_MAX, work).await;
    done.expect("it takes too long")
}
