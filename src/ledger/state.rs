//! What may follow what in a run: one pure function, through which the writer, the summaries and
//! `verify` all go.

use std::collections::BTreeMap;
use std::fmt;

use super::event::{Event, Origin};
use super::payload::{CallPhase, RunStatus};

/// Calls, steps and questions that may be open in one run at once. Protects the memory of whoever
/// reads a ledger from one that only ever opens.
const OPEN_MAX: usize = 16_384;
/// Bytes of an id that pairs two events, for the same reason.
const PAIR_ID_BYTES_MAX: usize = 1024;

/// The name of the `custom` event by which a writer reports what it found and cut off at the end of
/// the file.
pub const TORN_TAIL: &str = "torn_tail";

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// There is no event yet.
    #[default]
    New,
    /// It goes on, or was cut off without an end.
    Running,
    /// It ended in a way that lets it be resumed.
    Paused(RunStatus),
    /// It ended for good. The status is absent when it is one that this version does not know.
    Ended(Option<RunStatus>),
}

/// What two events, an opening and a closing one, are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pair {
    /// `node_enter` and `node_exit`.
    Node,
    /// `tool_call` and `tool_result`.
    Tool,
    /// The two phases of `llm_call`.
    Llm,
    /// `http_call` and `http_result`.
    Http,
    /// `approval_request` and `approval_response`.
    Approval,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "step",
            Self::Tool => "tool call",
            Self::Llm => "model call",
            Self::Http => "HTTP call",
            Self::Approval => "approval",
        })
    }
}

/// A run as its events so far tell it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    phase: Phase,
    /// What was opened and not closed, with the number of resumptions at that time.
    open: BTreeMap<(Pair, Box<str>), u64>,
    /// Resumptions so far.
    resumptions: u64,
    /// What the answers of models cost so far.
    cost_usd: Option<f64>,
}

