//! The life of an execution, from the agent's start to its end.

use tokio_util::sync::CancellationToken;

use super::{Next, Session, SessionSignal, TurnEnd, WORKSPACE_GUEST_PATH};
use crate::call::TurnStop;
use crate::clock::Timestamp;
use crate::executor::{Failure, LiveSession, RecordRefused, Returned, SessionContext};
use crate::ledger::{SessionFacts, SessionPhase, TurnCompleted};
use crate::outcome::OutcomeCode;
use crate::runner::journal::Journal;
use crate::telemetry::chain;

/// How the life of one instance came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Lived {
    /// The execution has ended: it was told to, or the agent ended itself.
    Ended,
    /// It was told to end, and its agent was interrupted, perhaps in the middle of its record.
    Interrupted,
    /// A turn had to be interrupted. The execution goes on with another instance, for which the turn never
    /// was.
    Undone,
}

/// One instance of an execution at work.
pub(in crate::runner) struct Life<'a> {
    pub(in crate::runner) session: &'a Session,
    pub(in crate::runner) journal: &'a Journal,
    /// What the agent is told when it starts.
    pub(in crate::runner) context: SessionContext,
    /// The execution goes on after a turn that had to be interrupted.
    pub(in crate::runner) is_remade: bool,
}

/// A turn that the agent takes.
struct Turn {
    generation: u64,
    text: String,
    /// When it began.
    at: Timestamp,
    /// Its end is on record: it is only told again.
    is_over: bool,
}

/// What became of a call of the agent that can be given up.
enum Called<T> {
    /// It returned, with an error or without.
    Returned(Result<T, Failure>),
    /// The agent ended itself.
    Exited,
    /// It did not return in time, and was interrupted.
    Interrupted,
}

impl Session {
    /// What an agent is told when it starts as this execution.
    pub(in crate::runner) fn context(facts: &SessionFacts, metadata: &str) -> SessionContext {
        let workspace = facts.workspace_path.as_ref();
        SessionContext {
            session_id: facts.session_id.clone(),
            workspace: workspace.map(|_| WORKSPACE_GUEST_PATH.to_owned()),
            mode: facts.mcp_mode.clone(),
            metadata: metadata.to_owned(),
        }
    }
}

