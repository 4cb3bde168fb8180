//! `probe-agent`: what it says of itself and asks for. What it does, the tests of executions ask of it.

use skillrun_test_artifacts::PROBE_AGENT;

use super::assert_is_agent;

#[test]
pub(super) fn main_job() {
    let requested = [
        "llm:*/*",
        "tool:*",
        "approval",
        "fs:rw:*=/workspace",
        "env:PROBE",
        "skill:greet",
        "skill:handoff",
        "skill:probe",
    ];
    assert_is_agent(&PROBE_AGENT, &requested);
}
