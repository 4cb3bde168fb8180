//! The folders that agents work in: those that are there, and those that are made for one execution.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilderExt as _};
use tokio::runtime::Handle;

use crate::id::ExecutionId;

/// The mode of folders that are made: for their owner alone.
const FOLDER_MODE: u32 = 0o700;

/// Why a folder cannot be a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path does not begin at the root.
    #[error("workspace path {path:?} is not absolute")]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be written into a ledger and found again.
    #[error("workspace path {path:?} is no UTF-8 text")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A client of a surface named a folder that the operator did not open for that.
    #[error("workspace path {path:?} is no folder below one of runtime.workspaces")]
    NotOpened {
        /// The path.
        path: PathBuf,
    },
    /// There is no such folder, or it cannot be opened.
    #[error("cannot open folder {}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The folder cannot be made.
    #[error("cannot make folder {}", path.display())]
    Unmade {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Looks whether a path names a folder that an agent can be given, and gives the path as text, without a link, a dot or
/// a second slash in it: where it leads now is what is given, and what is opened later has to be the same. `below` are
/// the folders in which it has to be, with all links followed; none: any will do.
///
/// # Errors
/// It does not.
pub(super) fn check(path: &Path, below: Option<&[PathBuf]>) -> Result<String, WorkspaceError> {
    let path = path.to_owned();
    if !path.is_absolute() {
        return Err(WorkspaceError::NotAbsolute { path });
    }
    let real = path.canonicalize();
    let real = real.and_then(|real| {
        Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(real)
    });
    let real = match real {
        Ok(real) => real,
        Err(source) => return Err(WorkspaceError::Unusable { path, source }),
    };
    let is_below = |folder: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| real.starts_with(folder))
    };
    if below.is_some_and(|below| !below.iter().any(is_below)) {
        return Err(WorkspaceError::NotOpened { path });
    }
    match real.to_str() {
        Some(real) => Ok(real.to_owned()),
        None => Err(WorkspaceError::NotText { path: real }),
    }
}

/// Where the folders are made that go with their executions, without a link in it. It is made if it is not there.
///
/// # Errors
/// It cannot be made.
pub(super) fn made_in(workspaces: &Path) -> Result<PathBuf, WorkspaceError> {
    let mut builder = DirBuilder::new();
    builder.mode(FOLDER_MODE).recursive(true);
    let made = builder.create(workspaces);
    made.and_then(|()| workspaces.canonicalize())
        .map_err(|source| WorkspaceError::Unmade {
            path: workspaces.to_owned(),
            source,
        })
}

/// A folder that was made for one execution. It goes when this does.
#[derive(Debug)]
pub(super) struct MadeFolder(Option<Made>);

#[derive(Debug)]
struct Made {
    workspaces: Dir,
    name: String,
}

impl MadeFolder {
    /// Makes the folder of an execution. One that is there already was made by somebody else, and is left alone.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make(workspaces: &Path, name: &str) -> Result<(Self, String), WorkspaceError> {
        let path = workspaces.join(name);
        let unmade = |source| WorkspaceError::Unmade {
            path: path.clone(),
            source,
        };
        made_in(workspaces)?;
        let dir = Dir::open_ambient_dir(workspaces, ambient_authority()).map_err(unmade)?;
        let mut builder = cap_std::fs::DirBuilder::new();
        builder.mode(FOLDER_MODE);
        dir.create_dir_with(name, &builder).map_err(unmade)?;
        let made = Self(Some(Made {
            workspaces: dir,
            name: name.to_owned(),
        }));
        let text = path.to_str().map(str::to_owned);
        let text = text.ok_or_else(|| WorkspaceError::NotText { path: path.clone() })?;
        Ok((made, text))
    }

    /// Removes it, on a thread where nobody waits for others.
    pub(super) async fn remove(mut self) {
        if let Some(made) = self.0.take() {
            // It is removed all the same when the runtime goes away meanwhile: dropping it does that.
            let _removed = tokio::task::spawn_blocking(move || drop(made)).await;
        }
    }
}

impl Drop for MadeFolder {
    fn drop(&mut self) {
        let Some(made) = self.0.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(made))),
            Err(_no_runtime) => drop(made),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        remove_all(&self.workspaces, &self.name);
    }
}

