//! Two texts that may be anything, read as a schema and as a value to be checked against it.
//!
//! Nothing may panic, go down until the stack ends, or go on for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillrun::schema::Schema;

fuzz_target!(|text: &str| {
    let (schema, value) = text.split_once('\n').unwrap_or((text, "null"));
    if let (Ok(schema), Ok(value)) = (Schema::compile(schema), serde_json::from_str(value)) {
        let _misfit = schema.check(&value);
    }
});
