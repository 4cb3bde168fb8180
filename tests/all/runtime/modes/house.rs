//! A home with an agent in it, and a process that works on it.

use serde_json::Value;
use skillrun::assembly::Skillrun;
use skillrun::config::Config;
use skillrun::id::RunId;
use skillrun::ledger::{ApprovalDecision, ApprovalSource};
use skillrun::runner::TurnEnd;
use skillrun::runtime::{ExecutionStatus, LaunchSpec, Runtime as _, RuntimeError, WorkerProgram};
use skillrun_test_artifacts::{GREET, PROBE, PROBE_AGENT};
use tokio::task::JoinHandle;

use crate::harness::Home;
use crate::resume::library::eventually;

/// What the agent asks for.
const MANIFEST: &str = r#"
[component]
world = "0.1"
[capabilities]
request = ["tool:*", "skill:greet", "skill:probe", "skill:probe-agent"]
"#;

/// All of that.
pub(super) const EVERYTHING: &str =
    r#""tool:*", "skill:greet", "skill:probe", "skill:probe-agent", "approval""#;

pub(super) struct House {
    pub(super) home: Home,
    grants: &'static str,
}

impl House {
    /// A home in which this is granted to everyone.
    pub(super) fn new(grants: &'static str) -> Self {
        let home = Home::new(&[PROBE_AGENT, GREET, PROBE]);
        home.write_manifest("probe-agent", MANIFEST);
        home.write_manifest(
            "probe",
            "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"approval\"]\n",
        );
        let house = Self { home, grants };
        house.configure("");
        house
    }

    pub(super) fn configure(&self, more: &str) {
        let grants = self.grants;
        self.home.configure(&format!(
            "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [{grants}]\n[runs]\nat_once_max = 4\nnested_max = 12\n[runtime]\nexecutions_max = 24\n{more}"
        ));
    }

    /// As a process of its own would work on it.
    pub(super) fn process(&self) -> Skillrun {
        let config = Config::load(self.home.path()).unwrap();
        let built = Skillrun::builder(config).watch_skills().build();
        built.unwrap()
    }

    /// The same, with processes of this program for executions that ask for one.
    pub(super) fn process_with_worker(&self, worker: WorkerProgram) -> Skillrun {
        let config = Config::load(self.home.path()).unwrap();
        let built = Skillrun::builder(config).worker(worker).build();
        built.unwrap()
    }

    pub(super) async fn launch<'h>(&'h self, process: &Skillrun, mode: &str) -> Agent<'h> {
        let spec = LaunchSpec {
            agent_profile_id: "probe-agent".to_owned(),
            mcp_mode: mode.to_owned(),
            ..LaunchSpec::default()
        };
        self.launched(process, spec).await
    }

    /// Goes on with an execution that was cut off.
    pub(super) async fn taken_up<'h>(
        &'h self,
        process: &Skillrun,
        run_id: &RunId,
        mode: &str,
    ) -> Agent<'h> {
        let spec = LaunchSpec {
            agent_profile_id: "probe-agent".to_owned(),
            prior_session: run_id.to_string(),
            mcp_mode: mode.to_owned(),
            ..LaunchSpec::default()
        };
        self.launched(process, spec).await
    }

    async fn launched<'h>(&'h self, process: &Skillrun, spec: LaunchSpec) -> Agent<'h> {
        let launched = process.runtime().launch(spec).await.unwrap();
        Agent {
            house: self,
            process: process.clone(),
            id: launched.id.to_string(),
            run_id: launched.id.run_id().clone(),
        }
    }
}

/// The agent of the tests in an execution.
pub(super) struct Agent<'h> {
    pub(super) house: &'h House,
    pub(super) process: Skillrun,
    pub(super) id: String,
    pub(super) run_id: RunId,
}

/// What a tool answered.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) is_error: bool,
    pub(super) value: Value,
}