/// Removes a folder with what is in it. A link is removed, and what it leads to is left alone.
fn remove_all(workspaces: &Dir, name: &str) {
    let is_link = workspaces.symlink_metadata(name);
    let removed = match is_link.map(|metadata| metadata.is_dir()) {
        Ok(true) => workspaces.remove_dir_all(name),
        Ok(false) => workspaces.remove_file(name),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(workspace = name, %error, "cannot remove a workspace");
        }
        _ => {}
    }
}

/// Removes folders that executions of earlier processes left: those with the id of one for which `is_over` holds.
/// Whatever else is there is left alone.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn remove_left(
    workspaces: &Path,
    is_over: impl Fn(&ExecutionId) -> bool,
) -> io::Result<()> {
    let dir = match Dir::open_ambient_dir(workspaces, ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    for entry in dir.entries()? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok());
        if let Some(id) = id.filter(|id| is_over(id)) {
            remove_all(&dir, &id.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{MadeFolder, WorkspaceError, check, remove_left};
    use crate::id::{ExecutionId, RunId};

    #[test]
    fn a_folder_that_was_made_goes_and_what_its_links_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, workspaces) = (dir.path().join("outside"), dir.path().join("workspaces"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        let (made, path) = MadeFolder::make(&workspaces, "a").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::create_dir(workspaces.join("a/b")).unwrap();
        symlink(&outside, workspaces.join("a/b/link")).unwrap();
        assert!(MadeFolder::make(&workspaces, "a").is_err());
        assert!(workspaces.join("a/b").exists());
        drop(made);
        assert!(!workspaces.join("a").exists());
        // What takes the place of the folder is not what was made.
        let (made, _) = MadeFolder::make(&workspaces, "a").unwrap();
        fs::remove_dir(workspaces.join("a")).unwrap();
        symlink(&outside, workspaces.join("a")).unwrap();
        drop(made);
        assert!(fs::symlink_metadata(workspaces.join("a")).is_err());
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn only_folders_of_executions_that_are_over_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let id = || ExecutionId::new(&RunId::generate(), 1).unwrap();
        let (over, live) = (id(), id());
        for name in [&over.to_string(), &live.to_string(), "mine", "exec_1"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_left(dir.path(), |id| *id == over).unwrap();
        assert!(!dir.path().join(over.to_string()).exists());
        for name in [&live.to_string(), "mine", "exec_1"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        remove_left(&dir.path().join("none"), |_| true).unwrap();
    }

    #[test]
    fn a_workspace_is_an_absolute_path_to_a_folder_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let root = dir.path().canonicalize().unwrap();
        symlink(&root, root.join("link")).unwrap();
        for spelled in ["", ".", "./", "link", "link/", "link/../"] {
            let path = format!("{}/{spelled}", dir.path().display());
            let checked = check(path.as_ref(), None).unwrap();
            match spelled {
                "link/../" => assert_eq!(checked, root.parent().unwrap().to_str().unwrap()),
                _ => assert_eq!(checked, root.to_str().unwrap(), "{spelled}"),
            }
        }
        assert!(matches!(
            check("a".as_ref(), None),
            Err(WorkspaceError::NotAbsolute { .. })
        ));
        for bad in [&file, &dir.path().join("none")] {
            let error = check(bad, None).unwrap_err();
            assert!(matches!(error, WorkspaceError::Unusable { .. }), "{error}");
        }
    }

    #[test]
    fn a_client_names_no_folder_but_those_below_the_opened_ones() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let opened = root.join("opened");
        fs::create_dir_all(opened.join("a")).unwrap();
        fs::create_dir(root.join("opened-not")).unwrap();
        symlink(&root, opened.join("out")).unwrap();
        let below = Some(std::slice::from_ref(&opened));
        assert!(check(&opened.join("a"), below).is_ok());
        for bad in [
            "",
            "opened/..",
            "opened-not",
            "opened/out",
            "opened/out/opened-not",
        ] {
            let error = check(&root.join(bad), below).unwrap_err();
            assert!(
                matches!(error, WorkspaceError::NotOpened { .. }),
                "{bad}: {error}"
            );
        }
        assert!(check(&opened, Some(&[])).is_err());
    }
}
