//! A backend without agents: it plays one that understands the same words as the agent of the tests, and writes the
//! ledger that one would.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use skillrun::call::{SessionUpdate, TurnStop, Usage};
use skillrun::clock::Timestamp;
use skillrun::ledger::{
    Entry, Event, Origin, PAGE_LINES_MAX, Recorder, ResumeReason, RunCompleted, RunResumed,
    RunStarted, RunStatus, SessionFacts, SessionPhase, SessionStatus, SessionTold, Store,
    TurnCompleted,
};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{
    Executor, ExecutorError, JsonObject, PromptRefused, RunContext, SessionObserver, SessionSignal,
    ToolCallResult, ToolSurface, TurnEnd,
};
use skillrun::runtime::{
    Backend, BackendError, BackendHealth, CreateRequest, Created, End, Ending, Instance, LedgerPart,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// An executor that knows every agent, and is asked to carry none out.
pub(super) struct AnyAgent;

#[async_trait]
impl Executor for AnyAgent {
    async fn call_tool(
        &self,
        _cx: &RunContext,
        name: &str,
        _arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        panic!("{name} is called")
    }

    fn check(&self, name: &str) -> Result<(), ExecutorError> {
        match name {
            "probe-agent" => Ok(()),
            _ => Err(ExecutorError::NotFound {
                name: name.to_owned(),
                nearest: None,
            }),
        }
    }
}

pub(super) struct Fake {
    store: Store,
    interrupted: CancellationToken,
}

impl Fake {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            interrupted: CancellationToken::new(),
        }
    }

    /// The ledger, and what its prompts told before: what is remembered, and how many there were.
    async fn ledger(
        &self,
        request: &CreateRequest,
    ) -> Result<(Recorder, Timestamp, Vec<String>, u64), BackendError> {
        let session = Some(Box::new(request.facts.clone()));
        match request.part {
            LedgerPart::Begin => {
                let started = RunStarted {
                    skill: request.facts.agent_profile_id.clone(),
                    input: request.metadata.json().clone(),
                    session,
                    ..RunStarted::default()
                };
                let created = self.store.create(request.run_id.clone(), started).await?;
                Ok((created.0, created.1.time, Vec::new(), 0))
            }
            LedgerPart::TakeUp { .. } => {
                let (recorder, _) = self.store.take_up(&request.run_id).await?;
                let (memory, newest) = self.remembered(request)?;
                let resumed = RunResumed {
                    attempt: recorder.state().resumptions() + 1,
                    reason: ResumeReason::Asked,
                    session,
                    ..RunResumed::default()
                };
                let at = recorder.record(Origin::Host, &resumed.into())?.time;
                Ok((recorder, at, memory, newest))
            }
        }
    }

    fn remembered(&self, request: &CreateRequest) -> Result<(Vec<String>, u64), BackendError> {
        let (mut memory, mut newest) = (Vec::new(), 0);
        for entry in self.store.read(&request.run_id, 1, PAGE_LINES_MAX)?.entries {
            let Entry::Record(record) = entry else {
                continue;
            };
            if let Event::Prompt(prompt) = record.event() {
                newest = prompt.generation;
                let lines = prompt.text.as_str().lines();
                let told = lines.filter_map(|line| line.strip_prefix("remember "));
                memory.extend(told.map(str::to_owned));
            }
        }
        Ok((memory, newest))
    }
}

#[async_trait]
impl Backend for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    async fn health(&self) -> BackendHealth {
        BackendHealth::Healthy
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, BackendError> {
        let (recorder, started_at, memory, newest) = self.ledger(&request).await?;
        let play = Play {
            shared: Arc::new(Shared::default()),
            recorder,
            facts: request.facts,
            metadata: request.metadata,
            observer: request.observer,
            grace: request.grace,
            interrupted: self.interrupted.clone(),
            memory,
            newest,
        };
        let shared = Arc::clone(&play.shared);
        let played = tokio::spawn(play.play());
        Ok(Created {
            instance: Arc::new(Way(shared)),
            started_at,
            ended: played.map(|end| end.unwrap()).boxed(),
        })
    }

    async fn recover(&self) -> Result<(), BackendError> {
        self.store.close_abandoned().await?;
        Ok(())
    }

    fn interrupt(&self) {
        self.interrupted.cancel();
    }
}

/// What an execution is told.
#[derive(Default)]
struct Shared {
    told: Mutex<Told>,
    changed: Notify,
    finishing: CancellationToken,
    stopped: CancellationToken,
}

#[derive(Default)]
struct Told {
    prompt: Option<(u64, String)>,
    turn: Option<(u64, CancellationToken)>,
    /// The newest turn that was cancelled.
    cancelled: u64,
    finish: Option<String>,
    mode: Option<(ToolSurface, tokio::sync::oneshot::Sender<()>)>,
}

