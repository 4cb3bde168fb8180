//! How long a file and a function may be.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::assert_clean;
use super::tree::{RustFile, rust_files};

const FILE_LINES_MAX: usize = 600;
/// From the signature to the closing brace, comments and blank lines included: it is what one has
/// to scroll through.
const FUNCTION_LINES_MAX: usize = 70;

fn check(file: &RustFile) -> Vec<String> {
    let mut functions = Functions {
        path: &file.path,
        complaints: Vec::new(),
    };
    functions.visit_file(&file.syntax);
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        functions.complaints.push(format!(
            "{} has {lines} lines of {FILE_LINES_MAX}",
            file.path
        ));
    }
    functions.complaints
}

struct Functions<'a> {
    path: &'a str,
    complaints: Vec<String>,
}

impl Functions<'_> {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let start = signature.span().start().line;
        let lines = body.span().end().line + 1 - start;
        if lines > FUNCTION_LINES_MAX {
            let (path, name) = (self.path, &signature.ident);
            self.complaints.push(format!(
                "{path}:{start}: {name} has {lines} lines of {FUNCTION_LINES_MAX}"
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn files_and_functions_stay_within_their_bounds() {
    let complaints: Vec<String> = rust_files().unwrap().iter().flat_map(check).collect();
    assert_clean(&complaints);
}

#[test]
fn one_line_too_many_is_seen() {
    for (lines, complaints) in [(FUNCTION_LINES_MAX, 0), (FUNCTION_LINES_MAX + 1, 1)] {
        let body = "\n".repeat(lines - 1);
        for text in [
            format!("fn f() {{{body}}}"),
            format!("mod m {{ impl X {{ /** A doc. */\n async fn f() {{{body}}} }} }}"),
            format!("trait T {{ fn f() {{{body}}} }}"),
        ] {
            let file = RustFile::parse("src/x.rs", &text).unwrap();
            assert_eq!(check(&file).len(), complaints, "{lines} lines");
        }
    }
    let long = RustFile::parse("src/x.rs", &"\n".repeat(FILE_LINES_MAX + 1)).unwrap();
    assert_eq!(check(&long).len(), 1);
}
