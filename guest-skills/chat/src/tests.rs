//! Each way that a turn can take, with no model, no tools and nobody to ask. Whatever happens, what a model is
//! asked has to be a conversation that every provider takes.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use skillrun_sdk::agent::{Agent as _, Context, StopReason};
use skillrun_sdk::llm::{self, Message, Part, Request, Response, Role, ToolUse, Usage};
use skillrun_sdk::mock::{Mock, MockSession, Record};
use skillrun_sdk::session::{PermissionRequest, Update};
use skillrun_sdk::tools::{Answer, Tool};
use skillrun_sdk::{HostError, SkillError};

use super::Chat;

type Turn = Record<Result<StopReason, SkillError>>;

/// Asks the agent and holds every request that it made of the model to the rules of all providers.
#[track_caller]
fn prompt(session: &mut MockSession<Chat>, text: &str) -> Turn {
    let turn = session.prompt(text);
    for request in turn.model_calls() {
        assert_is_taken(request);
    }
    turn
}

#[track_caller]
fn assert_is_taken(request: &Request) {
    let messages = &request.messages;
    assert_eq!(messages[0].role, Role::User, "{messages:?}");
    assert_ne!(messages.last().unwrap().role, Role::Assistant);
    for (at, message) in messages.iter().enumerate() {
        assert!(!message.content.is_empty(), "{messages:?}");
        assert!(!message.content.contains(&Part::Text(String::new())));
        let next = messages.get(at + 1);
        assert!(
            next.is_none_or(|next| next.role != message.role),
            "{messages:?}"
        );
        let answered = next.map(ids).filter(|_| message.role == Role::Assistant);
        if message.role == Role::Assistant {
            assert_eq!(ids(message), answered.unwrap_or_default(), "{messages:?}");
        }
    }
}

/// The ids of the tools that a message asks for or answers.
fn ids(message: &Message) -> BTreeSet<&str> {
    let ids = message.content.iter().filter_map(|part| match part {
        Part::ToolUse(wanted) => Some(wanted.id.as_str()),
        Part::ToolAnswer(answer) => Some(answer.id.as_str()),
        Part::Text(_) => None,
    });
    ids.collect()
}

fn chat(mock: &Mock) -> MockSession<Chat> {
    MockSession::start(mock, Context::default()).unwrap()
}

fn tool(name: &str, read_only: bool) -> Tool {
    Tool {
        name: name.to_owned(),
        description: "Does it".to_owned(),
        input_schema: json!({ "type": "object" }),
        read_only,
        idempotent: read_only,
    }
}

/// An answer that says something and asks for tools.
fn wants(names: &[&str]) -> Response {
    let uses = names.iter().enumerate().map(|(at, name)| {
        Part::ToolUse(ToolUse {
            id: format!("u{at}"),
            name: (*name).to_owned(),
            arguments: json!({ "at": at }),
        })
    });
    Response {
        content: [Part::Text("Let me see. ".to_owned())]
            .into_iter()
            .chain(uses)
            .collect(),
        stop_reason: llm::StopReason::ToolUse,
        ..Response::from("")
    }
}

/// A host with a tool that reads and one that writes, whose model asks for these tools, and when it has their answers,
/// says what they were.
fn with_tools(names: &'static [&'static str]) -> Mock {
    Mock::new()
        .available(vec![tool("fs__read", true), tool("fs__write", false)])
        .tool("fs__read", |_arguments| Ok("red"))
        .tool("fs__write", |_arguments| Ok("written"))
        .model(move |request| Ok(after_tools(request, names)))
}

fn after_tools(request: &Request, names: &[&str]) -> Response {
    let Some(last) = request
        .messages
        .last()
        .filter(|last| last.role == Role::Tool)
    else {
        return wants(names);
    };
    let answers = last.content.iter().filter_map(|part| match part {
        Part::ToolAnswer(answer) if answer.is_error => Some(format!("!{}", answer.content)),
        Part::ToolAnswer(answer) => Some(answer.content.clone()),
        Part::Text(_) | Part::ToolUse(_) => None,
    });
    Response::from(answers.collect::<Vec<_>>().join("|"))
}

/// A message as who says it and what, to be compared.
fn said(message: &Message) -> String {
    let parts = message.content.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::ToolUse(wanted) => format!("<{}>", wanted.id),
        Part::ToolAnswer(answer) => format!("{}={}", answer.id, answer.content),
    });
    let parts: Vec<String> = parts.collect();
    format!("{:?}: {}", message.role, parts.join(" + "))
}

fn history(turn: &Turn) -> Vec<String> {
    let last = turn.model_calls().last().copied().unwrap();
    last.messages.iter().map(said).collect()
}

