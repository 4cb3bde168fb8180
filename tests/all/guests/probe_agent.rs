//! `probe-agent`: what it is taken for. What it does, the tests of the runtime ask of it.

use skillrun_test_artifacts::PROBE_AGENT;

use super::assert_is_no_skill;

#[test]
pub(super) fn main_job() {
    assert_is_no_skill(&PROBE_AGENT);
}
