//! The lints that are relied on are on, in every package.

use proc_macro2::{TokenStream, TokenTree};

use super::assert_clean;
use super::tree::{RustFile, TextFile, rust_files, text_files};

/// The lint that asks for documentation of every public item.
const RELIED_ON: &str = "missing_docs";

/// The one file of the crate in which `unsafe` may stand, and the benchmark that holds what it does beside
/// what the engine does alone.
const UNSAFE_PLACES: [&str; 2] = ["src/executor/artifact.rs", "benches/run/load.rs"];

fn check_workspace(file: &TextFile) -> Vec<String> {
    let manifest = parsed(&file.text);
    if !manifest.contains_key("workspace") {
        return Vec::new();
    }
    let lints = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("lints"))
        .and_then(|lints| lints.get("rust"));
    let level = lints
        .and_then(|lints| lints.get(RELIED_ON))
        .and_then(toml::Value::as_str);
    if matches!(level, Some("warn" | "deny" | "forbid")) {
        return Vec::new();
    }
    vec![format!(
        "{} does not switch on {RELIED_ON} for the workspace",
        file.path
    )]
}

fn check_package(file: &TextFile) -> Vec<String> {
    let manifest = parsed(&file.text);
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool)
        .unwrap_or_default();
    if manifest.contains_key("package") && !inherits {
        return vec![format!(
            "{} does not take the lints of its workspace",
            file.path
        )];
    }
    Vec::new()
}

/// `unsafe` outside of its place, also where a macro hides it from the compiler's lint.
fn check_unsafe(file: &RustFile) -> Vec<String> {
    if UNSAFE_PLACES.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    find_unsafe(file.tokens.clone(), &mut lines);
    let complain = |line| {
        let [place, _] = UNSAFE_PLACES;
        format!("{}:{line}: unsafe stands in {place} alone", file.path)
    };
    lines.into_iter().map(complain).collect()
}

fn find_unsafe(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "unsafe" || word == "unsafe_code" => {
                lines.push(word.span().start().line);
            }
            TokenTree::Group(group) => find_unsafe(group.stream(), lines),
            _ => {}
        }
    }
}

/// A manifest that cannot be parsed has none of what is looked for.
fn parsed(text: &str) -> toml::Table {
    text.parse().unwrap_or_default()
}

#[test]
fn every_package_asks_for_documentation() {
    let manifests = text_files(&["Cargo.toml"]).unwrap();
    let mut complaints: Vec<String> = manifests.iter().flat_map(check_package).collect();
    complaints.extend(manifests.iter().flat_map(check_workspace));
    assert_clean(&complaints);
}

#[test]
fn a_manifest_without_lints_is_seen() {
    let file = |text: &str| TextFile {
        path: "Cargo.toml".to_owned(),
        text: text.to_owned(),
    };
    assert_eq!(check_package(&file("[package]\nname = \"x\"\n")).len(), 1);
    assert_eq!(
        check_package(&file("[package]\n[lints]\nworkspace = false\n")).len(),
        1
    );
    assert_clean(&check_package(&file(
        "[package]\n[lints]\nworkspace = true\n",
    )));
    for text in [
        "[workspace]\n",
        "[workspace.lints.rust]\nmissing_docs = \"allow\"\n",
    ] {
        assert_eq!(check_workspace(&file(text)).len(), 1, "{text}");
    }
    assert_clean(&check_workspace(&file(
        "[workspace.lints.rust]\nmissing_docs = \"warn\"\n",
    )));
}

#[test]
fn unsafe_stands_in_one_place() {
    let files = rust_files().unwrap();
    let complaints: Vec<String> = files.iter().flat_map(check_unsafe).collect();
    assert_clean(&complaints);
}

#[test]
fn unsafe_elsewhere_is_seen() {
    for text in [
        "fn f() { unsafe { g() } }",
        "unsafe fn f() {}",
        "unsafe impl Send for X {}",
        "fn f() { m! { unsafe { g() } } }",
        "#[expect(unsafe_code, reason = \"fast\")] fn f() {}",
    ] {
        for path in ["src/executor/engine.rs", "tests/all/x.rs", "xtask/src/x.rs"] {
            let file = RustFile::parse(path, text).unwrap();
            assert_eq!(check_unsafe(&file).len(), 1, "{path}: {text}");
        }
        let in_place = RustFile::parse(UNSAFE_PLACES[0], text).unwrap();
        assert_clean(&check_unsafe(&in_place));
    }
    let words = "// unsafe\nconst S: &str = \"unsafe\";";
    assert_clean(&check_unsafe(&RustFile::parse("src/x.rs", words).unwrap()));
}
