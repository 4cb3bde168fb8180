//! A line that an MCP server may have written.
//!
//! It must not panic and not take long, and a line with nothing on it is no message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillrun::tools::check_message;

fuzz_target!(|bytes: &[u8]| {
    let checked = check_message(bytes);
    if bytes.trim_ascii().is_empty() {
        assert!(checked.is_ok());
    } else if !bytes.trim_ascii().starts_with(b"{") {
        assert!(checked.is_err());
    }
});
