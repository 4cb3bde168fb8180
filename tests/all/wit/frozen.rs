//! A released version of the package never changes again.

use std::env;
use std::fs;

use wit_component::WitPrinter;
use wit_parser::{PackageId, Resolve};

use super::{package, package_of, root};

/// What version 0.1 is, without its comments.
const GOLDEN: &str = "tests/golden/wit-0.1.wit";

/// Set to 1, it makes the test write the golden file anew. That is for the time before a version is
/// released; afterwards the file only changes together with the version in its name.
const BLESS: &str = "SKILLRUN_BLESS";

/// The package as one text: layout and comments of the files do not show in it.
fn printed(resolve: &Resolve, package: PackageId) -> String {
    let mut printer = WitPrinter::default();
    printer.emit_docs(false);
    printer.print(resolve, package, &[]).unwrap();
    printer.output.to_string()
}

/// The first line in which two texts differ, as an explanation.
fn first_difference(golden: &str, now: &str) -> String {
    let same = golden
        .lines()
        .zip(now.lines())
        .take_while(|(was, is)| was == is);
    let index = same.count();
    let line = |text: &str| {
        text.lines()
            .nth(index)
            .unwrap_or("(nothing)")
            .trim()
            .to_owned()
    };
    format!(
        "line {}\nit was: {}\nit is:  {}",
        index + 1,
        line(golden),
        line(now)
    )
}

#[test]
fn version_0_1_is_what_it_was() {
    let (resolve, package) = package();
    let now = printed(&resolve, package);
    let path = root().join(GOLDEN);
    if env::var_os(BLESS).is_some_and(|value| value == "1") {
        fs::write(&path, &now).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == now,
        "wit/ is not what {GOLDEN} holds, {}\n\
         Version 0.1 is frozen, since components are built against it: put the change into a new \
         version beside it, and leave 0.1 as it is. Comments may change. Before 0.1 is released, \
         {BLESS}=1 cargo test --test all wit writes the golden file anew.",
        first_difference(&golden, &now)
    );
}

/// A script has one kind of number. Its generators type a 64-bit integer as `bigint`, and not every
/// engine takes one, so code that the compiler accepts would end as a panic.
#[test]
fn no_integer_is_wider_than_every_language_agrees_on() {
    let (resolve, package) = package();
    let text = printed(&resolve, package);
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let wide: Vec<&str> = words.filter(|word| ["u64", "s64"].contains(word)).collect();
    assert!(wide.is_empty(), "{wide:?}");
}

#[test]
fn a_change_shows_and_a_comment_does_not() {
    let text = |comment: &str, field: &str| {
        let text = format!(
            "package a:b@0.1.0;\n/// {comment}\ninterface c {{\n/// {comment}\nrecord d {{ {field}: u32 }} }}"
        );
        let (resolve, package) = package_of(&text);
        printed(&resolve, package)
    };
    let before = text("This.", "e");
    assert_eq!(before, text("Something else, on one line.", "e"));
    let after = text("This.", "f");
    assert_ne!(before, after);
    let difference = "line 5\nit was: e: u32,\nit is:  f: u32,";
    assert_eq!(first_difference(&before, &after), difference);
}