#[test]
fn it_streams_and_keeps_the_conversation() {
    let mock = Mock::new().skill_body("Be kind.").model(|request| {
        let mut response = Response::from(format!("answer {}", request.messages.len()));
        response.usage = Usage {
            input_tokens: 90,
            output_tokens: 10,
            ..Usage::default()
        };
        Ok(response)
    });
    let mut session = chat(&mock);
    let turn = prompt(&mut session, "Hello");
    assert_eq!(turn.result, Ok(StopReason::EndTurn));
    let told = [
        &Update::MessageChunk("answer ".to_owned()),
        &Update::MessageChunk("1".to_owned()),
        &Update::ContextWindow(100, 200_000),
    ];
    assert_eq!(turn.updates(), told);
    let request = turn.model_calls()[0];
    assert_eq!(
        (request.model.as_str(), request.system.as_deref()),
        ("default", Some("Be kind."))
    );

    let turn = prompt(&mut session, "And?");
    assert_eq!(turn.text(), "answer 3");
    assert_eq!(
        history(&turn),
        ["User: Hello", "Assistant: answer 1", "User: And?"]
    );
}

#[test]
fn the_launcher_says_which_model_and_how_large_it_is() {
    let mock = Mock::new().model(|_request| {
        let mut response = Response::from("yes");
        response.usage.output_tokens = 1;
        Ok(response)
    });
    let start = |metadata: Value| {
        let context = Context {
            metadata,
            ..Context::default()
        };
        MockSession::<Chat>::start(&mock, context)
    };
    let mut session = start(json!({ "model": "a/b", "context_window": 50 })).unwrap();
    let turn = prompt(&mut session, "x");
    assert_eq!(turn.model_calls()[0].model, "a/b");
    assert_eq!(turn.model_calls()[0].system, None);
    assert_eq!(turn.updates()[1], &Update::ContextWindow(1, 50));
    for (metadata, message) in [
        (
            json!({ "model": 1 }),
            "metadata model: expected the name of a model, found 1",
        ),
        (
            json!({ "model": "" }),
            "metadata model: expected the name of a model, found \"\"",
        ),
        (
            json!({ "context_window": 0 }),
            "metadata context_window: expected a number of tokens above 0, found 0",
        ),
        (
            json!({ "context_window": 5_000_000_000_u64 }),
            "metadata context_window: expected a number of tokens above 0, found 5000000000",
        ),
    ] {
        let error = start(metadata).err().unwrap();
        assert_eq!(
            (error.message.as_str(), error.code.as_str()),
            (message, "invalid_input")
        );
    }
}

#[test]
fn a_tool_that_only_reads_is_called_at_once() {
    let turn = prompt(&mut chat(&with_tools(&["fs__read"])), "Colour?");
    assert_eq!(turn.result, Ok(StopReason::EndTurn));
    assert_eq!(turn.text(), "Let me see. red");
    assert_eq!(turn.tool_calls(), [("fs__read", &json!({ "at": 0 }))]);
    assert!(turn.permissions().is_empty());
    let offered = &turn.model_calls()[0].tools;
    let offered: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["fs__read", "fs__write"]);
}

#[test]
fn a_tool_that_changes_something_is_asked_about_every_time() {
    let mock = with_tools(&["fs__write"]).permission(|_request| Ok("allow"));
    let mut session = chat(&mock);
    for _ in 0..2 {
        let turn = prompt(&mut session, "Write it.");
        assert_eq!(turn.text(), "Let me see. written");
        let [asked] = turn.permissions()[..] else {
            panic!("{turn:?}");
        };
        assert_eq!(asked.title, "Call fs__write?");
        let details: Value = serde_json::from_str(&asked.details).unwrap();
        assert_eq!(
            details,
            json!({ "tool": "fs__write", "arguments": { "at": 0 } })
        );
        let ids: Vec<&str> = asked.options.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["allow", "allow_always", "deny"]);
    }
}

#[test]
fn always_is_remembered_for_that_tool_alone() {
    let mock = with_tools(&["fs__write"]).permission(|_request| Ok("allow_always"));
    let mut session = chat(&mock);
    assert_eq!(prompt(&mut session, "Write it.").permissions().len(), 1);
    let turn = prompt(&mut session, "Again.");
    assert_eq!((turn.permissions().len(), turn.tool_calls().len()), (0, 1));

    let other = with_tools(&["fs__move"])
        .available(vec![tool("fs__move", false), tool("fs__write", false)])
        .tool("fs__move", |_arguments| Ok("moved"))
        .permission(|_request| Ok("deny"));
    session.set_mock(&other);
    let turn = prompt(&mut session, "Move it.");
    assert_eq!((turn.permissions().len(), turn.tool_calls().len()), (1, 0));
}

