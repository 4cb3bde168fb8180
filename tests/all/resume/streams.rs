//! Questions to models that were cut off.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{ModelChunk, ModelRequest, ModelResponse, Part, StopReason, Usage};
use skillrun::clock::{Clock, Timestamp};
use skillrun::id::RunId;
use skillrun::models::{ModelError, ModelName, ModelProvider, ModelStream, Models};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, ResumeOptions, StartOptions};

use super::library::{LATER, Library, MANIFEST, Parts, ask, calls, eventually, options, said, yes};

/// An answer: its pieces, and whether it has an end.
type Script = (&'static [&'static str], bool);

/// A model that says what the test wants, one answer after the other.
struct Scripted {
    scripts: Mutex<VecDeque<Script>>,
}

const USAGE: Usage = Usage {
    input_tokens: 7,
    output_tokens: 3,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost_usd: 0.25,
};

struct Stream {
    /// The next piece first.
    coming: VecDeque<&'static str>,
    said: String,
    is_whole: bool,
}

impl Stream {
    fn response(&self) -> ModelResponse {
        ModelResponse {
            content: vec![Part::Text(self.said.clone())],
            stop_reason: StopReason::EndTurn,
            usage: USAGE,
            model: "small-2026".to_owned(),
        }
    }
}

#[async_trait]
impl ModelStream for Stream {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        match self.coming.pop_front() {
            Some(piece) => {
                self.said.push_str(piece);
                Ok(ModelChunk::Text(piece.to_owned()))
            }
            None if self.is_whole => Ok(ModelChunk::Done(Box::new(self.response()))),
            None => std::future::pending().await,
        }
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

impl Scripted {
    /// More questions than there are answers fail the test.
    fn next(&self) -> Stream {
        let script = self.scripts.lock().unwrap().pop_front();
        let (pieces, is_whole) = script.unwrap();
        Stream {
            coming: pieces.iter().copied().collect(),
            said: String::new(),
            is_whole,
        }
    }
}

#[async_trait]
impl ModelProvider for Scripted {
    async fn generate(&self, _request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut stream = self.next();
        loop {
            if let ModelChunk::Done(response) = stream.next().await? {
                return Ok(*response);
            }
        }
    }

    async fn start(&self, _request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        Ok(Box::new(self.next()))
    }
}

fn with_model(scripts: &[Script]) -> Parts {
    let small = ModelName {
        provider: "local".to_owned(),
        model: "small".to_owned(),
    };
    let scripted = Scripted {
        scripts: Mutex::new(scripts.iter().copied().collect()),
    };
    Parts {
        models: Models::new()
            .with_provider("local", Arc::new(scripted))
            .with_alias("default", small),
        ..Parts::default()
    }
}

fn stream(is_logged: bool) -> Value {
    json!({ "call": "stream", "model": "default", "pieces_max": 9, "is_logged": is_logged })
}

fn ask_model() -> Value {
    json!({ "call": "model", "model": "default" })
}

/// Starts a run, and interrupts it when such an event is on record.
async fn cut(library: &Library, scripts: &[Script], wanted: StartOptions, at: &str) -> RunId {
    let runner = library.runner(with_model(scripts));
    let started = runner.start(Caller::new(), wanted).await.unwrap();
    eventually(at, || library.payloads(&started.run_id, at).pop()).await;
    runner.shutdown().await;
    assert_eq!(library.ends(&started.run_id), ["interrupted"]);
    started.run_id
}

#[tokio::test]
async fn an_answer_of_which_the_guest_did_nothing_yet_is_asked_for_again() {
    let library = Library::new(LATER);
    let begun: &[Script] = &[(&["one "], false)];
    for (scripts, at) in [(&[(&[][..], false)][..], "llm_call"), (begun, "llm_chunk")] {
        let wanted = options(&calls(&[stream(false)]));
        let run_id = cut(&library, scripts, wanted, at).await;
        let outcome = library
            .resumed(with_model(&[(&["uno ", "dos"], true)]), &run_id)
            .await;
        let said = said(&outcome);
        let expected = json!(["uno dos", { "done": "uno dos" }]);
        assert_eq!(said[0]["ok"], expected);
        let phases = library.payloads(&run_id, "llm_call");
        let phases: Vec<_> = phases.iter().map(|call| call["phase"].clone()).collect();
        assert_eq!(phases, ["call", "call", "result"]);
        library.verifies(&run_id);
    }
}

#[tokio::test]
async fn an_answer_on_which_the_guest_acted_is_lost_and_told_as_far_as_it_came_if_that_is_wanted() {
    let library = Library::new(LATER);
    let wanted = options(&calls(&[stream(true), ask(None), stream(false)]));
    let run_id = cut(&library, &[(&["one "], false)], wanted, "log").await;
    let runner = library.runner(with_model(&[(&["two"], true)]));
    for _ in 0..2 {
        let resumed = runner.resume(Caller::new(), &run_id, ResumeOptions::default());
        let error = resumed.await.unwrap_err();
        assert_eq!(error.code(), OutcomeCode::AmbiguousCall, "{error:?}");
        assert!(error.to_string().contains("llm#1"), "{error}");
        assert!(error.hint().unwrap().contains("--retry-ambiguous"));
    }
    let again = ResumeOptions {
        retry_ambiguous: true,
        ..ResumeOptions::default()
    };
    let started = runner.start_resume(Caller::new(), &run_id, again).await;
    let started = started.unwrap();
    let asked = || library.payloads(&run_id, "approval_request").pop();
    eventually("the question", asked).await;
    runner.store().decide(&run_id, None, &yes()).unwrap();
    let outcome = started.handle.wait().await.unwrap();
    let said = said(&outcome);
    assert_eq!(said[0]["error"]["kind"], "failed", "{said}");
    assert!(said[0].to_string().contains("broke off"), "{said}");
    assert_eq!(said[2]["ok"][1]["done"], "two", "{said}");
    // The piece was told again, and the guest did with it what it had done.
    assert_eq!(library.payloads(&run_id, "log").len(), 1);
    let result = &library.payloads(&run_id, "llm_call")[1];
    assert_eq!(result["phase"], "result");
    assert!(result["prompt_tokens"].as_u64() > Some(0), "{result}");
    library.verifies(&run_id);
}

#[tokio::test]
async fn a_model_that_is_asked_again_is_paid_for_twice() {
    let library = Library::new(LATER);
    for (tokens_max, is_enough) in [(30, false), (1_000, true)] {
        let mut wanted = options(&calls(&[ask_model()]));
        wanted
            .terms
            .limits
            .insert("llm_tokens".to_owned(), tokens_max);
        let mut again = ResumeOptions::default();
        again.terms.limits.clone_from(&wanted.terms.limits);
        let run_id = cut(&library, &[(&[], false)], wanted, "llm_call").await;
        let runner = library.runner(with_model(&[(&["hi"], true)]));
        let resumed = runner.resume(Caller::new(), &run_id, again).await;
        match resumed {
            Ok(outcome) => {
                assert_eq!(said(&outcome)[0]["ok"]["text"], "hi");
                assert!(is_enough);
            }
            Err(error) => {
                assert!(error.to_string().contains("llm_tokens"), "{error}");
                assert!(!is_enough);
            }
        }
    }
}

#[tokio::test]
async fn tokens_that_were_used_before_the_cut_count_after_it() {
    let library = Library::new(LATER);
    // Each takes ten, by the model's own account.
    for (tokens_max, is_enough) in [(15, false), (20, true)] {
        let mut wanted = options(&calls(&[ask_model(), ask(None), ask_model()]));
        wanted
            .terms
            .limits
            .insert("llm_tokens".to_owned(), tokens_max);
        let mut again = super::library::approving();
        again.terms.limits.clone_from(&wanted.terms.limits);
        let script: Script = (&["hi"], true);
        let run_id = library.interrupted(with_model(&[script]), wanted).await;
        let runner = library.runner(with_model(&[script]));
        let resumed = runner.resume(Caller::new(), &run_id, again).await;
        match resumed {
            Ok(outcome) => {
                assert_eq!(said(&outcome)[2]["ok"]["text"], "hi");
                assert!(is_enough);
            }
            Err(error) => {
                assert!(error.to_string().contains("llm_tokens"), "{error}");
                assert!(!is_enough);
            }
        }
    }
}

/// Runs that are suspended at the first look, in a time that the test sets.
fn soon() -> (Library, Clock) {
    let library =
        Library::new("[runs]\nat_once_max = 1\nnested_max = 8\n[approvals]\nsuspend_after_ms = 1");
    (
        library,
        Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000)),
    )
}

