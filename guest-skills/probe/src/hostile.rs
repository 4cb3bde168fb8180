//! What a hostile guest would try.

use std::hint::black_box;

use serde_json::Value;
use skillrun_sdk::recorder::{Custom, Event, emit};

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
