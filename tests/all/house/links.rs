//! Every path that a document names exists.

use std::path::Path;

use super::assert_clean;
use super::markdown::Document;
use super::tree::{TextFile, root, text_files};

/// Folders of the checkout; a code span that starts with one of them is a path.
const FOLDERS: [&str; 10] = [
    ".cargo/",
    ".ci/",
    "benches/",
    "docs/",
    "examples/",
    "guest-skills/",
    "src/",
    "tests/",
    "wit/",
    "xtask/",
];

fn check(file: &TextFile, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let document = Document::parse(&file.text);
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let links = document.links.iter().filter_map(|link| {
        let target = link.text.split(['#', ' ']).next().unwrap_or_default();
        let is_path = !target.is_empty() && !target.contains(':');
        (is_path && !exists(&folder.join(target))).then_some((link.line, target))
    });
    let spans = document.spans.iter().filter_map(|span| {
        let target = span.text.as_str();
        (is_path(target) && !exists(Path::new(target))).then_some((span.line, target))
    });
    links
        .chain(spans)
        .map(|(line, target)| format!("{}:{line}: {target} does not exist", file.path))
        .collect()
}

/// Patterns and placeholders name no one path.
fn is_path(span: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    FOLDERS.iter().any(|folder| span.starts_with(folder)) && span.chars().all(is_plain)
}

#[test]
fn every_path_in_a_document_exists() {
    let exists = |path: &Path| root().join(path).exists();
    let documents = text_files(&[".md"]).unwrap();
    let complaints: Vec<String> = documents
        .iter()
        .flat_map(|file| check(file, &exists))
        .collect();
    assert_clean(&complaints);
}

#[test]
fn a_path_that_does_not_exist_is_seen() {
    let exists = |path: &Path| path == Path::new("docs/there.md");
    let check = |path: &str, text: &str| {
        check(
            &TextFile {
                path: path.to_owned(),
                text: text.to_owned(),
            },
            &exists,
        )
    };
    for text in [
        "See [it](docs/gone.md#a).",
        "`src/gone.rs` holds it",
        "![x](there.md)",
    ] {
        assert_eq!(check("README.md", text).len(), 1, "{text}");
    }
    assert_eq!(check("docs/other.md", "[it](docs/there.md)").len(), 1);
    for text in [
        "[it](docs/there.md), [site](https://example.org/x), [part](#part)",
        "`docs/there.md`, `src/*.rs`, `docs/<name>.md`, `runs/x.jsonl`",
    ] {
        assert_clean(&check("README.md", text));
    }
    assert_clean(&check("docs/other.md", "[it](there.md)"));
}
