//! The life of an agent, and what it tells and asks on the way.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::json;

use super::MockSession;
use crate::agent::{Agent, Context, Lifecycle, NOT_STARTED, StopReason};
use crate::llm::{self, Request};
use crate::mock::{Mock, Seen};
use crate::session::{self, PlanEntry, PlanStatus, Update};
use crate::{Descriptor, HostError, SkillError, log};

/// Adds up the numbers that it is prompted with.
#[derive(Debug)]
struct Sum {
    total: u32,
}

impl Agent for Sum {
    fn describe() -> Descriptor {
        Descriptor::new("sum", "1.0.0", "Adds up")
    }

    fn start(context: Context) -> Result<Self, SkillError> {
        let total = context.number("from").unwrap_or(0);
        let total = u32::try_from(total).map_err(|_| SkillError::new("too much"))?;
        Ok(Self { total })
    }

    fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> {
        match text.parse::<u32>() {
            Ok(number) => self.total += number,
            Err(_) => return Err(SkillError::new("no number")),
        }
        session::emit_text("it is ")?;
        session::emit_text(&self.total.to_string())?;
        Ok(StopReason::EndTurn)
    }

    fn finish(self) {
        log::info(&format!("finished at {}", self.total));
    }
}

fn sum(mock: &Mock) -> MockSession<Sum> {
    MockSession::start(mock, Context::default()).unwrap()
}

#[test]
fn an_agent_keeps_what_it_knows_from_turn_to_turn_and_through_errors() {
    let mock = Mock::new();
    let context = Context {
        metadata: json!({ "from": 40 }),
        ..Context::default()
    };
    let mut session = MockSession::<Sum>::start(&mock, context).unwrap();
    assert_eq!(session.prompt("1").text(), "it is 41");
    let failed = session.prompt("x");
    assert_eq!(failed.result, Err(SkillError::new("no number")));
    assert_eq!(failed.text(), "");
    let turn = session.prompt("1");
    assert_eq!(
        (turn.result.clone(), turn.text()),
        (Ok(StopReason::EndTurn), "it is 42".to_owned())
    );
    assert_eq!(session.finish().log_messages(), ["finished at 42"]);
}

#[test]
fn an_agent_that_does_not_start_has_no_session() {
    let context = Context {
        metadata: json!({ "from": u64::MAX }),
        ..Context::default()
    };
    let started = MockSession::<Sum>::start(&Mock::new(), context);
    assert_eq!(started.err(), Some(SkillError::new("too much")));
}

#[test]
fn a_prompt_before_the_start_and_after_the_end_is_an_error() {
    let agent = Lifecycle::<Sum>::new();
    let record = Mock::new().run(|| {
        let early = agent.prompt("1");
        // Nothing that could finish is there.
        agent.finish();
        agent.start(Context::default()).unwrap();
        let between = agent.prompt("1");
        agent.finish();
        agent.finish();
        [early, between, agent.prompt("1")]
    });
    let codes = record.result.map(|turn| turn.map_err(|error| error.code));
    let not_started = Err(NOT_STARTED.to_owned());
    assert_eq!(
        codes,
        [not_started.clone(), Ok(StopReason::EndTurn), not_started]
    );
    let messages = record
        .seen
        .iter()
        .filter(|seen| matches!(seen, Seen::Log { .. }));
    assert_eq!(messages.count(), 1, "it finished once");
}

#[test]
fn a_refusal_because_of_a_cancelled_turn_ends_it_as_cancelled() {
    let told = Rc::new(Cell::new(0));
    let mock = Mock::new().emit(move |update| {
        assert!(matches!(update, Update::MessageChunk(_)));
        told.set(told.get() + 1);
        match told.get() {
            2 => Err(HostError::Cancelled),
            _ => Ok(()),
        }
    });
    let mut session = sum(&mock);
    let turn = session.prompt("1");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));
    assert_eq!(turn.text(), "it is ", "what was refused was not told");
    session.set_mock(&Mock::new());
    assert_eq!(session.prompt("1").text(), "it is 2");

    session.set_mock(&Mock::new().emit(|_update| Err(HostError::Failed("gone".to_owned()))));
    let failed = session.prompt("1").result.map_err(|error| error.code);
    assert_eq!(failed, Err("failed".to_owned()));
}

#[test]
fn what_is_told_and_asked_is_seen_in_its_order() {
    let mock = Mock::new().permission(|request| match request.title.as_str() {
        "Delete it?" => Ok(request.options[1].id.clone()),
        _ => Err(HostError::TimedOut(5)),
    });
    let entries = [
        PlanEntry::new("look", PlanStatus::Completed),
        PlanEntry::new("act", PlanStatus::InProgress),
    ];
    let record = mock.run(|| {
        session::reasoning("because")?;
        session::plan(&entries)?;
        session::context_window(10, 200)?;
        let options = [("yes", "Do it"), ("no", "Leave it")];
        let chosen = session::request_permission("Delete it?", &options, &json!({ "id": 1 }))?;
        let refused = session::request_permission("And that?", &[], &json!(null));
        Ok::<_, HostError>((chosen, refused))
    });
    assert_eq!(
        record.result,
        Ok(("no".to_owned(), Err(HostError::TimedOut(5))))
    );
    assert_eq!(
        record.updates(),
        [
            &Update::Reasoning("because".to_owned()),
            &Update::Plan(entries.to_vec()),
            &Update::ContextWindow(10, 200),
        ]
    );
    assert_eq!(record.text(), "", "an explanation is no part of the answer");
    let asked = record.permissions();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].details, r#"{"id":1}"#);
    assert_eq!(asked[0].options[0].label, "Do it");
    assert!(matches!(record.seen.last(), Some(Seen::Permission(_))));
}

#[test]
fn a_stream_breaks_off_where_the_test_says() {
    let request = Request::new("a/b").user("Hello?");
    let pieces = |mock: &Mock| {
        let record = mock.run(|| llm::start(&request).map(Iterator::collect::<Vec<_>>));
        record.result.unwrap()
    };
    let mock = Mock::new().model(|_request| Ok("one two three"));
    let broken = pieces(&mock.clone().broken_stream(2, HostError::Cancelled));
    assert_eq!(broken.len(), 3, "{broken:?}");
    assert!(broken[..2].iter().all(Result::is_ok), "{broken:?}");
    assert_eq!(broken[2], Err(HostError::Cancelled));
    let whole = pieces(&mock.broken_stream(4, HostError::Cancelled));
    assert_eq!(whole.len(), 4);
    assert!(whole.iter().all(Result::is_ok), "{whole:?}");
}
