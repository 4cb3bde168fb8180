//! Servers that are busy, wrong, slow, or not there.

use skillrun::models::ModelError;

use super::{KEY, answering_each, ask, at, configured, json_response, response, start};
use crate::harness::Reserved;
use crate::http::server::{Server, wait_for_close};
use crate::http::tls;

const WHOLE: [(&str, &str); 2] = [
    (
        "openai",
        r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    ),
    (
        "anthropic",
        r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#,
    ),
];

fn refusal(status: &str, fields: &str) -> Vec<u8> {
    let fields = format!("Content-Type: application/json\r\n{fields}");
    let body = r#"{"error":{"type":"some_error","message":"come\nback"}}"#;
    response(status, &fields, body)
}

#[tokio::test]
async fn what_may_go_well_the_next_time_is_tried_again() {
    for (api, whole) in WHOLE {
        let server = answering_each(vec![
            refusal("429 Too Many Requests", "Retry-After: 0\r\n"),
            refusal("500 Oops", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            refusal("529 Overloaded", "Retry-After: 0\r\n"),
            json_response(whole),
        ]);
        ask(&at(api, &server, "")).await.unwrap();
        let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies.len(), 4);
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[tokio::test]
async fn the_last_failure_is_told_with_the_number_of_attempts() {
    let server = answering_each(vec![
        refusal("503 Unavailable", "Retry-After: 0\r\n"),
        refusal("429 Too Many Requests", "Retry-After: 0\r\n"),
    ]);
    let error = ask(&at("openai", &server, "retries_max = 2"))
        .await
        .unwrap_err();
    let expected = "acme: HTTP status 429 after 3 attempts: come back";
    assert_eq!(error, ModelError::Failed(expected.to_owned()));
    assert_eq!(server.seen().len(), 3);
}

/// A wait that would outlast the time for the answer is not begun.
#[tokio::test]
async fn nothing_is_waited_for_beyond_the_deadline() {
    let server = Server::answering(refusal("429 Too Many Requests", "Retry-After: 3600\r\n"));
    let models = at("anthropic", &server, "timeout_ms = 59_000");
    for error in [
        ask(&models).await.unwrap_err(),
        start(&models).await.err().unwrap(),
    ] {
        assert_eq!(
            error,
            ModelError::Failed("acme: HTTP status 429: come back".to_owned())
        );
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn what_cannot_go_well_is_not_tried_again() {
    let unknown = r#"{"error":{"code":"model_not_found","message":"no"}}"#;
    let json = "Content-Type: application/json\r\n";
    for (answer, error) in [
        (
            refusal("400 Bad Request", ""),
            ModelError::Invalid("acme: HTTP status 400: come back".to_owned()),
        ),
        (
            refusal("401 Unauthorized", ""),
            ModelError::Failed("acme: HTTP status 401: come back".to_owned()),
        ),
        (
            response("404 Not Found", json, unknown),
            ModelError::NotFound("acme/large".to_owned()),
        ),
        (
            response("404 Not Found", "", "nothing here"),
            ModelError::Failed("acme: HTTP status 404: nothing here".to_owned()),
        ),
        (
            response("302 Found", "Location: http://127.0.0.1:1/\r\n", ""),
            ModelError::Failed("acme: HTTP status 302:".to_owned()),
        ),
    ] {
        let server = Server::answering(answer);
        let got = ask(&at("openai", &server, "")).await.unwrap_err();
        assert_eq!(got, error);
        assert_eq!(server.seen().len(), 1);
    }
}

/// Each of these is no answer, and is told as such.
#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let openai = |body: &str| ("openai", json_response(body));
    let anthropic = |body: &str| ("anthropic", json_response(body));
    let usage = r#""usage":{"prompt_tokens":1,"completion_tokens":1}"#;
    let tools = format!(
        r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"1","function":{{"name":"t","arguments":"{{"}}}}]}},"finish_reason":"tool_calls"}}],{usage}}}"#
    );
    for ((api, answer), part) in [
        (openai("{"), "malformed answer"),
        (openai("[]"), "malformed answer"),
        (openai(r#"{"choices":7}"#), "malformed answer"),
        (openai(r#"{"error":{"message":"why"}}"#), "acme: why"),
        (openai(&format!("{{\"choices\":[],{usage}}}")), "broke off"),
        (
            openai(r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#),
            "how many tokens",
        ),
        (
            openai(&format!(
                r#"{{"choices":[{{"message":{{}},"finish_reason":"error"}}],{usage}}}"#
            )),
            "with an error",
        ),
        (openai(&tools), "arguments for \"t\" are no JSON object"),
        (openai("\u{1}\u{0}"), "malformed answer"),
        (anthropic("null"), "malformed answer"),
        (
            anthropic(r#"{"type":"error","error":{"message":"why"}}"#),
            "acme: why",
        ),
        (anthropic(r#"{"type":"completion"}"#), "expected a message"),
        (
            anthropic(r#"{"content":[],"stop_reason":"end_turn"}"#),
            "how many tokens",
        ),
        (
            anthropic(r#"{"content":[],"stop_reason":"end_turn","usage":{"input_tokens":-1}}"#),
            "malformed answer",
        ),
        (
            anthropic(
                r#"{"content":[{"type":"tool_use","id":"1","name":"t","input":[1]}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}"#,
            ),
            "arguments for \"t\" are no JSON object",
        ),
        (
            (
                "openai",
                response("200 OK", "Content-Type: text/html\r\n", "<html>"),
            ),
            "answer of type \"text/html\": expected application/json",
        ),
        (
            ("openai", response("200 OK", "", "{}")),
            "answer of type \"\": expected application/json",
        ),
    ] {
        let server = Server::answering(answer);
        let error = ask(&at(api, &server, "")).await.unwrap_err();
        let ModelError::Failed(problem) = &error else {
            panic!("{error:?}")
        };
        assert!(
            problem.starts_with("acme: ") && problem.contains(part),
            "{part}: {problem}"
        );
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_given_up() {
    let server = Server::start(|_, wire| {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 52428800\r\n\r\n";
        wire.write_all(head.as_bytes())?;
        let piece = vec![b' '; 1024 * 1024];
        (0..50).try_for_each(|_| wire.write_all(&piece))
    });
    let error = ask(&at("openai", &server, "")).await.unwrap_err();
    let expected = "acme: answer of more than 16777216 bytes";
    assert_eq!(error, ModelError::Failed(expected.to_owned()));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let server = Server::start(|_, wire| {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        wire.write_all(head.as_bytes())
    });
    let error = ask(&at("openai", &server, "")).await.unwrap_err();
    assert!(error.to_string().contains("broke off"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of() {
    let nobody = Reserved::new();
    let url = format!("http://{}/v1", nobody.address);
    let models = configured("openai", &url, "retries_max = 0");
    let error = ask(&models).await.unwrap_err();
    let ModelError::Failed(problem) = &error else {
        panic!("{error:?}")
    };
    assert!(problem.starts_with("acme: no connection: "), "{problem}");
}

/// A server that takes a request and says nothing; the time of the test runs as soon as it has it.
async fn silent(lines: &str) -> ModelError {
    let server = Server::start(|_, wire| {
        wait_for_close(wire);
        Ok(())
    });
    let models = at("openai", &server, lines);
    let asked = tokio::spawn(async move { ask(&models).await });
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let error = asked.await.unwrap().unwrap_err();
    tokio::time::resume();
    error
}

#[tokio::test]
async fn a_server_that_never_answers_has_its_time() {
    let error = silent("timeout_ms = 100_000").await;
    let timeout_ms = 100_000;
    assert_eq!(error, ModelError::TimedOut { timeout_ms });
    assert_eq!(silent("").await.to_string(), "no answer within 120000 ms");
}

/// The key is with the server and nowhere else, whatever the server does with it.
#[tokio::test]
async fn the_key_is_in_no_error() {
    let said = serde_json::json!({ "error": { "message": format!("bad key {KEY}, {KEY:?}") } });
    let json = "Content-Type: application/json\r\n";
    let as_type = format!("Content-Type: {KEY}\r\n");
    let as_data = serde_json::json!({ "choices": KEY }).to_string();
    for answer in [
        response("401 Unauthorized", json, &said.to_string()),
        response("500 Oops", "", KEY),
        response("400 Bad Request", "", &said.to_string()[1..]),
        response("200 OK", &as_type, "{}"),
        response("200 OK", json, &said.to_string()),
        response("200 OK", json, &as_data),
    ] {
        for (api, _) in WHOLE {
            let server = Server::answering(answer.clone());
            let models = at(api, &server, "retries_max = 0");
            let error = ask(&models).await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("to-be-seen"), "{text}");
        }
    }
}

#[tokio::test]
async fn an_authority_of_the_operators_own_is_trusted_and_no_other() {
    let server = tls::server();
    let url = format!("https://localhost:{}/v1", server.address.port());
    let untrusted = configured("openai", &url, "retries_max = 0");
    let error = ask(&untrusted).await.unwrap_err();
    assert!(error.to_string().contains("no connection"), "{error}");
    let lines = format!("[http]\nca_file = {:?}", tls::file("ca.pem"));
    // What this server says is no answer, but it is heard.
    let error = ask(&configured("openai", &url, &lines)).await.unwrap_err();
    assert!(error.to_string().contains("answer of type"), "{error}");
    assert_eq!(server.seen().len(), 1);
}
