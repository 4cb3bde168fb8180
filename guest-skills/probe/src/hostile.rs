//! What a hostile guest would try.

use std::hint::black_box;

use serde_json::Value;
use skillrun_sdk::bindings::skillrun::skill::recorder::{Custom, Event, LlmCall, emit};

pub(crate) fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

pub(crate) fn alloc() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1024 * 1024]));
    }
}

pub(crate) fn recurse(depth: u64) -> u64 {
    let here = black_box([depth; 16]);
    if black_box(depth) == u64::MAX {
        return depth;
    }
    here.iter()
        .sum::<u64>()
        .wrapping_add(recurse(depth.wrapping_add(1)))
}

/// Keeps next to nothing in the guest's own memory, so that the engine's stack for calls is what ends.
#[inline(never)]
pub(crate) fn recurse_thin(depth: u64) -> u64 {
    if depth == u64::MAX {
        return depth;
    }
    black_box(recurse_thin(depth.wrapping_add(1))) ^ depth
}

pub(crate) fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

/// The number of bytes that came back.
pub(crate) fn random(bytes: u64) -> usize {
    wasip2::random::random::get_random_bytes(bytes).len()
}

/// How many events were written before the host refused one, and why it did.
pub(crate) fn emit_flood(events: u64) -> Value {
    for written in 0..events {
        let event = Event::Custom(Custom {
            name: "flood".to_owned(),
            payload: written.to_string(),
        });
        if let Err(error) = emit(&event) {
            return serde_json::json!({ "written": written, "error": format!("{error:?}") });
        }
    }
    serde_json::json!({ "written": events })
}

/// What the host says to a report of a model's use.
pub(crate) fn report_model(tokens: u32, cost_usd: f64) -> Value {
    let event = Event::LlmCall(LlmCall {
        model: "own".to_owned(),
        provider: "own".to_owned(),
        prompt_tokens: tokens,
        output_tokens: 0,
        cost_usd,
    });
    serde_json::json!({ "error": emit(&event).err().map(|error| format!("{error:?}")) })
}

/// Makes timers and keeps them all.
pub(crate) fn hold(resources: u64) -> usize {
    let hour_ns = 3_600_000_000_000;
    let held: Vec<_> = (0..resources)
        .map(|_| wasip2::clocks::monotonic_clock::subscribe_duration(hour_ns))
        .collect();
    held.len()
}