impl Told {
    /// The word of a refusal.
    #[track_caller]
    pub(super) fn refusal(&self) -> &str {
        assert!(self.is_error, "{self:?}");
        self.value["error"].as_str().unwrap()
    }

    #[track_caller]
    pub(super) fn answer(self) -> Value {
        assert!(!self.is_error, "{self:?}");
        self.value
    }
}

impl Agent<'_> {
    pub(super) fn payloads(&self, kind: &str) -> Vec<Value> {
        let events = self.house.home.events_of(self.run_id.as_str(), kind);
        let payloads = events.into_iter();
        payloads.map(|mut event| event["payload"].take()).collect()
    }

    /// Everything that the agent said.
    pub(super) fn said(&self) -> Vec<String> {
        let told = self.payloads("session_update").into_iter();
        let chunks = told.filter(|told| told["kind"] == "message_chunk");
        chunks
            .map(|chunk| chunk["text"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A turn, and what was said in it.
    pub(super) async fn turn(&self, prompt: &str) -> Vec<String> {
        let before = self.said().len();
        let turn = self.process.runtime().resume(&self.id, prompt).await;
        let turn = turn.unwrap();
        assert_eq!(turn.error, None, "{turn:?}");
        self.said().split_off(before)
    }

    /// A turn that goes on.
    pub(super) fn begin(&self, prompt: &str) -> JoinHandle<Result<TurnEnd, RuntimeError>> {
        let (process, id, prompt) = (self.process.clone(), self.id.clone(), prompt.to_owned());
        tokio::spawn(async move { process.runtime().resume(&id, &prompt).await })
    }

    /// What the agent is told instead of an answer, or the text of the answer.
    pub(super) async fn raw(&self, name: &str, arguments: &Value) -> String {
        let said = self
            .turn(&format!("tool skillrun__{name} {arguments}"))
            .await;
        said.concat()
    }

    /// Calls a tool of the mode.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Told {
        told(&self.raw(name, &arguments).await)
    }

    /// Waits for the question that is open, and gives its id.
    pub(super) async fn asked(&self, run_id: &RunId) -> String {
        let store = self.process.store().clone();
        let open = || {
            let gates = store.gates(run_id).unwrap_or_default();
            gates.into_iter().find(|gate| gate.decision.is_none())
        };
        eventually("a question", open).await.approval_id
    }

    pub(super) async fn decide(
        &self,
        run_id: &RunId,
        approved: bool,
        option: Option<&str>,
        text: &str,
    ) {
        let asked = self.asked(run_id).await;
        let decision = ApprovalDecision {
            approved,
            reason: text.to_owned(),
            source: ApprovalSource::Api,
            option: option.map(str::to_owned),
            answer: None,
        };
        let decided = self.process.runner().decide(run_id, Some(&asked), decision);
        decided.await.unwrap();
    }

    /// Waits until it takes the next prompt.
    pub(super) async fn ready(&self) {
        loop {
            let execution = self
                .process
                .runtime()
                .get_execution(&self.id)
                .await
                .unwrap();
            match execution.status {
                ExecutionStatus::Ready => return,
                status if status.is_terminal() => panic!("{execution:?}"),
                _ => tokio::task::yield_now().await,
            }
        }
    }

    /// Ends it, and looks at what is on record.
    pub(super) async fn ends_well(self) {
        let stopped = self.process.runtime().stop(&self.id, "done").await;
        assert_eq!(stopped.unwrap().teardown_error, None);
        for command in ["verify", "replay"] {
            let home = &self.house.home;
            let looked = home.skillrun(&["runs", command, self.run_id.as_str()]);
            assert_eq!(looked.exit, Some(0), "{command}: {looked:?}");
        }
    }
}

#[track_caller]
pub(super) fn told(said: &str) -> Told {
    let (is_error, text) = match said.strip_prefix("tool error: ") {
        Some(text) => (true, text),
        None => (false, said),
    };
    let value = serde_json::from_str(text);
    Told {
        is_error,
        value: value.unwrap_or_else(|error| panic!("{said}: {error}")),
    }
}
