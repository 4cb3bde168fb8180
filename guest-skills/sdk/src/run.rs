//! The run that this code is part of. Nothing here is recorded, needs a capability or counts as a host
//! call.

use crate::host;

/// This run's id: `run_` and 32 hexadecimal digits. The ledger has the same name.
pub fn id() -> String {
    host::run_id()
}

/// The run that handed work to this one; none for a run that a caller started.
pub fn parent_id() -> Option<String> {
    host::parent_id()
}

/// The name under which this skill was called.
pub fn skill_name() -> String {
    host::skill_name()
}

/// The text of SKILL.md below its front matter, so that prose can steer code; empty for a component that
/// is run without its folder.
pub fn skill_body() -> String {
    host::skill_body()
}

/// Milliseconds until the wall-time limit ends this run, by the time that the clocks tell; time spent
/// waiting in host calls counts. While the skill computes, that time may lag behind by up to a second.
pub fn remaining_ms() -> u32 {
    host::remaining_ms()
}

/// 1 for a first run, one higher after each resume. A resumed run begins anew and is told what it was told
/// before, this number included: it is higher once the record of the earlier attempts is at its end.
pub fn attempt() -> u32 {
    host::attempt()
}
