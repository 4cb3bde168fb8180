//! `Display` of an error never prints its source: whoever prints an error prints the whole chain, and
//! would print the source twice.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

use super::assert_clean;
use super::tree::{RustFile, rust_files};

fn check(file: &RustFile) -> Vec<String> {
    let mut errors = Errors {
        path: &file.path,
        complaints: Vec::new(),
    };
    errors.visit_file(&file.syntax);
    errors.complaints
}

struct Errors<'a> {
    path: &'a str,
    complaints: Vec<String>,
}

impl Errors<'_> {
    fn error(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], fields: &syn::Fields) {
        let Some(source) = source_of(fields) else {
            return;
        };
        let message = attributes
            .iter()
            .find(|attribute| attribute.path().is_ident("error"));
        let Some(syn::Meta::List(message)) = message.map(|attribute| &attribute.meta) else {
            return;
        };
        if prints(&message.tokens, &source) {
            let (path, line) = (self.path, name.span().start().line);
            self.complaints.push(format!(
                "{path}:{line}: {name} prints its source {source:?}"
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Errors<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.error(&item.ident, &item.attrs, &item.fields);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in &item.variants {
            // A variant without a message of its own has that of the enum.
            let mut attributes = variant.attrs.clone();
            attributes.extend(item.attrs.iter().cloned());
            self.error(&variant.ident, &attributes, &variant.fields);
        }
        visit::visit_item_enum(self, item);
    }
}

/// The name or the number of the field that `source()` answers.
fn source_of(fields: &syn::Fields) -> Option<String> {
    fields.iter().enumerate().find_map(|(index, field)| {
        let is_marked = field.attrs.iter().any(|attribute| {
            attribute.path().is_ident("source") || attribute.path().is_ident("from")
        });
        let name = field
            .ident
            .as_ref()
            .map_or_else(|| index.to_string(), ToString::to_string);
        (is_marked || name == "source").then_some(name)
    })
}

/// Whether the arguments of `#[error(...)]` name the field, in the text or after it.
fn prints(arguments: &TokenStream, field: &str) -> bool {
    arguments
        .to_token_stream()
        .into_iter()
        .any(|token| match token {
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                placeholders(&text).any(|name| name == field) || text == field
            }
            TokenTree::Ident(word) => word == field || word == format!("_{field}"),
            TokenTree::Group(group) => prints(&group.stream(), field),
            TokenTree::Punct(_) => false,
        })
}

/// The names in `{name}` and `{name:?}` of a format text.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{')
        .skip(1)
        .filter_map(|after| after.split(['}', ':']).next())
        .filter(|name| !name.is_empty())
}

#[test]
fn no_error_prints_its_source() {
    let complaints: Vec<String> = rust_files().unwrap().iter().flat_map(check).collect();
    assert_clean(&complaints);
}

#[test]
fn a_printed_source_is_seen() {
    for text in [
        r#"enum E { #[error("cannot read {path}: {source}")] Read { path: String, source: io::Error } }"#,
        r#"enum E { #[error("cannot read: {0:?}")] Read(#[from] io::Error) }"#,
        r#"enum E { #[error("cannot read: {}", .0)] Read(#[source] io::Error) }"#,
        r#"enum E { #[error("cannot read: {}", why.kind())] Read { #[source] why: io::Error } }"#,
        r#"#[error("cannot read: {source}")] struct E { source: io::Error }"#,
    ] {
        assert_eq!(
            check(&RustFile::parse("src/x.rs", text).unwrap()).len(),
            1,
            "{text}"
        );
    }
    for text in [
        r#"enum E { #[error("cannot read {path}")] Read { path: String, source: io::Error } }"#,
        r#"enum E { #[error("cannot read {0}")] Read(String, #[source] io::Error) }"#,
        r#"enum E { #[error("unknown source {0}")] Unknown(String) }"#,
        r#"enum E { #[error(transparent)] Inner(#[from] io::Error) }"#,
    ] {
        assert_clean(&check(&RustFile::parse("src/x.rs", text).unwrap()));
    }
}