#[test]
fn what_is_denied_is_not_called_and_the_model_and_the_person_are_told() {
    type Choice = fn(&PermissionRequest) -> Result<String, HostError>;
    let cases: [(Choice, &str); 4] = [
        (|_| Ok("deny".to_owned()), "the user said no"),
        // An id that was not offered is no yes.
        (|_| Ok("Allow".to_owned()), "the user said no"),
        (
            |_| Err(HostError::TimedOut(5)),
            "nobody allowed it: no answer within 5 ms",
        ),
        (
            |_| Err(HostError::Denied("approval".to_owned())),
            "nobody allowed it: denied: approval is not granted",
        ),
    ];
    for (choose, why) in cases {
        let mock = with_tools(&["fs__write"]).permission(choose);
        let turn = prompt(&mut chat(&mock), "Write it.");
        assert_eq!(turn.result, Ok(StopReason::EndTurn));
        assert!(turn.tool_calls().is_empty());
        assert_eq!(turn.text(), format!("Let me see. !not called: {why}"));
        let explained = Update::Reasoning(format!("fs__write was not called: {why}"));
        assert!(turn.updates().contains(&&explained), "{turn:?}");
    }
}

#[test]
fn what_a_tool_cannot_do_is_told_to_the_model() {
    type Respond = fn(&Value) -> Result<Answer, HostError>;
    let cases: [(Respond, &str, bool); 5] = [
        (|_| Ok(Answer::error("disk full")), "!disk full", false),
        (
            |_| Err(HostError::TimedOut(9)),
            "!no answer within 9 ms",
            false,
        ),
        (
            |_| Err(HostError::Denied("tool:fs__read".to_owned())),
            "!denied: tool:fs__read is not granted",
            true,
        ),
        (|_| Ok(Answer::default()), "", false),
        (
            |_| {
                Ok(Answer {
                    content: vec![json!({ "type": "image" }).into()],
                    is_error: false,
                })
            },
            r#"{"type":"image"}"#,
            false,
        ),
    ];
    for (respond, told, is_explained) in cases {
        let mock = with_tools(&["fs__read"]).tool("fs__read", respond);
        let turn = prompt(&mut chat(&mock), "Colour?");
        assert_eq!(turn.text(), format!("Let me see. {told}"));
        let explains = |update: &&Update| matches!(update, Update::Reasoning(_));
        assert_eq!(turn.updates().iter().any(explains), is_explained);
    }
    let turn = prompt(&mut chat(&with_tools(&["fs__burn"])), "Burn it.");
    assert_eq!(turn.text(), "Let me see. !there is no tool fs__burn");
}

#[test]
fn the_answer_of_a_tool_is_cut_between_characters() {
    let mock = with_tools(&["fs__read"]).tool("fs__read", |_arguments| Ok("€".repeat(30_000)));
    let text = prompt(&mut chat(&mock), "Read it.").text();
    assert!(text.ends_with("€\n[cut: 90000 bytes in all]"));
    assert_eq!(text.matches('€').count(), 64 * 1024 / 3);
}

#[test]
fn a_model_that_goes_in_circles_is_stopped_and_can_be_asked_again() {
    let circles = with_tools(&[]).model(|_request| Ok(wants(&["fs__read"])));
    let mut session = chat(&circles);
    let turn = prompt(&mut session, "Read.");
    assert_eq!(turn.error_code(), Some("too_many_rounds"));
    assert_eq!(
        (turn.model_calls().len(), turn.tool_calls().len()),
        (16, 16)
    );
    session.set_mock(&Mock::new().model(|_request| Ok("sorry")));
    assert_eq!(prompt(&mut session, "Well?").text(), "sorry");
}

#[test]
fn why_the_model_stopped_is_passed_on_and_cut_requests_for_tools_are_not_carried_out() {
    for (stopped, expected) in [
        (llm::StopReason::TokenLimit, StopReason::TokenLimit),
        (llm::StopReason::Refusal, StopReason::Refusal),
    ] {
        let mock = with_tools(&[]).model(move |request| {
            let is_first = request.messages.len() == 1;
            let response = if is_first {
                wants(&["fs__read"])
            } else {
                "".into()
            };
            Ok(Response {
                stop_reason: stopped,
                ..response
            })
        });
        let mut session = chat(&mock);
        let turn = prompt(&mut session, "Read.");
        assert_eq!(turn.result, Ok(expected));
        assert!(turn.tool_calls().is_empty());
        // The second answer is empty, and the third turn comes after it.
        assert_eq!(prompt(&mut session, "Well?").result, Ok(expected));
        let turn = prompt(&mut session, "Hello?");
        assert_eq!(history(&turn).last().unwrap(), "User: Well? + Hello?");
    }
    let stopped = Mock::new().model(|_request| {
        Ok(Response {
            stop_reason: llm::StopReason::StopSequence,
            ..Response::from("so")
        })
    });
    let turn = prompt(&mut chat(&stopped), "x");
    assert_eq!(turn.result, Ok(StopReason::EndTurn));
}

