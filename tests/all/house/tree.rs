//! The files of the checkout, read once for each check.

use std::fs;
use std::io;
use std::path::Path;

use proc_macro2::TokenStream;

/// Folders that hold no source of ours.
const SKIPPED_FOLDERS: [&str; 4] = ["target", ".git", "node_modules", "proptest-regressions"];

/// A file as text, with its path from the checkout, `/` between the segments.
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) text: String,
}

/// A Rust file, parsed.
pub(super) struct RustFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tokens: TokenStream,
    pub(super) syntax: syn::File,
}

impl RustFile {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let explain = |error: syn::Error| format!("{path}: {error}");
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens: syn::parse_str(text).map_err(explain)?,
            syntax: syn::parse_file(text).map_err(explain)?,
        })
    }

    /// The folder or file below `src/` that the file belongs to: `ledger` for `src/ledger/bus.rs`;
    /// nothing for files elsewhere.
    pub(super) fn top_module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        below
            .split('/')
            .next()
            .map(|first| first.strip_suffix(".rs").unwrap_or(first))
    }
}

/// The checkout.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths of all files, sorted.
pub(super) fn all_paths() -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    walk(root(), "", &mut paths)?;
    paths.sort();
    Ok(paths)
}

/// All files whose name ends in one of `endings`.
pub(super) fn text_files(endings: &[&str]) -> io::Result<Vec<TextFile>> {
    all_paths()?
        .into_iter()
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)))
        .map(|path| fs::read_to_string(root().join(&path)).map(|text| TextFile { path, text }))
        .collect()
}

/// All Rust files: the crate, its tests, xtask, the guests.
pub(super) fn rust_files() -> Result<Vec<RustFile>, String> {
    let files = text_files(&[".rs"]).map_err(|error| error.to_string())?;
    files
        .iter()
        .map(|file| RustFile::parse(&file.path, &file.text))
        .collect()
}

fn walk(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if SKIPPED_FOLDERS.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{path}/"), paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

#[test]
fn the_tree_is_found() {
    let files = rust_files().unwrap();
    for expected in ["src/lib.rs", "tests/all/house.rs", "xtask/src/main.rs"] {
        assert!(files.iter().any(|file| file.path == expected), "{expected}");
    }
}