/// The part of an event that the state depends on.
enum Step<'a> {
    Start,
    Resume,
    Complete(Option<RunStatus>),
    Open(Pair, &'a str),
    Close(Pair, &'a str),
    ReportTornTail,
    Stay,
}

/// The state after `event`, which came from `origin`.
///
/// A guest's own events never open or close anything: what it claims says nothing about what the host
/// saw.
///
/// # Errors
/// The event cannot happen in `state`.
pub fn next(state: State, origin: Origin, event: &Event) -> Result<State, IllegalTransition> {
    state.check(origin, event)?;
    Ok(state.after(origin, event))
}

impl State {
    /// Where the run is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How often the run was resumed.
    pub fn resumptions(&self) -> u64 {
        self.resumptions
    }

    /// What the answers of models cost together, in US dollars, those included that a guest reports; `None` when
    /// there was none.
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_usd
    }

    /// What was opened and not closed.
    pub fn open(&self) -> impl Iterator<Item = (Pair, &str)> {
        self.open.keys().map(|(pair, id)| (*pair, &**id))
    }

    /// Whether `event` can happen now; the first half of [`next`].
    pub(super) fn check(&self, origin: Origin, event: &Event) -> Result<(), IllegalTransition> {
        if origin == Origin::Guest && !event.guest_may_add() {
            return Err(IllegalTransition::NotForGuests {
                kind: event.kind().into(),
            });
        }
        let step = step(origin, event);
        match (self.phase, &step) {
            (Phase::New, Step::Start)
            | (Phase::Paused(_), Step::Resume | Step::Complete(_) | Step::ReportTornTail) => Ok(()),
            (Phase::New, _) => Err(IllegalTransition::NotStarted {
                kind: event.kind().into(),
            }),
            (Phase::Running, Step::Start) => Err(IllegalTransition::StartedTwice),
            (Phase::Running, Step::Open(pair, id)) => self.check_open(*pair, id),
            (Phase::Running, Step::Close(pair, id))
                if !self.open.contains_key(&(*pair, (*id).into())) =>
            {
                Err(IllegalTransition::NotOpen {
                    pair: *pair,
                    id: (*id).into(),
                })
            }
            (Phase::Running, _) => Ok(()),
            (Phase::Paused(_) | Phase::Ended(_), _) => Err(IllegalTransition::Ended {
                kind: event.kind().into(),
            }),
        }
    }

    fn check_open(&self, pair: Pair, id: &str) -> Result<(), IllegalTransition> {
        if id.len() > PAIR_ID_BYTES_MAX {
            return Err(IllegalTransition::IdTooLong {
                pair,
                bytes: id.len(),
            });
        }
        match self.open.get(&(pair, id.into())) {
            // What was open when the run was cut off may be done again after it was resumed.
            Some(opened) if *opened == self.resumptions => Err(IllegalTransition::AlreadyOpen {
                pair,
                id: id.into(),
            }),
            Some(_) => Ok(()),
            None if self.open.len() >= OPEN_MAX => Err(IllegalTransition::TooManyOpen),
            None => Ok(()),
        }
    }

    /// The state after an event that [`State::check`] let pass; the second half of [`next`].
    pub(super) fn after(mut self, origin: Origin, event: &Event) -> Self {
        self.add_cost(event);
        match step(origin, event) {
            Step::Start => self.phase = Phase::Running,
            Step::Resume => {
                self.phase = Phase::Running;
                self.resumptions += 1;
            }
            Step::Complete(status) => {
                self.phase = match status {
                    Some(status) if status.is_resumable() => Phase::Paused(status),
                    _ => Phase::Ended(status),
                };
            }
            Step::Open(pair, id) => {
                self.open.insert((pair, id.into()), self.resumptions);
            }
            Step::Close(pair, id) => {
                self.open.remove(&(pair, id.into()));
            }
            Step::ReportTornTail | Step::Stay => {}
        }
        self
    }

    fn add_cost(&mut self, event: &Event) {
        // A ledger that somebody made up may say anything.
        let is_cost = |cost: &f64| cost.is_finite() && *cost >= 0.0;
        if let Event::LlmCall(answer) = event
            && let Some(cost_usd) = answer.cost_usd.filter(is_cost)
        {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost_usd);
        }
    }
}

impl Event {
    /// Whether it reports an end of the file that was cut off, which is about the file and not about the run.
    pub(super) fn is_torn_tail(&self, origin: Origin) -> bool {
        matches!(self, Event::Custom(custom) if origin == Origin::Host && custom.name == TORN_TAIL)
    }
}

fn step(origin: Origin, event: &Event) -> Step<'_> {
    if origin == Origin::Guest {
        return Step::Stay;
    }
    match event {
        Event::RunStarted(_) => Step::Start,
        Event::RunResumed(_) => Step::Resume,
        Event::RunCompleted(end) => Step::Complete(Some(end.status)),
        Event::NodeEnter(node) => Step::Open(Pair::Node, &node.node_id),
        Event::NodeExit(node) => Step::Close(Pair::Node, &node.node_id),
        Event::ToolCall(call) => Step::Open(Pair::Tool, &call.call_id),
        Event::ToolResult(result) => Step::Close(Pair::Tool, &result.call_id),
        Event::LlmCall(call) => match (&call.call_id, call.phase) {
            (Some(id), Some(CallPhase::Call)) => Step::Open(Pair::Llm, id),
            (Some(id), Some(CallPhase::Result)) => Step::Close(Pair::Llm, id),
            _ => Step::Stay,
        },
        Event::HttpCall(call) => Step::Open(Pair::Http, &call.call_id),
        Event::HttpResult(result) => Step::Close(Pair::Http, &result.call_id),
        Event::ApprovalRequest(request) => Step::Open(Pair::Approval, &request.approval_id),
        Event::ApprovalResponse(response) => Step::Close(Pair::Approval, &response.approval_id),
        Event::Custom(custom) if custom.name == TORN_TAIL => Step::ReportTornTail,
        // A newer version may have given these a payload that this one cannot read; they begin and
        // end a run all the same.
        Event::Unknown { kind, .. } => match kind.as_str() {
            "run_started" => Step::Start,
            "run_resumed" => Step::Resume,
            "run_completed" => Step::Complete(None),
            _ => Step::Stay,
        },
        _ => Step::Stay,
    }
}

