//! The lint that asks for documentation is on, in every package.

use super::assert_clean;
use super::tree::{TextFile, text_files};

/// The lint that asks for documentation of every public item.
const RELIED_ON: &str = "missing_docs";

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
