//! Bytes that a worker of an execution, or its daemon, may have sent.
//!
//! Nothing may panic, and what is read is written in a spelling that is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillrun::runtime::{respell_daemon_frames, respell_worker_frames};

fuzz_target!(|text: &[u8]| {
    // A frame around all of it, so that what is inside is reached.
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let framed = [&length, text].concat();
    for respell in [respell_worker_frames, respell_daemon_frames] {
        for bytes in [text, &framed] {
            if let Ok(spelled) = respell(bytes) {
                assert_eq!(respell(&spelled).ok(), Some(spelled));
            }
        }
    }
});
