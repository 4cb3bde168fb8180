//! What is never left in the tree: silenced lints, unfinished work, skipped tests, tests that sleep.

use quote::ToTokens;
use syn::visit::{self, Visit};

use super::assert_clean;
use super::paths::{self, NamedPath};
use super::tree::{RustFile, TextFile, rust_files, text_files};

/// Words that mark unfinished work, taken apart so that this file does not hold them.
const MARKERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Files whose comments are ours.
const WRITTEN_BY_US: &[&str] = &[".rs", ".ts", ".js", ".py", ".wit", ".toml", ".md", ".sh"];

fn check_attributes(file: &RustFile) -> Vec<String> {
    let mut attributes = Attributes {
        path: &file.path,
        complaints: Vec::new(),
    };
    attributes.visit_file(&file.syntax);
    attributes.complaints
}

struct Attributes<'a> {
    path: &'a str,
    complaints: Vec<String>,
}

impl<'ast> Visit<'ast> for Attributes<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        self.meta(&attribute.meta);
        visit::visit_attribute(self, attribute);
    }
}

impl Attributes<'_> {
    fn meta(&mut self, meta: &syn::Meta) {
        let arguments = match meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        let is = |name: &str| meta.path().is_ident(name);
        let is_allow = is("allow") || is("cfg_attr") && arguments.contains("allow (");
        let complaint = if is_allow {
            "a lint is silenced: mend the cause, or expect it with a reason"
        } else if is("expect") && !arguments.contains("reason =") {
            "a lint is expected without a reason"
        } else if is("ignore") {
            "a test is skipped"
        } else {
            return;
        };
        let line = meta
            .path()
            .segments
            .first()
            .map_or(0, |first| first.ident.span().start().line);
        self.complaints
            .push(format!("{}:{line}: {complaint}", self.path));
    }
}

fn check_unfinished(file: &RustFile) -> Vec<String> {
    paths::of(file)
        .iter()
        .filter(|path| {
            ["todo", "unimplemented"]
                .iter()
                .any(|name| path.calls(name))
        })
        .map(|path| format!("{}:{}: unfinished", file.path, path.line))
        .collect()
}

fn check_markers(file: &TextFile) -> Vec<String> {
    let marked = |line: &str| {
        line.split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|word| MARKERS.contains(&word))
    };
    file.text
        .lines()
        .enumerate()
        .filter(|(_, line)| marked(line))
        .map(|(index, line)| format!("{}:{}: unfinished: {}", file.path, index + 1, line.trim()))
        .collect()
}

/// A thread never sleeps, and a test waits on no timer. Outside of tests a program may wait on tokio's
/// timers, which a test pauses; a guest may sleep as it likes, to be cut off.
fn check_sleeps(file: &RustFile) -> Vec<String> {
    if file.path.starts_with("guest-skills/") {
        return Vec::new();
    }
    let threads = paths::of(file)
        .into_iter()
        .filter(|path| path.contains(&["thread", "sleep"]));
    let timers = test_paths(file)
        .into_iter()
        .filter(|path| path.contains(&["time", "sleep"]));
    threads
        .chain(timers)
        .map(|path| format!("{}:{}: sleeps", file.path, path.line))
        .collect()
}

/// The paths that the tests in a file name.
fn test_paths(file: &RustFile) -> Vec<NamedPath> {
    if file.path.starts_with("tests/") || file.path.ends_with("/tests.rs") {
        return paths::of(file);
    }
    let modules = file.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.ident == "tests" => Some(module.to_token_stream()),
        _ => None,
    });
    modules
        .flat_map(|tokens| paths::of_tokens(tokens, Vec::new()))
        .collect()
}

#[test]
fn nothing_is_silenced_skipped_slept_through_or_left_unfinished() {
    let mut complaints = Vec::new();
    for file in rust_files().unwrap() {
        complaints.extend(check_attributes(&file));
        complaints.extend(check_unfinished(&file));
        complaints.extend(check_sleeps(&file));
    }
    complaints.extend(
        text_files(WRITTEN_BY_US)
            .unwrap()
            .iter()
            .flat_map(check_markers),
    );
    assert_clean(&complaints);
}

#[test]
fn what_must_not_be_left_is_seen() {
    for text in [
        "#![allow(dead_code)]",
        "mod m { #[allow(unused)] fn f() {} }",
        "#[cfg_attr(test, allow(unused))] fn f() {}",
        "#[expect(dead_code)] fn f() {}",
        "#[test] #[ignore] fn f() {}",
        "#[test] #[ignore = \"slow\"] fn f() {}",
    ] {
        let file = RustFile::parse("src/x.rs", text).unwrap();
        assert_eq!(check_attributes(&file).len(), 1, "{text}");
    }
    let reasoned = "#[expect(dead_code, reason = \"kept for the golden file\")] fn f() {}";
    assert_clean(&check_attributes(
        &RustFile::parse("src/x.rs", reasoned).unwrap(),
    ));

    let unfinished = RustFile::parse("src/x.rs", "fn f() { if x { todo!() } unimplemented!() }");
    assert_eq!(check_unfinished(&unfinished.unwrap()).len(), 2);

    let text = MARKERS
        .map(|marker| format!("// {marker}: later\n"))
        .concat()
        + "// TODOS\n";
    let marked = TextFile {
        path: "src/x.rs".to_owned(),
        text,
    };
    assert_eq!(check_markers(&marked).len(), MARKERS.len());
}

#[test]
fn a_sleep_in_a_test_is_seen() {
    let sleep = "use tokio::time::{self, sleep};";
    for (path, text, complaints) in [
        ("tests/all/x.rs", sleep.to_owned(), 1),
        ("tests/all/x.rs", "fn f() { time::sleep(d); }".to_owned(), 1),
        ("src/x.rs", format!("mod tests {{ {sleep} }}"), 1),
        ("src/x.rs", "fn f() { std::thread::sleep(d) }".to_owned(), 1),
        ("src/x.rs", sleep.to_owned(), 0),
    ] {
        let file = RustFile::parse(path, &text).unwrap();
        assert_eq!(check_sleeps(&file).len(), complaints, "{path}: {text}");
    }
}
