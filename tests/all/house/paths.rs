//! Every path that a file names, in `use` items, expressions, types and macro arguments alike.
//!
//! Read from the tokens and not from the syntax tree, since the arguments of a macro are only tokens.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};

use super::tree::RustFile;

/// A path such as `crate::ledger::Store`, with groups unfolded, or the name of a macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPath {
    /// Its names; those of a path that starts at `self` or `super` are given from `crate` on.
    pub(super) segments: Vec<String>,
    /// Whether `!` follows, so that it names a macro which is called.
    pub(super) called_as_macro: bool,
    pub(super) line: usize,
}

impl NamedPath {
    /// Whether `names` stand in it side by side.
    pub(super) fn contains(&self, names: &[&str]) -> bool {
        self.segments
            .windows(names.len())
            .any(|window| window == names)
    }

    /// Whether it is the call of the macro with that name.
    pub(super) fn calls(&self, name: &str) -> bool {
        self.called_as_macro && self.segments.last().is_some_and(|last| last == name)
    }
}

/// All paths of a file, in order.
pub(super) fn of(file: &RustFile) -> Vec<NamedPath> {
    of_tokens(file.tokens.clone(), module_of(&file.path))
}

/// All paths of a piece of a module.
pub(super) fn of_tokens(tokens: TokenStream, module: Vec<String>) -> Vec<NamedPath> {
    let mut reader = Reader {
        module,
        found: Vec::new(),
    };
    reader.tokens(tokens);
    reader.found
}

/// The module that a file holds: `a::b` for `src/a/b.rs` and for `src/a/b/mod.rs`.
fn module_of(path: &str) -> Vec<String> {
    let inside = path
        .strip_prefix("src/")
        .unwrap_or(path)
        .trim_end_matches(".rs");
    let inside = inside.trim_end_matches("/mod");
    let is_root = ["lib", "main"].contains(&inside);
    inside
        .split('/')
        .filter(|_| !is_root)
        .map(str::to_owned)
        .collect()
}

struct Reader {
    /// Where the tokens being read stand.
    module: Vec<String>,
    found: Vec<NamedPath>,
}

type Tokens = Peekable<token_stream::IntoIter>;

impl Reader {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) if word == "mod" => self.module(&mut tokens),
                TokenTree::Ident(word) => {
                    let line = word.span().start().line;
                    self.path(vec![word.to_string()], line, &mut tokens);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// The rest of `mod name { … }`: what stands in the braces is one module deeper.
    fn module(&mut self, tokens: &mut Tokens) {
        let Some(TokenTree::Ident(name)) = tokens.next() else {
            return;
        };
        if let Some(TokenTree::Group(body)) = tokens.next() {
            self.module.push(name.to_string());
            self.tokens(body.stream());
            self.module.pop();
        }
    }

    /// The rest of a path of which `segments` have been read.
    fn path(&mut self, mut segments: Vec<String>, line: usize, tokens: &mut Tokens) {
        while takes_double_colon(tokens) {
            match tokens.peek() {
                Some(TokenTree::Ident(word)) => {
                    segments.push(word.to_string());
                    tokens.next();
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let group = group.stream();
                    tokens.next();
                    return self.group(&segments, line, group);
                }
                // A glob, or the arguments of a generic: the path ends, the rest is read as usual.
                _ => break,
            }
        }
        let called_as_macro =
            matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
        let segments = self.absolute(segments);
        self.found.push(NamedPath {
            segments,
            called_as_macro,
            line,
        });
    }

    /// `{a, b::c}` after a prefix.
    fn group(&mut self, prefix: &[String], line: usize, group: TokenStream) {
        let mut tokens = group.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let mut segments = prefix.to_vec();
            match token {
                TokenTree::Ident(word) if word == "self" => self.path(segments, line, &mut tokens),
                TokenTree::Ident(word) if word == "as" => {
                    tokens.next();
                }
                TokenTree::Ident(word) => {
                    segments.push(word.to_string());
                    self.path(segments, word.span().start().line, &mut tokens);
                }
                _ => {}
            }
        }
    }

    /// The same path from `crate` on, if it starts at `self` or `super`.
    fn absolute(&self, segments: Vec<String>) -> Vec<String> {
        let relative = segments
            .iter()
            .take_while(|name| ["self", "super"].contains(&name.as_str()));
        let (steps, ups) = relative.fold((0, 0), |(steps, ups), name| {
            (steps + 1, ups + usize::from(name == "super"))
        });
        // A lone `self` is a value, not a path.
        if steps == 0 || steps == segments.len() {
            return segments;
        }
        let kept = self.module.len().saturating_sub(ups);
        let start =
            std::iter::once("crate".to_owned()).chain(self.module.iter().take(kept).cloned());
        start.chain(segments.into_iter().skip(steps)).collect()
    }
}

fn takes_double_colon(tokens: &mut Tokens) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    let mut ahead = tokens.clone();
    if ahead.next().as_ref().is_some_and(is_colon) && ahead.next().as_ref().is_some_and(is_colon) {
        *tokens = ahead;
        return true;
    }
    false
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let text = "
        use crate::{ledger::{self, Store as S}, runner::*};
        mod tests { use super::super::executor::Engine; use super::deep; }
        fn f() { println!(\"{}\", crate::api::x()); std::io::stdout(); self.count }
    ";
    let file = RustFile::parse("src/cli/run.rs", text).unwrap();
    let found: Vec<String> = of(&file)
        .iter()
        .map(|path| path.segments.join("::"))
        .collect();
    for expected in [
        "crate::ledger",
        "crate::ledger::Store",
        "crate::runner",
        "crate::cli::executor::Engine",
        "crate::cli::run::deep",
        "crate::api::x",
        "std::io::stdout",
    ] {
        assert!(
            found.iter().any(|path| path == expected),
            "{expected} is not among {found:?}"
        );
    }
    assert!(of(&file).iter().any(|path| path.calls("println")));
}
