//! Streams that are split, cut, wrong or slow.

use std::sync::mpsc;

use skillrun::call::{ModelChunk, Part};
use skillrun::models::ModelError;

use super::{
    STREAM_HEAD, answering_each, at, chunks, json_response, response, start, stream_response,
};
use crate::http::server::{Server, wait_for_close};

const OPENAI: &str = "\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"gr\u{fc}n \u{1f600}\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n\
data: [DONE]\n\n";

const ANTHROPIC: &str = "\
event: message_start\r\n\
data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\r\n\r\n\
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"gr\u{fc}n \u{1f600}\"}}\r\n\r\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\r\n\r\n\
data: {\"type\":\"message_stop\"}\r\n\r\n";

const BOTH: [(&str, &str); 2] = [("openai", OPENAI), ("anthropic", ANTHROPIC)];

/// Each byte is a chunk of HTTP and, as far as the system lets it, a segment of its own.
#[tokio::test]
async fn letters_that_are_split_between_segments_are_whole() {
    for (api, events) in BOTH {
        let server = Server::start(move |_, wire| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                        Transfer-Encoding: chunked\r\n\r\n";
            wire.write_all(head.as_bytes())?;
            for byte in events.bytes() {
                wire.write_all(&[b"1\r\n", [byte].as_slice(), b"\r\n"].concat())?;
                wire.flush()?;
            }
            wire.write_all(b"0\r\n\r\n")
        });
        let models = at(api, &server, "");
        let (chunks, error) = chunks(start(&models).await.unwrap()).await;
        assert_eq!(error, None, "{api}");
        let [ModelChunk::Text(text), ModelChunk::Done(done)] = chunks.as_slice() else {
            panic!("{chunks:?}")
        };
        assert_eq!(text, "gr\u{fc}n \u{1f600}");
        assert_eq!(done.content, [Part::Text(text.clone())]);
    }
}

/// Wherever a stream is cut, what came before is given and the end is an error. Only what follows the
/// last thing that counts may be missing.
#[tokio::test]
async fn a_stream_that_is_cut_ends_with_an_error() {
    for (api, events) in BOTH {
        let counts = if api == "openai" {
            events.find("data: [DONE]").unwrap()
        } else {
            events.find("data: {\"type\":\"message_stop").unwrap()
        };
        for cut in (0..counts - 2).step_by(23) {
            let cut = events.floor_char_boundary(cut);
            let server = Server::answering(stream_response(&events[..cut]));
            let models = at(api, &server, "");
            let (chunks, error) = chunks(start(&models).await.unwrap()).await;
            let Some(ModelError::Failed(problem)) = &error else {
                panic!("{api} at {cut}: {error:?} {chunks:?}")
            };
            let is_known = problem.contains("broke off") || problem.contains("how many tokens");
            assert!(is_known, "{api} at {cut}: {problem}");
            assert_eq!(server.seen().len(), 1);
        }
    }
}

/// A letter that is cut in the middle, and a connection that ends before its announced length.
#[tokio::test]
async fn a_connection_that_breaks_ends_with_an_error() {
    let server = Server::start(|_, wire| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Content-Length: 10000\r\n\r\n";
        wire.write_all(head.as_bytes())?;
        wire.write_all(&OPENAI.as_bytes()[..OPENAI.find('\u{fc}').unwrap() + 1])
    });
    let models = at("openai", &server, "");
    let (chunks, error) = chunks(start(&models).await.unwrap()).await;
    assert_eq!(chunks, []);
    assert!(error.unwrap().to_string().contains("broke off"));
}

