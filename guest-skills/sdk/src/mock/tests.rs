//! Every call of the crate, on a mock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Mock, Seen};
use crate::approval::{Decision, Question};
use crate::llm::{Chunk, Message, Part, Request, Response, Role, StopReason, ToolUse};
use crate::log::Level;
use crate::recorder::{Custom, Event, Node};
use crate::tools::{Answer, Call, Tool};
use crate::{
    HostError, SkillError, approval, handoff, http, llm, log, recorder, run, session, tools,
};

/// A tool that knows squares of numbers below ten, says that it failed for larger ones, and refuses what
/// is no number.
fn squares() -> Mock {
    Mock::new().tool("math__square", |arguments| {
        let n = arguments["n"].as_i64();
        let n = n.ok_or_else(|| HostError::Invalid("at $.n: expected an integer".to_owned()))?;
        Ok(match n {
            0..10 => Answer::from((n * n).to_string()),
            _ => Answer::error("too large"),
        })
    })
}

fn calls(inputs: &[Value]) -> Vec<Call> {
    let arguments = inputs.iter().map(|n| json!({ "n": n }));
    arguments
        .map(|arguments| Call::new("math__square", &arguments))
        .collect()
}

#[test]
fn several_tools_answer_in_the_order_of_the_calls() {
    let record = squares().run(|| tools::invoke_all(&calls(&[json!(3), json!("x"), json!(12)]), 2));
    let [first, second, third] = record.result.as_slice() else {
        panic!("{record:?}");
    };
    assert_eq!(first.as_ref().map(Answer::text), Ok("9".to_owned()));
    let invalid = HostError::Invalid("at $.n: expected an integer".to_owned());
    assert_eq!(second, &Err(invalid));
    assert!(third.as_ref().is_ok_and(|answer| answer.is_error));
    assert_eq!(record.tool_calls().len(), 3);
}

#[test]
fn the_first_failure_in_order_stops_further_batches() {
    let inputs = [json!(1), json!(12), json!("x"), json!(2), json!(3)];
    let record = squares().run(|| tools::try_invoke_all(&calls(&inputs), 3));
    let too_large = SkillError::new("too large")
        .with_code("tool_error")
        .with_details(json!({ "call": 1 }));
    assert_eq!(record.result, Err(too_large));
    assert_eq!(record.tool_calls().len(), 3);

    let record = squares().run(|| tools::try_invoke_all(&calls(&[json!(1), json!(2)]), 0));
    assert_eq!(record.result.map(|answers| answers.len()), Ok(2));
}

#[test]
fn arguments_that_are_no_object_are_refused_as_the_host_does() {
    let record = squares().run(|| tools::invoke("math__square", &3));
    let expected = HostError::Invalid("at $: expected an object, found 3".to_owned());
    assert_eq!(record.result, Err(expected));
    assert!(record.seen.is_empty());
}

#[test]
fn mocked_tools_are_available_unless_others_are_said_to_be() {
    let names = |mock: &Mock| {
        let tools = mock.run(tools::available).result;
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&squares()), ["math__square"]);
    let tool = Tool {
        name: "a__b".to_owned(),
        description: "Does b".to_owned(),
        input_schema: json!({}),
        read_only: true,
        idempotent: true,
    };
    assert_eq!(names(&squares().available(vec![tool])), ["a__b"]);
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Number {
    n: u8,
}

#[test]
fn a_model_answers_with_a_value_of_the_type_that_is_asked_for() {
    let request = Request::new("a/b")
        .user("A number?")
        .temperature(0.5)
        .stop("!");
    let mock = Mock::new().model(|_request| Ok(json!({ "n": 7 })));
    let record = mock.run(|| llm::generate_as::<Number>(&request));
    assert_eq!(record.result, Ok(Number { n: 7 }));
    let schema = record.model_calls()[0].output_schema.as_ref().unwrap();
    assert_eq!(schema["properties"]["n"]["maximum"], 255);

    let mock = Mock::new().model(|_request| Ok("seven"));
    let result = mock.run(|| llm::generate_as::<Number>(&request)).result;
    let Err(HostError::Failed(message)) = result else {
        panic!("{result:?}");
    };
    assert!(
        message.starts_with("the model's answer does not fit"),
        "{message}"
    );
}

