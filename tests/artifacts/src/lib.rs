//! Where the guests are that the tests run. The build script builds them.

/// One guest.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// Its package and skill name.
    pub name: &'static str,
    /// The path of its component.
    pub wasm: &'static str,
    /// The folder of its sources, with SKILL.md.
    pub folder: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