impl Life<'_> {
    /// Lets the agent start, take its turns and finish.
    ///
    /// # Errors
    /// The agent trapped, met a limit, refused to start or ended itself with an error.
    pub(in crate::runner) async fn live(&self, mut guest: LiveSession) -> Result<Lived, Failure> {
        let finishing = self.session.0.finishing.clone();
        let started = self.bounded(guest.start(&self.context), &finishing).await?;
        match started {
            Called::Returned(started) => started?,
            Called::Exited => return self.end(guest),
            Called::Interrupted => {
                guest.give_up();
                return Ok(Lived::Interrupted);
            }
        }
        let mut phase = match self.is_remade {
            true => SessionPhase::Ready,
            false => SessionPhase::BootReady,
        };
        let mut generation = 0;
        while let Some(turn) = self.next_turn(generation, phase).await? {
            generation = turn.generation;
            if !turn.is_over {
                phase = SessionPhase::Ready;
            }
            match self.turn(&mut guest, turn).await? {
                Called::Returned(_) => {}
                Called::Exited => return self.end(guest),
                Called::Interrupted => {
                    // What it still asked for is given up before it is on record that it never was, and what it
                    // had asked for in earlier turns ends there, too.
                    guest.give_up();
                    self.undo(generation)?;
                    return Ok(match finishing.is_cancelled() {
                        true => Lived::Interrupted,
                        false => Lived::Undone,
                    });
                }
            }
        }
        self.finish(guest).await
    }

    /// The next turn: from the record as long as that has one, then whatever comes. None when the execution is
    /// to end.
    async fn next_turn(&self, after: u64, phase: SessionPhase) -> Result<Option<Turn>, Failure> {
        let (session, journal) = (self.session, self.journal);
        if let Some(prompt) = journal.prompt_on_record(after).map_err(unrecorded)? {
            if !prompt.is_over {
                session.take_up_turn(prompt.generation);
                session.signal(SessionSignal::TurnBegun {
                    generation: prompt.generation,
                    seq: prompt.seq,
                });
            }
            return Ok(Some(Turn {
                generation: prompt.generation,
                text: prompt.text,
                at: prompt.at,
                is_over: prompt.is_over,
            }));
        }
        let newest = journal.newest_prompt(after);
        if !journal.is_record_only() && session.finish_reason().is_none() {
            let seq = journal.record_phase(phase).map_err(unrecorded)?;
            session.signal(match phase {
                SessionPhase::BootReady => SessionSignal::Booted {
                    generation: newest,
                    seq,
                },
                _ => SessionSignal::Ready {
                    generation: newest,
                    seq,
                },
            });
        }
        journal.check_waits(session).await;
        let next = {
            // Nobody's time is used up while nobody asks for anything.
            let _not_wall_time = journal.pause();
            session.next().await
        };
        let Next::Prompt(generation, text) = next else {
            return Ok(None);
        };
        let prompt = journal
            .record_prompt(generation, text)
            .map_err(unrecorded)?;
        session.signal(SessionSignal::TurnBegun {
            generation,
            seq: prompt.seq,
        });
        Ok(Some(Turn {
            generation,
            text: prompt.text,
            at: prompt.at,
            is_over: false,
        }))
    }

    /// One turn, to its end.
    async fn turn(&self, guest: &mut LiveSession, turn: Turn) -> Result<Called<()>, Failure> {
        let (session, journal) = (self.session, self.journal);
        let cancellation = match turn.is_over {
            true => CancellationToken::new(),
            false => session.turn_cancellation(),
        };
        journal.begin_turn(turn.generation, turn.at);
        let called = self.bounded(guest.prompt(&turn.text), &cancellation).await;
        let is_cancelled = cancellation.is_cancelled();
        let (stop_reason, error) = match called? {
            Called::Exited => return Ok(Called::Exited),
            Called::Interrupted => return Ok(Called::Interrupted),
            Called::Returned(_) if is_cancelled => (TurnStop::Cancelled, None),
            Called::Returned(Ok(stop)) => (stop, None),
            Called::Returned(Err(failure)) => (TurnStop::Error, Some(failure.message)),
        };
        self.end_turn(TurnCompleted {
            generation: turn.generation,
            stop_reason,
            error: error.map(Into::into),
            undone: false,
            usage: journal.turn_usage(),
            duration_micros: journal.turn_micros(),
        })?;
        Ok(Called::Returned(Ok(())))
    }

    /// The end of a turn that had to be interrupted.
    fn undo(&self, generation: u64) -> Result<(), Failure> {
        self.end_turn(TurnCompleted {
            generation,
            stop_reason: TurnStop::Cancelled,
            error: None,
            undone: true,
            usage: self.journal.turn_usage(),
            duration_micros: self.journal.turn_micros(),
        })
    }

    /// Puts the end of a turn on record, unless it is there, and tells of it.
    fn end_turn(&self, completed: TurnCompleted) -> Result<(), Failure> {
        let recorded = self.journal.end_turn(&completed).map_err(unrecorded)?;
        if let Some(seq) = recorded {
            self.session.end_turn();
            self.session.signal(SessionSignal::TurnEnded {
                turn: TurnEnd {
                    generation: completed.generation,
                    stop_reason: completed.stop_reason,
                    error: completed.error.map(|error| error.as_str().to_owned()),
                    undone: completed.undone,
                    usage: completed.usage,
                },
                seq,
            });
        }
        Ok(())
    }

    /// Lets the agent finish, within the grace. Whatever goes wrong in that is told, and changes nothing.
    async fn finish(&self, mut guest: LiveSession) -> Result<Lived, Failure> {
        self.journal.begin_finish().map_err(unrecorded)?;
        let finishing = self.session.0.finishing.clone();
        let finished = self.bounded(guest.finish(), &finishing).await;
        let problem = match finished {
            Ok(Called::Interrupted) => {
                guest.give_up();
                let grace_ms = self.session.0.grace.as_millis();
                Some(format!("the agent did not finish within {grace_ms} ms"))
            }
            Ok(Called::Returned(Err(failure))) | Err(failure) => {
                guest.give_up();
                Some(failure.to_string())
            }
            Ok(Called::Returned(Ok(())) | Called::Exited) => {
                guest.close().err().map(|failure| failure.to_string())
            }
        };
        if let Some(problem) = problem {
            self.journal.note_error(&problem);
            self.session.state().teardown_error = Some(problem);
        }
        Ok(Lived::Ended)
    }

    /// The end of an agent that ended itself.
    fn end(&self, guest: LiveSession) -> Result<Lived, Failure> {
        guest.close()?;
        match self.session.exit_code() {
            None | Some(0) => Ok(Lived::Ended),
            Some(status) => {
                let message = format!("the agent ended itself with exit status {status}");
                Err(Failure::new(OutcomeCode::Trap, message))
            }
        }
    }

    /// Waits for a call of the agent, and from the cancellation on for no longer than the grace.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<Returned<T>, Failure>>,
        cancellation: &CancellationToken,
    ) -> Result<Called<T>, Failure> {
        let forced = async {
            cancellation.cancelled().await;
            tokio::time::sleep(self.session.0.grace).await;
        };
        let returned = tokio::select! {
            biased;
            returned = call => returned?,
            () = forced => return Ok(Called::Interrupted),
        };
        Ok(match returned {
            Returned::Value(value) => Called::Returned(Ok(value)),
            Returned::Error(failure) => Called::Returned(Err(failure)),
            Returned::Exited(status) => {
                self.session.exited(status);
                Called::Exited
            }
        })
    }
}

/// The end of an execution whose record cannot be written, or does not go on as its agent does; who stopped it
/// then knows more.
fn unrecorded(refused: RecordRefused) -> Failure {
    Failure::new(OutcomeCode::Internal, chain(&refused))
}
