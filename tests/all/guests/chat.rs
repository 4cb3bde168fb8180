//! `chat`: what it says of itself and asks for. What it does with a model, tools and a person, its own tests try on a
//! mock.

use skillrun_test_artifacts::CHAT;

use super::assert_is_agent;

#[test]
pub(super) fn main_job() {
    assert_is_agent(
        &CHAT,
        &["llm:*/*", "tool:*", "approval", "fs:rw:*=/workspace"],
    );
}
