//! A module for every guest, with a test of its main job.

mod calc;
mod command;
mod fan_out;
mod fetch;
mod greet;
mod handoff;
mod notes;
mod probe;
mod triage;

/// Names a test of every guest, so that a guest without one does not compile.
macro_rules! assert_each_is_tested {
    ($($guest:ident),+) => { const _: &[fn()] = &[$(self::$guest::main_job),+]; };
}
skillrun_test_artifacts::for_all_guests!(assert_each_is_tested);