impl Shared {
    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Way(Arc<Shared>);

impl Drop for Way {
    fn drop(&mut self) {
        self.0.stopped.cancel();
    }
}

#[async_trait]
impl Instance for Way {
    fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused> {
        let mut told = self.0.told();
        if told.prompt.is_some() || told.finish.is_some() {
            return Err(PromptRefused);
        }
        told.prompt = Some((generation, text));
        self.0.changed.notify_one();
        Ok(())
    }

    fn cancel_turn(&self, generation: u64) {
        let mut told = self.0.told();
        // A prompt begins its turn all the same, which is over at once.
        told.cancelled = told.cancelled.max(generation);
        if let Some((_, turn)) = told.turn.as_ref().filter(|turn| turn.0 == generation) {
            turn.cancel();
        }
    }

    async fn set_surface(&self, surface: ToolSurface) -> Result<(), BackendError> {
        let (done, is_done) = tokio::sync::oneshot::channel();
        self.0.told().mode = Some((surface, done));
        self.0.changed.notify_one();
        is_done.await.map_err(|_| BackendError::Over)
    }

    fn finish(&self, reason: &str) {
        self.0
            .told()
            .finish
            .get_or_insert_with(|| reason.to_owned());
        self.0.finishing.cancel();
        self.0.changed.notify_one();
    }

    fn stop(&self) {
        self.0.stopped.cancel();
    }
}

/// An execution that is played.
struct Play {
    shared: Arc<Shared>,
    recorder: Recorder,
    facts: SessionFacts,
    metadata: JsonObject,
    observer: Arc<dyn SessionObserver>,
    grace: Duration,
    interrupted: CancellationToken,
    memory: Vec<String>,
    newest: u64,
}

/// Why an agent goes on no more.
enum Exit {
    Trap,
    Exited(i32),
}

impl Play {
    fn record(&self, event: impl Into<Event>) -> u64 {
        self.recorder
            .record(Origin::Host, &event.into())
            .unwrap()
            .seq
    }

    fn say(&self, text: String) {
        let told = SessionTold::from(SessionUpdate::MessageChunk { text });
        self.recorder.record(Origin::Guest, &told.into()).unwrap();
    }

    async fn play(mut self) -> End {
        let (stopped, interrupted) = (self.shared.stopped.clone(), self.interrupted.clone());
        let end = tokio::select! {
            biased;
            () = stopped.cancelled() => self.stopped(),
            () = interrupted.cancelled() => End::stopped(OutcomeCode::Interrupted, "interrupted"),
            end = self.live() => end,
        };
        let status = match end.ending {
            Ending::Completed => RunStatus::Ok,
            Ending::Failed => RunStatus::Error,
            Ending::Stopped => RunStatus::Interrupted,
        };
        let completed = RunCompleted {
            error: (end.ending == Ending::Failed).then(|| end.message.as_str().into()),
            stop_reason: (end.code == OutcomeCode::Cancelled)
                .then(|| end.stop_reason.as_str().into()),
            exit_code: end.exit_code,
            ..RunCompleted::new(status, end.code)
        };
        self.record(completed);
        end
    }

    fn stopped(&self) -> End {
        let reason = self.shared.told().finish.clone();
        End::stopped(
            OutcomeCode::Cancelled,
            reason.unwrap_or_else(|| "cancelled".to_owned()),
        )
    }

    async fn live(&mut self) -> End {
        let metadata: serde_json::Value = self.metadata.deserialize().unwrap();
        match metadata["start"].as_str().unwrap_or("ok") {
            "trap" => return End::failed(OutcomeCode::Trap, "it trapped"),
            "fail" => return End::failed(OutcomeCode::SkillError, "start failed"),
            "exit:0" => return End::completed(),
            _ => {}
        }
        let seq = self.record(SessionStatus::new(SessionPhase::BootReady));
        self.observer.signal(SessionSignal::Booted {
            generation: self.newest,
            seq,
        });
        loop {
            let changed = Arc::clone(&self.shared);
            let changed = changed.changed.notified();
            self.change_mode();
            let (prompt, finish) = {
                let mut told = self.shared.told();
                (told.prompt.take(), told.finish.clone())
            };
            if finish.is_some() {
                return self
                    .finish(metadata["finish"].as_str() == Some("spin"))
                    .await;
            }
            match prompt {
                None => changed.await,
                Some((generation, text)) => {
                    if let Some(exit) = self.turn(generation, &text).await {
                        return self.exited(exit);
                    }
                }
            }
        }
    }