#[test]
fn a_turn_that_is_cancelled_while_the_model_speaks_keeps_what_was_said() {
    let mock = Mock::new().model(|_request| Ok("one two three"));
    let mut session = chat(&mock.clone().broken_stream(2, HostError::Cancelled));
    let turn = prompt(&mut session, "Count.");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));
    assert_eq!(turn.text(), "one two ");

    session.set_mock(&mock.clone().broken_stream(0, HostError::Cancelled));
    let turn = prompt(&mut session, "Go on.");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));

    session.set_mock(&mock);
    let turn = prompt(&mut session, "Still there?");
    assert_eq!(
        history(&turn),
        [
            "User: Count.",
            "Assistant: one two ",
            "User: Go on. + Still there?"
        ]
    );
}

/// The answer is whole by then.
#[test]
fn a_turn_that_is_cancelled_when_it_tells_the_usage_keeps_the_answer() {
    let mock = Mock::new().model(|_request| {
        let mut response = Response::from("whole");
        response.usage.output_tokens = 1;
        Ok(response)
    });
    let cancelled = mock.clone().emit(|update| match update {
        Update::ContextWindow(..) => Err(HostError::Cancelled),
        _ => Ok(()),
    });
    let mut session = chat(&cancelled);
    let turn = prompt(&mut session, "Hello");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));
    session.set_mock(&mock);
    let turn = prompt(&mut session, "And?");
    assert_eq!(
        history(&turn),
        ["User: Hello", "Assistant: whole", "User: And?"]
    );
}

#[test]
fn a_turn_that_is_cancelled_among_tools_leaves_no_request_open() {
    let asked = Cell::new(0);
    let mock = with_tools(&["fs__read", "fs__write", "fs__read"]).permission(move |_request| {
        asked.set(asked.get() + 1);
        match asked.get() {
            1 => Err(HostError::Cancelled),
            _ => Ok("deny"),
        }
    });
    let mut session = chat(&mock);
    let turn = prompt(&mut session, "Do it.");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));
    assert_eq!(turn.tool_calls().len(), 1);

    session.set_mock(&Mock::new().model(|_request| Ok("yes")));
    let turn = prompt(&mut session, "Still there?");
    assert_eq!(
        history(&turn),
        [
            "User: Do it.",
            "Assistant: Let me see.  + <u0> + <u1> + <u2>",
            "Tool: u0=red + u1=cancelled + u2=cancelled",
            "User: Still there?",
        ]
    );

    let cancelled = with_tools(&["fs__read"]).tool("fs__read", |_arguments| {
        Err::<Answer, _>(HostError::Cancelled)
    });
    session.set_mock(&cancelled);
    let turn = prompt(&mut session, "Again.");
    assert_eq!(turn.result, Ok(StopReason::Cancelled));
    session.set_mock(&mock);
    let turn = prompt(&mut session, "Again.");
    assert_eq!(turn.result, Ok(StopReason::EndTurn));
}

#[test]
fn a_model_that_fails_ends_the_turn_and_not_the_conversation() {
    let failing =
        Mock::new().model(|_request| Err::<Response, _>(HostError::Failed("down".into())));
    let mut session = chat(&failing);
    let turn = prompt(&mut session, "Hello");
    let failed = SkillError::new("down").with_code("failed");
    assert_eq!(turn.result, Err(failed));
    session.set_mock(&Mock::new().model(|_request| Ok("up")));
    let turn = prompt(&mut session, "And now?");
    assert_eq!(history(&turn), ["User: Hello + And now?"]);
    let turn = prompt(&mut session, " \n");
    assert_eq!(turn.error_code(), Some("invalid_input"));
    assert!(turn.model_calls().is_empty());
}

#[test]
fn the_oldest_turns_are_forgotten_when_there_is_no_room() {
    let mock = with_tools(&["fs__read"]);
    let context = Context {
        // 300 bytes.
        metadata: json!({ "context_window": 100 }),
        ..Context::default()
    };
    let mut session = MockSession::start(&mock, context).unwrap();
    prompt(&mut session, &format!("first {}", "x".repeat(100)));
    prompt(&mut session, &format!("second {}", "x".repeat(60)));
    let turn = prompt(&mut session, &format!("third {}", "x".repeat(100)));
    let history = history(&turn);
    assert!(history[0].starts_with("User: second"), "{history:?}");
    assert!(history[4].starts_with("User: third"), "{history:?}");
    let turn = prompt(&mut session, &"y".repeat(1000));
    assert_eq!(turn.model_calls()[0].messages.len(), 1);
}

#[test]
fn it_says_what_it_is() {
    let descriptor = Chat::describe();
    assert_eq!(descriptor.name, "chat");
    assert_eq!(
        descriptor.description,
        "Talks with a person and uses tools on the way"
    );
    assert_eq!(descriptor.input_schema, "");
}
