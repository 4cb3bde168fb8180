//! Bytes that may be anything, read as what a provider of models answers: whole, and as a stream.
//!
//! Nothing may panic, it may not matter where a stream is split, and what is read has arguments that are
//! JSON objects.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillrun::call::{ModelChunk, ModelResponse, Part};
use skillrun::config::ModelApi;
use skillrun::models::{parse_answer, parse_stream};

fn check(response: &ModelResponse) {
    for part in &response.content {
        if let Part::ToolUse(tool) = part {
            assert!(tool.arguments.trim_start().starts_with('{'));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (split, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    for api in [ModelApi::Openai, ModelApi::Anthropic] {
        if let Ok(response) = parse_answer(api, bytes) {
            check(&response);
        }
        let whole = parse_stream(api, [bytes]);
        let pieces = bytes.chunks(usize::from(*split) + 1);
        assert_eq!(parse_stream(api, pieces), whole);
        if let Ok(chunks) = whole
            && let Some(ModelChunk::Done(response)) = chunks.last()
        {
            check(response);
        }
    }
});