/// Why an event cannot happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTransition {
    /// A guest claims what only the host can see.
    #[error("a guest cannot add an event of type {kind}")]
    NotForGuests {
        /// The event's type.
        kind: Box<str>,
    },
    /// Nothing comes before `run_started`.
    #[error("{kind} before run_started")]
    NotStarted {
        /// The event's type.
        kind: Box<str>,
    },
    /// A run starts once.
    #[error("run_started for a second time")]
    StartedTwice,
    /// Nothing follows the end of a run, except `run_resumed` where it can be resumed.
    #[error("{kind} after run_completed")]
    Ended {
        /// The event's type.
        kind: Box<str>,
    },
    /// The closing event of a pair has no opening one.
    #[error("end of {pair} {id:?}, which is not open")]
    NotOpen {
        /// What kind of pair.
        pair: Pair,
        /// Its id.
        id: Box<str>,
    },
    /// The opening event of a pair is there already.
    #[error("beginning of {pair} {id:?}, which is open already")]
    AlreadyOpen {
        /// What kind of pair.
        pair: Pair,
        /// Its id.
        id: Box<str>,
    },
    /// More pairs are open than a run may have.
    #[error("more than {OPEN_MAX} calls, steps and approvals open at once")]
    TooManyOpen,
    /// The id of a pair is not one that this system makes.
    #[error("id of a {pair} has {bytes} bytes: expected at most {PAIR_ID_BYTES_MAX}")]
    IdTooLong {
        /// What kind of pair.
        pair: Pair,
        /// The id's length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::super::payload::{
        ApprovalRequest, Custom, LlmCall, Log, NodeEnter, NodeExit, RunCompleted, RunResumed,
        RunStarted, ToolCall, ToolResult,
    };
    use super::{Event, IllegalTransition, Origin, Phase, RunStatus, State, TORN_TAIL, next};
    use crate::outcome::OutcomeCode;

    fn costing(cost_usd: f64) -> Event {
        LlmCall {
            cost_usd: Some(cost_usd),
            ..LlmCall::default()
        }
        .into()
    }

    #[test]
    fn costs_add_up_and_those_that_are_none_do_not_count() {
        let mut state = next(State::default(), Origin::Host, &start()).unwrap();
        assert_eq!(state.cost_usd(), None);
        for cost in [0.25, -1.0, f64::NAN, f64::INFINITY, 0.5] {
            state = next(state, Origin::Guest, &costing(cost)).unwrap();
        }
        assert_eq!(state.cost_usd(), Some(0.75));
    }

    fn start() -> Event {
        RunStarted::default().into()
    }

    fn resume() -> Event {
        RunResumed::default().into()
    }

    fn log() -> Event {
        Log::default().into()
    }

    fn call(id: &str) -> Event {
        let call_id = id.to_owned();
        ToolCall {
            call_id,
            ..ToolCall::default()
        }
        .into()
    }

    fn result(id: &str) -> Event {
        let call_id = id.to_owned();
        ToolResult {
            call_id,
            ..ToolResult::default()
        }
        .into()
    }

    fn end(status: RunStatus) -> Event {
        RunCompleted::new(status, OutcomeCode::Internal).into()
    }

    /// The state after all events, or the number of the first illegal one and why it is.
    fn run(events: &[Event]) -> Result<State, (usize, IllegalTransition)> {
        events
            .iter()
            .enumerate()
            .try_fold(State::default(), |state, (at, event)| {
                next(state, Origin::Host, event).map_err(|illegal| (at, illegal))
            })
    }

    #[test]
    fn a_run_starts_once_and_ends_once() {
        let whole = [start(), log(), end(RunStatus::Ok)];
        assert_eq!(
            run(&whole).unwrap().phase(),
            Phase::Ended(Some(RunStatus::Ok))
        );
        assert_eq!(run(&[log()]).unwrap_err().0, 0);
        assert_eq!(
            run(&[start(), start()]),
            Err((1, IllegalTransition::StartedTwice))
        );
        for late in [log(), start(), resume(), end(RunStatus::Ok)] {
            assert_eq!(
                run(&[start(), end(RunStatus::Error), late]).unwrap_err().0,
                2
            );
        }
    }

    #[test]
    fn an_interrupted_run_is_resumed_or_closed_and_nothing_else() {
        let torn: Event = Custom {
            name: TORN_TAIL.to_owned(),
            data: None,
        }
        .into();
        for status in [RunStatus::Interrupted, RunStatus::Suspended] {
            let paused = [start(), end(status)];
            assert_eq!(run(&paused).unwrap().phase(), Phase::Paused(status));
            for good in [resume(), torn.clone(), end(RunStatus::Cancelled)] {
                let [start, end] = paused.clone();
                assert!(run(&[start, end, good]).is_ok());
            }
            let [start, end] = paused;
            assert_eq!(run(&[start, end, log()]).unwrap_err().0, 2);
        }
    }

    #[test]
    fn calls_and_steps_are_paired() {
        assert!(run(&[start(), call("a"), call("b"), result("a"), result("b")]).is_ok());
        assert_eq!(run(&[start(), result("a")]).unwrap_err().0, 1);
        assert_eq!(
            run(&[start(), call("a"), result("a"), result("a")])
                .unwrap_err()
                .0,
            3
        );
        assert_eq!(run(&[start(), call("a"), call("a")]).unwrap_err().0, 2);
        let node_id = "tool:x#1".to_owned();
        let enter: Event = NodeEnter {
            node_id: node_id.clone(),
            ..NodeEnter::default()
        }
        .into();
        let exit: Event = NodeExit {
            node_id,
            ..NodeExit::default()
        }
        .into();
        assert!(run(&[start(), enter.clone(), exit.clone()]).is_ok());
        assert_eq!(run(&[start(), exit, enter]).unwrap_err().0, 1);
    }

    #[test]
    fn what_was_open_at_the_cut_may_be_done_again_or_answered_late() {
        assert!(run(&[start(), call("a"), resume(), call("a"), result("a")]).is_ok());
        assert!(run(&[start(), call("a"), resume(), result("a")]).is_ok());
        assert_eq!(
            run(&[start(), call("a"), resume(), call("a"), call("a")])
                .unwrap_err()
                .0,
            4
        );
    }

    #[test]
    fn a_guest_opens_and_closes_nothing() {
        let state = run(&[start(), call("a")]).unwrap();
        let state = next(state, Origin::Guest, &result("a")).unwrap();
        assert_eq!(state.open().count(), 1);
        let state = next(state, Origin::Guest, &call("a")).unwrap();
        assert_eq!(state.open().count(), 1);
        let request: Event = ApprovalRequest::default().into();
        for forbidden in [start(), resume(), end(RunStatus::Ok), request] {
            let refused = next(state.clone(), Origin::Guest, &forbidden);
            assert!(matches!(
                refused,
                Err(IllegalTransition::NotForGuests { .. })
            ));
        }
    }

    #[test]
    fn the_number_and_length_of_open_ids_is_bounded() {
        let mut state = run(&[start()]).unwrap();
        for n in 0..super::OPEN_MAX {
            state = next(state, Origin::Host, &call(&n.to_string())).unwrap();
        }
        let refused = next(state, Origin::Host, &call("one more"));
        assert_eq!(refused, Err(IllegalTransition::TooManyOpen));
        assert!(run(&[start(), call(&"x".repeat(2000))]).is_err());
    }
}