#[tokio::test]
async fn what_is_no_stream_is_an_error() {
    let error_event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let arguments = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"t\",\"arguments\":\"[\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n";
    let many = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{}]}}}}]}}\n\n",
        vec!["{\"function\":{\"name\":\"t\"}}"; 300].join(",")
    );
    for (api, events, part) in [
        ("openai", "data: {\n\n", "malformed answer"),
        ("openai", "data: {\"error\":\"why\"}\n\n", "acme: why"),
        ("openai", "data: [DONE]\n\n", "broke off"),
        (
            "openai",
            arguments,
            "arguments for \"t\" are no JSON object",
        ),
        ("openai", &many, "more than 256 requests for tools"),
        ("openai", "<html></html>", "broke off"),
        ("anthropic", error_event, "acme: busy"),
        ("anthropic", "data: [DONE]\n\n", "malformed answer"),
        ("anthropic", "data: {\"type\":7}\n\n", "malformed answer"),
        (
            "anthropic",
            "data: {\"type\":\"message_stop\"}\n\n",
            "broke off",
        ),
    ] {
        let server = Server::answering(stream_response(events));
        let models = at(api, &server, "");
        let (_, error) = chunks(start(&models).await.unwrap()).await;
        let problem = error.unwrap().to_string();
        assert!(
            problem.starts_with("acme: ") && problem.contains(part),
            "{part}: {problem}"
        );
    }
    let server = Server::answering(json_response("{}"));
    let error = start(&at("openai", &server, "")).await.err().unwrap();
    let expected = "acme: answer of type \"application/json\": expected text/event-stream";
    assert_eq!(error, ModelError::Failed(expected.to_owned()));
}

/// One line without an end, and many events that never come to an end.
#[tokio::test]
async fn a_stream_without_end_is_given_up() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"aaaaaaaaaaaaaaaa\"}}]}\n\n";
    for (piece, part) in [
        ("x".repeat(1024 * 1024), "a line of more than 4194304 bytes"),
        (
            event.repeat(16 * 1024),
            "answer of more than 16777216 bytes",
        ),
    ] {
        let server = Server::start(move |_, wire| {
            wire.write_all(STREAM_HEAD.as_bytes())?;
            (0..50).try_for_each(|_| wire.write_all(piece.as_bytes()))
        });
        let models = at("openai", &server, "");
        let mut stream = start(&models).await.unwrap();
        let error = loop {
            if let Err(error) = stream.next().await {
                break error;
            }
        };
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_stream_is_started_again_until_it_begins() {
    let server = answering_each(vec![
        response("503 Unavailable", "Retry-After: 0\r\n", ""),
        stream_response(OPENAI),
    ]);
    let models = at("openai", &server, "");
    let (chunks, error) = chunks(start(&models).await.unwrap()).await;
    assert_eq!((chunks.len(), error), (2, None));
    assert_eq!(server.seen().len(), 2);
}

/// A stream that stops in the middle; the time of the test runs as soon as the first piece is there.
async fn stalled(lines: &str) -> ModelError {
    let server = Server::start(|_, wire| {
        wire.write_all(STREAM_HEAD.as_bytes())?;
        wire.write_all(&OPENAI.as_bytes()[..OPENAI.find("\n\n").unwrap() + 2])?;
        wire.flush()?;
        wait_for_close(wire);
        Ok(())
    });
    let mut stream = start(&at("openai", &server, lines)).await.unwrap();
    stream.next().await.unwrap();
    tokio::time::pause();
    let error = stream.next().await.unwrap_err();
    tokio::time::resume();
    error
}

#[tokio::test]
async fn a_stream_that_stalls_has_its_time() {
    let timed_out = |timeout_ms| ModelError::TimedOut { timeout_ms };
    assert_eq!(stalled("").await, timed_out(60_000));
    assert_eq!(
        stalled("idle_timeout_ms = 200_000").await,
        timed_out(120_000)
    );
}

#[tokio::test]
async fn an_answer_that_is_given_up_is_cancelled_and_not_free() {
    let (closed, was_closed) = mpsc::channel();
    let server = Server::start(move |_, wire| {
        wire.write_all(STREAM_HEAD.as_bytes())?;
        wire.write_all(&OPENAI.as_bytes()[..OPENAI.find("\n\n").unwrap() + 2])?;
        wire.flush()?;
        wait_for_close(wire);
        closed.send(()).unwrap();
        Ok(())
    });
    let prices = "prices.large = { input = 1_000_000, output = 1_000_000 }";
    let mut stream = start(&at("openai", &server, prices)).await.unwrap();
    stream.next().await.unwrap();
    let usage = stream.usage();
    let bytes = u64::try_from(server.seen()[0].body.len()).unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (bytes.div_ceil(4), 1)
    );
    assert!(usage.cost_usd > 1.0, "{usage:?}");
    drop(stream);
    tokio::task::spawn_blocking(move || was_closed.recv().unwrap())
        .await
        .unwrap();
}