    fn exited(&self, exit: Exit) -> End {
        match exit {
            Exit::Trap => End::failed(OutcomeCode::Trap, "it trapped"),
            Exit::Exited(0) => End::completed(),
            Exit::Exited(status) => End {
                exit_code: Some(status),
                ..End::failed(OutcomeCode::Trap, format!("it ended with {status}"))
            },
        }
    }

    async fn finish(&self, never_ends: bool) -> End {
        self.record(SessionStatus::new(SessionPhase::Finishing));
        let mut end = self.stopped();
        if never_ends {
            after(self.grace).await;
            end.teardown_error = Some("the agent did not finish".to_owned());
        }
        end
    }

    fn change_mode(&self) {
        let Some((surface, done)) = self.shared.told().mode.take() else {
            return;
        };
        self.record(SessionStatus {
            mcp_mode: Some(surface.mode),
            ..SessionStatus::new(SessionPhase::ModeChanged)
        });
        self.record(SessionStatus {
            tools: Some(Vec::new()),
            ..SessionStatus::new(SessionPhase::ToolsChanged)
        });
        let _asked_no_more = done.send(());
    }

    async fn turn(&mut self, generation: u64, text: &str) -> Option<Exit> {
        let cancelled = self.shared.finishing.child_token();
        {
            let mut told = self.shared.told();
            told.turn = Some((generation, cancelled.clone()));
            if told.cancelled == generation {
                cancelled.cancel();
            }
        }
        self.newest = generation;
        let seq = self.record(skillrun::ledger::Prompt {
            generation,
            text: text.into(),
        });
        self.observer
            .signal(SessionSignal::TurnBegun { generation, seq });
        let mut end = (TurnStop::EndTurn, None, false);
        for line in text.lines() {
            let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
            match verb {
                "trap" => return Some(Exit::Trap),
                "exit" => return Some(Exit::Exited(argument.parse().unwrap_or(0))),
                "echo" => self.say(argument.to_owned()),
                "remember" => self.memory.push(argument.to_owned()),
                "recall" => self.say(self.memory.join(",")),
                "chunks" => {
                    for at in 0..argument.parse().unwrap() {
                        self.say(format!("{at};"));
                    }
                }
                "fail" => end = (TurnStop::Error, Some(argument.to_owned()), false),
                "stop" => end.0 = TurnStop::Refusal,
                // It listens, and ends the turn when that is cancelled.
                "permission" => cancelled.cancelled().await,
                "spin" => {
                    self.until_interrupted(&cancelled).await;
                    end = (TurnStop::Cancelled, None, true);
                }
                "late" => self.late(argument.parse().unwrap()),
                _ => panic!("{line:?}"),
            }
        }
        if cancelled.is_cancelled() {
            end.0 = TurnStop::Cancelled;
        }
        self.end_turn(generation, end);
        None
    }

    /// It does not listen, and is interrupted after the grace.
    async fn until_interrupted(&self, cancelled: &CancellationToken) {
        loop {
            let changed = self.shared.changed.notified();
            self.change_mode();
            tokio::select! {
                () = changed => {}
                () = cancelled.cancelled() => break,
            }
        }
        after(self.grace).await;
    }

    /// Tells once more how an earlier turn ended, as a backend might that is late.
    fn late(&self, generation: u64) {
        self.observer.signal(SessionSignal::TurnEnded {
            turn: TurnEnd {
                generation,
                stop_reason: TurnStop::Refusal,
                error: None,
                undone: false,
                usage: Usage::default(),
            },
            seq: 1,
        });
        self.observer
            .signal(SessionSignal::Ready { generation, seq: 1 });
    }

    fn end_turn(&self, generation: u64, end: (TurnStop, Option<String>, bool)) {
        let (stop_reason, error, undone) = end;
        let seq = self.record(TurnCompleted {
            generation,
            stop_reason,
            error: error.clone().map(Into::into),
            undone,
            usage: Usage::default(),
            duration_micros: 0,
        });
        self.shared.told().turn = None;
        let usage = Usage::default();
        self.observer.signal(SessionSignal::TurnEnded {
            turn: TurnEnd {
                generation,
                stop_reason,
                error,
                undone,
                usage,
            },
            seq,
        });
        if self.shared.told().finish.is_none() {
            let seq = self.record(SessionStatus::new(SessionPhase::Ready));
            self.observer
                .signal(SessionSignal::Ready { generation, seq });
        }
        // The facts of an execution are those of its first event.
        assert_eq!(self.facts.execution_id.run_id(), self.recorder.run_id());
    }
}

/// Waits for a time in which nothing happens.
async fn after(time: Duration) {
    let nothing = tokio::time::timeout(time, std::future::pending::<()>());
    nothing.await.unwrap_err();
}