#[test]
fn a_streamed_answer_ends_with_the_whole() {
    let request = Request::new("a/b").user("Hello?");
    let mock = Mock::new().model(|_request| Ok("well, hello there"));
    let record = mock.run(|| {
        let mut pieces = Vec::new();
        let completion = llm::start(&request)?;
        let whole = completion.for_each_text(|text| pieces.push(text.to_owned()))?;
        Ok::<_, HostError>((pieces, whole.text()))
    });
    let pieces = ["well, ", "hello ", "there"].map(str::to_owned).to_vec();
    assert_eq!(record.result, Ok((pieces, "well, hello there".to_owned())));

    let chunks = mock.run(|| llm::start(&request).map(Iterator::collect::<Vec<_>>));
    let chunks = chunks.result.unwrap();
    assert_eq!(chunks.len(), 4);
    assert!(matches!(chunks.last(), Some(Ok(Chunk::Done(_)))));
}

#[test]
fn a_conversation_goes_on_with_the_tools_that_the_model_asks_for() {
    let mock = squares().model(|request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => Ok(Response::from("16, it says")),
        _ => Ok(Response {
            content: vec![Part::ToolUse(ToolUse {
                id: "1".to_owned(),
                name: "math__square".to_owned(),
                arguments: json!({ "n": 4 }),
            })],
            stop_reason: StopReason::ToolUse,
            ..Response::from("")
        }),
    });
    let record = mock.run(|| {
        let mut request = Request::new("a/b").system("Count.").user("4 squared?");
        for tool in tools::available() {
            request = request.tool(tool);
        }
        let answer = llm::generate(&request)?;
        let asked: Vec<ToolUse> = answer.tool_uses().cloned().collect();
        request = request.message(answer.into_message());
        for asked in asked {
            let answer = tools::invoke(&asked.name, &asked.arguments)?;
            request = request.message(Message::tool(&asked, &answer));
        }
        llm::generate(&request).map(|response| response.text())
    });
    assert_eq!(record.result, Ok("16, it says".to_owned()));
    assert_eq!(record.model_calls()[1].messages.len(), 3);
    assert_eq!(record.model_calls()[0].tools[0].name, "math__square");
}