/// Starts a run whose last call is a question, which is answered only after a look that would suspend the
/// run. It is not suspended.
async fn goes_on_without_a_stop(library: &Library, parts: Parts, wanted: StartOptions) {
    let clock = parts.clock.clone();
    let runner = library.runner(parts);
    let started = runner.start(Caller::new(), wanted).await.unwrap();
    let run_id = started.run_id.clone();
    let asked = || library.payloads(&run_id, "approval_request").pop();
    eventually("the question", asked).await;
    clock.advance(Duration::from_secs(800));
    // That look gives a warning first.
    let warned = || {
        let logged = library.payloads(&run_id, "log").pop()?;
        logged["message"]
            .as_str()
            .unwrap()
            .contains("waits for 800")
            .then_some(())
    };
    eventually("the warning", warned).await;
    runner.store().decide(&run_id, None, &yes()).unwrap();
    let outcome = started.handle.wait().await.unwrap();
    assert_eq!(said(&outcome)[1]["ok"]["approved"], true);
    assert_eq!(library.ends(&run_id), ["ok"]);
}

#[tokio::test]
async fn a_run_with_an_answer_that_still_comes_is_not_suspended() {
    let (library, clock) = soon();
    let parts = Parts {
        clock,
        ..with_model(&[(&["one "], false)])
    };
    let kept = json!({ "call": "stream", "model": "default", "pieces_max": 1, "is_kept": true });
    let wanted = options(&calls(&[kept, ask(Some(1_000_000))]));
    goes_on_without_a_stop(&library, parts, wanted).await;
}

#[tokio::test]
async fn a_run_with_a_request_that_is_open_is_not_suspended() {
    let (library, clock) = soon();
    // Nobody ever answers there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let manifest = MANIFEST.replace("http://127.0.0.1:1/", &url);
    library.home.write_manifest("probe", &manifest);
    let leave = json!({ "verb": "http_leave", "url": url, "drop": false });
    let leave = json!({ "call": "noted", "verb": leave });
    let mut wanted = options(&calls(&[leave, ask(Some(1_000_000))]));
    wanted.terms.grants = vec![format!("net:{url}#GET").parse().unwrap()];
    let parts = Parts {
        clock,
        ..Parts::default()
    };
    goes_on_without_a_stop(&library, parts, wanted).await;
}
