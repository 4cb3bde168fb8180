//! What is a case, and where one that is none goes wrong.

use std::path::Path;

use proptest::prelude::*;

use super::{Case, ModelReply, Said, SkillMock, ToolReply, parse};
use crate::call::Effect;

fn read(text: &str) -> Result<Vec<Case>, String> {
    parse(Path::new("c.json"), text).map_err(|error| error.to_string())
}

#[test]
fn a_file_holds_one_case_or_several() {
    assert_eq!(read("{}").unwrap().len(), 1);
    assert_eq!(read("[{}, {\"name\": \"b\"}]").unwrap().len(), 2);
    assert_eq!(read("[]").unwrap().len(), 0);
}

#[test]
fn every_kind_of_answer_is_read() {
    let text = r#"{
        "input": { "n": 1.50 },
        "grants": ["env:LANG"],
        "tools": {
            "a__one": { "text": "x", "effect": "read", "schema": { "type": "object" } },
            "a__many": [{ "content": [] }, { "fails": "gone" }],
            "a__both": { "answers": [{ "text": "x", "is_error": true }] }
        },
        "models": [
            { "text": "hi", "usage": { "output_tokens": 3 } },
            { "json": null },
            { "tool_use": { "name": "a__one", "arguments": { "b": 1 } } },
            { "fails": "overloaded" }
        ],
        "approvals": [true, { "approved": false, "reason": "no" }],
        "skills": { "one": { "fails": "x" }, "two": { "fails": "x", "more": 1 }, "three": [1] },
        "expect": { "output": null, "code": "ok", "events": [{ "type": "log" }], "calls": 0 }
    }"#;
    let case = read(text).unwrap().pop().unwrap();
    assert_eq!(case.input.unwrap().as_str(), r#"{"n":1.50}"#);
    assert!(case.tools["a__one"].repeats);
    assert_eq!(case.tools["a__one"].effect, Effect::Read);
    assert_eq!(case.tools["a__many"].effect, Effect::Write);
    assert!(matches!(&case.tools["a__many"].replies[1], ToolReply::Fails(why) if why == "gone"));
    assert!(
        matches!(&case.tools["a__both"].replies[0], ToolReply::Answers(answer) if answer.is_error)
    );
    assert!(matches!(
        &case.models[1],
        ModelReply::Answers { said: Said::Text(text), .. } if text == "null"
    ));
    assert_eq!(case.approvals[1].reason, "no");
    assert!(matches!(case.skills["one"], SkillMock::Fails(_)));
    assert!(matches!(case.skills["two"], SkillMock::Answers(_)));
    assert_eq!(case.expect.output, Some(serde_json::Value::Null));
    assert_eq!(case.expect.output_like, None);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, place, part) in [
        ("", "1:1", "EOF"),
        ("3", "1:1", "an object, or an array of objects"),
        ("{\n\"inputs\": {}}", "2:8", "unknown field `inputs`"),
        ("{\"input\": []}", "1:13", "expected a JSON object"),
        ("{\"grants\": [\"fs:ro:*=/a\"]}", "1:", "cannot be granted"),
        ("{\"grants\": [\"disk:/\"]}", "1:", "unknown capability"),
        ("{\"tools\": {\n\"a\": {\"texts\": \"\"}}}", "2:", "`texts`"),
        ("{\"tools\": {\"a\": {}}}", "1:", "exactly one of text"),
        (
            "{\"tools\": {\"a\": {\"text\": \"\", \"fails\": \"\"}}}",
            "1:",
            "exactly one",
        ),
        (
            "{\"tools\": {\"a\": {\"answers\": [], \"text\": \"\"}}}",
            "1:",
            "stands alone",
        ),
        ("{\"tools\": {\"a\": [], \"a\": []}}", "1:", "duplicate key"),
        (
            "{\"tools\": {\"a\": {\"text\": \"\", \"schema\": 3}}}",
            "1:",
            "JSON Schema",
        ),
        (
            "{\"tools\": {\"a\": {\"text\": \"\", \"effect\": \"r\"}}}",
            "1:",
            "idempotent",
        ),
        (
            "{\"models\": [{\"text\": \"\", \"json\": 1}]}",
            "1:",
            "exactly one of text, json",
        ),
        (
            "{\"models\": [{\"text\": \"\", \"usage\": {\"tokens\": 1}}]}",
            "1:",
            "`tokens`",
        ),
        ("{\"approvals\": [1]}", "1:", "true, false, or an object"),
        ("{\"expect\": {\n\n\"outputs\": 1}}", "3:9", "`outputs`"),
        ("{\"expect\": {\"code\": \"fine\"}}", "1:", "skill_error"),
        ("{\"expect\": {\"calls\": -1}}", "1:", "-1"),
        (
            "{\"expect\": {\"events\": [{}]}}",
            "1:",
            "missing field `type`",
        ),
        (
            "{\"expect\": {\"events\": [{\"type\": \"logs\"}]}}",
            "1:",
            "`log`",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(
            error.starts_with(&format!("c.json:{place}")),
            "{text}: {error}"
        );
        assert!(
            error.contains(part) && !error.contains(" at line"),
            "{text}: {error}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        text in "(\\{|\\}|\\[|\\]|,|:|\"(name|input|grants|tools|models|approvals|skills|expect|output|events|type|log|text|fails|answers|a__b)\"|true|null|-?[0-9]{1,20}|1e999| |\n){0,40}",
    ) {
        let _read = read(&text);
    }

    #[test]
    fn a_case_with_a_key_too_many_is_never_taken(key in "[a-z_]{1,12}") {
        let known = ["name", "input", "grants", "tools", "models", "approvals", "skills", "expect"];
        prop_assume!(!known.contains(&key.as_str()));
        let text = format!("{{\"{key}\": null}}");
        prop_assert!(read(&text).is_err(), "{}", text);
    }
}
