//! The test that keeps the house: what ARCHITECTURE.md and CONTRIBUTING.md promise about the source
//! tree, read from the source tree.
//!
//! Each check is a function from sources to complaints, and each is shown to complain about a bad
//! sample; a check that cannot fail says nothing.

mod arrows;
mod bounds;
mod commands;
mod conduct;
mod errors;
mod links;
mod lints;
mod markdown;
mod names;
mod paths;
mod signatures;
mod singletons;
mod tree;

/// Fails with one complaint a line.
#[track_caller]
fn assert_clean(complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