#[test]
fn a_person_decides() {
    let mock = Mock::new().decide(|question| Decision {
        approved: question.timeout_ms.is_none(),
        reason: "in a hurry".to_owned(),
        automatic: true,
    });
    let record = mock.run(|| {
        approval::require("Go?", &json!({ "a": 1 }))?;
        Question::new("Now?", &json!({}))?
            .timeout_ms(5)
            .ask()?
            .require("Now?")
    });
    let rejected = SkillError::new("rejected: Now?: in a hurry").with_code("rejected");
    assert_eq!(record.result, Err(rejected));
    assert_eq!(record.questions()[0].payload, r#"{"a":1}"#);
}

#[test]
fn other_skills_are_called_under_the_same_mock() {
    let inner = |input: &Value| {
        recorder::step("inner", || Ok::<_, HostError>(()))?;
        match input["n"].as_u64() {
            Some(n) => Ok(json!({ "n": n + 1 })),
            None => Err(HostError::Failed("no number".to_owned())),
        }
    };
    let mock = Mock::new().skill("next", inner);
    let call = |input: Value| handoff::Call::new("next", &input);
    let record = mock.run(|| handoff::invoke::<Number>("next", &json!({ "n": 1 })));
    assert_eq!(record.result, Ok(Number { n: 2 }));
    assert_eq!(record.steps(), [("inner", true)]);
    assert_eq!(record.handoffs(), [("next", &json!({ "n": 1 }))]);

    let calls = [
        call(json!({ "n": 255 })),
        call(json!({})),
        call(json!({ "n": 3 })),
    ];
    let results = mock.run(|| handoff::invoke_all::<Number>(&calls, 0)).result;
    let Err(HostError::Failed(message)) = &results[0] else {
        panic!("{results:?}");
    };
    assert!(
        message.starts_with("the result of next does not fit"),
        "{message}"
    );
    assert_eq!(results[1], Err(HostError::Failed("no number".to_owned())));
    assert_eq!(results[2], Ok(Number { n: 4 }));
    let stopped = mock.run(|| handoff::try_invoke_all::<Number>(&calls[1..], 1));
    assert_eq!(stopped.handoffs().len(), 1);
    assert_eq!(stopped.error_code(), Some("failed"));
}

#[test]
fn what_a_skill_records_is_seen_in_its_order() {
    let record = Mock::new().run(|| {
        let outer = Node::new("outer");
        log::write(Level::Debug, "line", &[("a", "b")]);
        let seq = recorder::custom("done", &[1, 2]);
        let inner = Node::new("outer");
        let ids = [outer.id(), inner.id()];
        drop(inner);
        outer.end(true);
        outer.end(false);
        (seq, ids)
    });
    let ids = ["step:outer#1", "step:outer#2"].map(str::to_owned);
    assert_eq!(record.result, (Ok(1), ids));
    assert_eq!(record.steps(), [("outer", false), ("outer", true)]);
    let custom = Custom {
        name: "done".to_owned(),
        payload: json!([1, 2]),
    };
    assert_eq!(record.customs(), [&custom]);
    let Seen::Log { level, fields, .. } = &record.seen[1] else {
        panic!("{:?}", record.seen);
    };
    let field = ("a".to_owned(), "b".to_owned());
    assert_eq!((level, fields.as_slice()), (&Level::Debug, &[field][..]));

    let record = Mock::new().run(|| recorder::error("lost"));
    assert!(matches!(&record.seen[0], Seen::Event(Event::Error(text)) if text == "lost"));
}

#[test]
fn the_run_is_what_the_test_says() {
    let mock = Mock::new()
        .run_id("run_9")
        .parent_id("run_8")
        .skill_name("other")
        .skill_body("Be kind.")
        .remaining_ms(5)
        .attempt(2);
    let record = mock.run(|| {
        (
            run::id(),
            run::parent_id(),
            run::skill_name(),
            run::skill_body(),
            run::remaining_ms(),
            run::attempt(),
        )
    });
    let text = str::to_owned;
    let expected = (
        text("run_9"),
        Some(text("run_8")),
        text("other"),
        text("Be kind."),
        5,
        2,
    );
    assert_eq!(record.result, expected);
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap()
}

#[test]
fn what_is_not_mocked_says_what_to_add() {
    let request = Request::new("a/b").user("?");
    let cases: [(&dyn Fn(), &str); 7] = [
        (
            &|| drop(tools::invoke("a__b", &json!({}))),
            "the tool a__b is not mocked: add .tool(\"a__b\", |arguments| Ok(..))",
        ),
        (
            &|| drop(llm::start(&request)),
            "the model a/b is not mocked: add .model(|request| Ok(..))",
        ),
        (
            &|| drop(approval::request("?", &json!({}))),
            "an approval is asked for and not mocked: add .approve(true)",
        ),
        (
            &|| drop(handoff::invoke::<Value>("greet", &json!({}))),
            "the skill greet is not mocked: add .skill(\"greet\", |input| Ok(..))",
        ),
        (
            &|| drop(session::request_permission("?", &[], &json!({}))),
            "a permission is asked for and not mocked: add .permission(|request| Ok(..))",
        ),
        (
            &|| drop(http::Request::get("http://a/").send()),
            "a request to http://a/ is not mocked: add .http(|request| Ok(..))",
        ),
        (
            &|| {
                // The mock of this test is gone after `run`, also when it failed.
                let _failed = catch_unwind(|| Mock::new().run(|| panic!("on purpose")));
            },
            "",
        ),
    ];
    for (call, message) in cases {
        let caught = catch_unwind(AssertUnwindSafe(|| Mock::new().run(call)));
        match caught {
            Ok(_) => assert_eq!(message, ""),
            Err(panic) => assert_eq!(said(&*panic), message),
        }
    }
    let alone = catch_unwind(run::id).unwrap_err();
    let message = said(&*alone);
    assert!(
        message.starts_with("this code calls the host: run it in"),
        "{message}"
    );
}
