//! Executions inside this process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backend::{
    Backend, BackendError, BackendHealth, CreateRequest, Created, End, Instance, LedgerPart,
};
use super::event::{REASON_CANCELLED, REASON_INTERRUPTED};
use super::state::Ending;
use crate::capability::Capability;
use crate::id::RunId;
use crate::outcome::OutcomeCode;
use crate::runner::{
    Caller, PromptRefused, ResumeOptions, RunError, RunOutcome, Runner, Session, SessionOptions,
    StartOptions, ToolSurface,
};
use crate::telemetry::chain;

/// The name of the backend inside this process.
pub const IN_PROCESS: &str = "in-process";

/// How long an execution may be live: a year. Protects from one that everybody has forgotten.
const EXECUTION_TIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Carries executions out inside this process.
#[derive(Clone)]
pub struct InProcess {
    runner: Runner,
}

impl InProcess {
    /// Carries them out by this runner.
    pub fn new(runner: Runner) -> Self {
        Self { runner }
    }
}

#[async_trait]
impl Backend for InProcess {
    fn name(&self) -> &str {
        IN_PROCESS
    }

    async fn health(&self) -> BackendHealth {
        match self.runner.store().healthy() {
            Ok(()) => BackendHealth::Healthy,
            Err(error) => BackendHealth::Unhealthy(chain(&error)),
        }
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, BackendError> {
        let CreateRequest {
            run_id,
            part,
            facts,
            metadata,
            terms,
            surface,
            grace,
            observer,
        } = request;
        let skill = facts.agent_profile_id.clone();
        let session = Session::new(SessionOptions {
            facts,
            surface,
            grace,
            observer,
        });
        let (started_at, handle) = match part {
            LedgerPart::Begin => {
                let options = StartOptions {
                    run_id: Some(run_id.clone()),
                    terms,
                    deadline: EXECUTION_TIME_MAX,
                    session: Some(session.clone()),
                    ..StartOptions::new(skill, metadata)
                };
                let started = self.runner.start(Caller::new(), options).await?;
                (started.started_at, started.handle)
            }
            LedgerPart::TakeUp { retry_ambiguous } => {
                let options = ResumeOptions {
                    retry_ambiguous,
                    terms,
                    deadline: EXECUTION_TIME_MAX,
                    session: Some(session.clone()),
                    ..ResumeOptions::default()
                };
                let taken_up = self.runner.start_resume(Caller::new(), &run_id, options);
                // Its ledger began earlier.
                (self.runner.clock().now(), taken_up.await?.handle)
            }
        };
        let stop = CancellationToken::new();
        let ended = {
            let (session, stop) = (session.clone(), stop.clone());
            async move { end(&session, handle.wait_or_cancel(stop).await) }
        };
        Ok(Created {
            instance: Arc::new(InProcessInstance {
                runner: self.runner.clone(),
                run_id,
                session,
                stop: stop.clone(),
                _stopped_with_this: stop.drop_guard(),
            }),
            started_at,
            ended: ended.boxed(),
        })
    }

    async fn recover(&self) -> Result<(), BackendError> {
        let closed = self.runner.store().close_abandoned().await?;
        for run in closed {
            if let Err(error) = run.closed {
                let reason = format!("run {} cannot be closed: {}", run.run_id, chain(&error));
                return Err(BackendError::Unavailable {
                    name: IN_PROCESS.to_owned(),
                    reason,
                });
            }
        }
        Ok(())
    }

    fn interrupt(&self) {
        self.runner.interrupt();
    }
}

struct InProcessInstance {
    runner: Runner,
    run_id: RunId,
    session: Session,
    stop: CancellationToken,
    _stopped_with_this: DropGuard,
}

#[async_trait]
impl Instance for InProcessInstance {
    fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused> {
        self.session.prompt(generation, text)
    }

    fn cancel_turn(&self, generation: u64) {
        self.session.cancel_turn(generation);
    }

    async fn set_surface(&self, surface: ToolSurface) -> Result<(), BackendError> {
        let cx = self.runner.live(&self.run_id).ok_or(BackendError::Over)?;
        let effective = cx.profile().policy.effective.iter();
        let patterns: Vec<&str> = effective
            .filter_map(|capability| match capability {
                Capability::Tool { pattern } => Some(pattern.as_str()),
                _ => None,
            })
            .collect();
        let tools = surface.tools.list(&patterns).await.tools;
        let names = tools.iter().map(|tool| tool.definition().name.clone());
        Ok(self
            .session
            .set_surface(surface, names.collect(), cx.recorder())?)
    }

    fn finish(&self, reason: &str) {
        self.session.finish(reason);
    }

    fn stop(&self) {
        self.stop.cancel();
    }
}

/// How an execution ended, whose run ended so.
fn end(session: &Session, ended: Result<RunOutcome, RunError>) -> End {
    let end = match ended {
        Ok(_) => End::completed(),
        Err(RunError::Cancelled { .. }) => {
            let reason = session.finish_reason();
            let reason = reason.unwrap_or_else(|| REASON_CANCELLED.to_owned());
            End::stopped(OutcomeCode::Cancelled, reason)
        }
        Err(RunError::Interrupted { .. } | RunError::Suspended { .. } | RunError::ShuttingDown) => {
            End::stopped(OutcomeCode::Interrupted, REASON_INTERRUPTED)
        }
        Err(error) => End::failed(error.code(), error.to_string()),
    };
    let exit_code = session.exit_code();
    End {
        exit_code: exit_code.or(end.exit_code.filter(|_| end.ending == Ending::Completed)),
        teardown_error: session.teardown_error(),
        ..end
    }
}
