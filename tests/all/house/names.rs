//! Names say what a thing is; some words say nothing.

use syn::visit::{self, Visit};

use super::assert_clean;
use super::tree::{RustFile, all_paths, rust_files};

const EMPTY_WORDS: [&str; 9] = [
    "manager", "managers", "util", "utils", "helper", "helpers", "common", "misc", "utility",
];

/// An empty word in a name of any style: `RunManager`, `run_utils`, `helpers.rs`.
fn empty_word(name: &str) -> Option<&'static str> {
    let mut words = vec![String::new()];
    let mut previous_is_lower = false;
    for letter in name.chars() {
        let starts_word = letter.is_uppercase() && previous_is_lower;
        if starts_word || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        previous_is_lower = letter.is_lowercase() || letter.is_numeric();
    }
    EMPTY_WORDS
        .into_iter()
        .find(|empty| words.iter().any(|word| word == empty))
}

fn check(file: &RustFile) -> Vec<String> {
    let mut names = Names {
        path: &file.path,
        complaints: Vec::new(),
    };
    names.visit_file(&file.syntax);
    names.complaints
}

/// Visits the names that a file gives, not those of others that it uses.
struct Names<'a> {
    path: &'a str,
    complaints: Vec<String>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_ident(&mut self, name: &'ast proc_macro2::Ident) {
        if let Some(word) = empty_word(&name.to_string()) {
            let (path, line) = (self.path, name.span().start().line);
            self.complaints
                .push(format!("{path}:{line}: {name} says nothing with {word:?}"));
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_path(&mut self, _: &'ast syn::Path) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.visit_expr(&call.receiver);
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }

    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        visit::visit_expr(self, &field.base);
    }
}

#[test]
fn no_name_is_empty() {
    let mut complaints: Vec<String> = rust_files().unwrap().iter().flat_map(check).collect();
    for path in all_paths().unwrap() {
        if let Some(word) = empty_word(&path) {
            complaints.push(format!("{path} says nothing with {word:?}"));
        }
    }
    assert_clean(&complaints);
}

#[test]
fn an_empty_name_is_seen() {
    for (text, complaints) in [
        ("struct RunManager;", 1),
        ("mod utils {}", 1),
        ("fn f(helper: u8) { let misc_bytes = 1; }", 2),
        ("enum E { Common { x: u8 } }", 1),
        (
            "use tokio_util::sync::CancellationToken; fn f(t: tokio_util::X) { t.common(); t.util; }",
            0,
        ),
        ("fn utilisation(managed: bool, uncommon: u8) {}", 0),
    ] {
        let file = RustFile::parse("src/x.rs", text).unwrap();
        assert_eq!(check(&file).len(), complaints, "{text}");
    }
    assert_eq!(empty_word("src/test-helpers/x.rs"), Some("helpers"));
    assert_eq!(empty_word("src/ledger/bus.rs"), None);
}
