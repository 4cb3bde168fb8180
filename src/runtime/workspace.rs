//! The folders that agents work in.

use std::io;
use std::path::PathBuf;

/// Why a folder cannot be a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path does not begin at the root.
    #[error("workspace path {path:?} is not absolute")]
    NotAbsolute {
        /// The path.
        path: String,
    },
    /// There is no such folder, or it cannot be opened.
    #[error("cannot open folder {}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}
