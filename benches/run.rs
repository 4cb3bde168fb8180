//! Raw wasmtime beside a call beside a whole run.

fn main() {}
