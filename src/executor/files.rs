//! The folders that a run was given, and what its guest holds open in them.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::failure::Failure;
use super::file_access;
use super::guest_record::cut;
use super::run_host::Denial;
use super::state::HostState;
use crate::capability::{Capability, FsAccess, GrantSource, Policy};
use crate::limits::{Budget, LimitKey, LimitReached};
use crate::outcome::OutcomeCode;

/// What a name in a folder takes on the disk beside its content, so that a flood of empty files ends too.
const ENTRY_BYTES: u64 = 4096;
/// Bytes that are kept of the path under which the guest opened something. It only tells the reader of a
/// ledger what was refused.
const PATH_BYTES_MAX: usize = 256;

/// A folder of the host as the guest sees it.
pub(crate) struct Folder {
    pub(crate) access: FsAccess,
    host_dir: String,
    guest_dir: String,
    dir: Dir,
    place: Arc<OpenFile>,
}

/// One of the files that a run may hold open at once. It is given back when it is dropped, and a stream
/// keeps it as long as it keeps the file.
pub(crate) struct OpenFile(Arc<Budget>);

/// What a descriptor of the guest stands for.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) folder: Arc<Folder>,
    /// Where the guest sees it.
    path: String,
    pub(crate) place: Arc<OpenFile>,
}

/// The folders of a run and every descriptor that its guest holds, by the number that it has in the
/// table of resources.
#[derive(Default)]
pub(crate) struct Files {
    folders: Vec<Arc<Folder>>,
    held: HashMap<u32, Held>,
}

/// Why the guest does not get what it asks for in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It would change something, and the folder is to be read only.
    ReadOnly,
    /// The path, or a link on it, leads out of the folder.
    LeadsOut,
    /// The link that it wants to make or move could lead out of the folder, for others than itself.
    LinkOut,
    /// It is a device, a socket or a pipe, whose other end may be anything, and may never answer.
    NotAFile,
}

impl OpenFile {
    pub(crate) fn take(budget: &Arc<Budget>) -> Result<Arc<Self>, LimitReached> {
        budget.take(LimitKey::OpenFiles, 1)?;
        Ok(Arc::new(Self(Arc::clone(budget))))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.give_back(LimitKey::OpenFiles, 1);
    }
}

impl Folder {
    /// Refuses a folder that is something that is protected, lies in it or has it in it, whatever the
    /// access. It is the open folder that is looked at: its path may lead elsewhere by now.
    fn check(&self, protected: &[PathBuf]) -> Result<(), Failure> {
        let refused = |path: &Path, reason: &str| Failure {
            hint: Some("grant a folder that has nothing of skillrun's own in it".to_owned()),
            ..Failure::new(
                OutcomeCode::LoadError,
                format!(
                    "{} cannot be given to a skill: {reason} {}",
                    self.capability(self.access),
                    path.display()
                ),
            )
        };
        for path in protected {
            match file_access::meets(&self.dir.dir, path) {
                Ok(false) => {}
                Ok(true) => return Err(refused(path, "it would reach")),
                Err(error) => {
                    let reason = format!("{error}, so nobody knows whether it would reach");
                    return Err(refused(path, &reason));
                }
            }
        }
        Ok(())
    }

    fn capability(&self, access: FsAccess) -> Capability {
        Capability::Fs {
            access,
            host_dir: self.host_dir.clone(),
            guest_dir: self.guest_dir.clone(),
        }
    }
}

impl Held {
    /// What is at `path` below this.
    pub(crate) fn below(&self, path: &str, place: Arc<OpenFile>) -> Self {
        Self {
            folder: Arc::clone(&self.folder),
            path: self.join(path),
            place,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.folder.access == FsAccess::ReadOnly
    }

    /// A path as the guest put it: from here, unless it is empty or begins at the root.
    fn join(&self, path: &str) -> String {
        let path = cut(path, PATH_BYTES_MAX);
        let joined = match path {
            "" | "." => self.path.clone(),
            _ if path.starts_with('/') => path.to_owned(),
            _ => format!("{}/{path}", self.path.trim_end_matches('/')),
        };
        cut(&joined, PATH_BYTES_MAX).to_owned()
    }
}

impl Files {
    /// Opens the folders of a policy, on a thread for it. Where the same folder is granted twice for one
    /// place, the wider access holds, as it does for everything else that is granted twice. `workspace_dir` is
    /// the one on whose path no link may be.
    ///
    /// # Errors
    /// One of them cannot be opened or reaches something that is protected, two are to be seen at the same
    /// place, or there are more of them than a run may hold open.
    pub(crate) async fn open(
        policy: &Arc<Policy>,
        budget: &Arc<Budget>,
        protected: &Arc<[PathBuf]>,
        workspace_dir: Option<String>,
    ) -> Result<Self, Failure> {
        let is_folder = |capability: &Capability| matches!(capability, Capability::Fs { .. });
        if !policy.effective.iter().any(is_folder) {
            return Ok(Self::default());
        }
        let (policy, budget) = (Arc::clone(policy), Arc::clone(budget));
        let protected = Arc::clone(protected);
        let opening = tokio::task::spawn_blocking(move || {
            Self::open_here(&policy, &budget, &protected, workspace_dir.as_deref())
        });
        opening
            .await
            .unwrap_or_else(|error| Err(Failure::new(OutcomeCode::Internal, error.to_string())))
    }

    fn open_here(
        policy: &Policy,
        budget: &Arc<Budget>,
        protected: &[PathBuf],
        workspace_dir: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut places: BTreeMap<&str, (&str, FsAccess)> = BTreeMap::new();
        for capability in &policy.effective {
            let Capability::Fs {
                access,
                host_dir,
                guest_dir,
            } = capability
            else {
                continue;
            };
            let (known, widest) = places.entry(guest_dir).or_insert((host_dir, *access));
            if known != host_dir {
                return Err(two_folders(guest_dir, known, host_dir));
            }
            *widest = (*widest).max(*access);
        }
        let mut folders = Vec::new();
        for (guest_dir, (host_dir, access)) in places {
            let place = OpenFile::take(budget)?;
            let opened = match workspace_dir == Some(host_dir) {
                true => open_without_links(host_dir),
                false => rustix::fs::open(host_dir, FOLDER_FLAGS, Mode::empty()),
            };
            let folder = Unopened {
                access,
                host_dir,
                guest_dir,
            };
            let folder = folder.opened(policy, opened, place)?;
            folder.check(protected)?;
            folders.push(Arc::new(folder));
        }
        Ok(Self {
            folders,
            held: HashMap::new(),
        })
    }
}

/// Refuses to give folders to a component that would use them unwatched.
pub(crate) fn check_no_folder(policy: &Policy) -> Result<(), Failure> {
    let folder = |capability: &&Capability| matches!(capability, Capability::Fs { .. });
    match policy.effective.iter().find(folder) {
        None => Ok(()),
        Some(capability) => Err(Failure {
            hint: Some("build the skill for WASI 0.2, or grant it no folder".to_owned()),
            ..Failure::new(
                OutcomeCode::LoadError,
                format!("no {capability} for a component that imports wasi:filesystem of WASI 0.3"),
            )
        }),
    }
}

/// How a folder is opened.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens a folder on whose path, from the root on, no link may be.
fn open_without_links(path: &str) -> rustix::io::Result<OwnedFd> {
    // Whoever may not read a folder may pass it all the same.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open("/", flags, Mode::empty())?;
    for component in Path::new(path).components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => dir = rustix::fs::openat(&dir, name, flags, Mode::empty())?,
            _ => return Err(Errno::INVAL),
        }
    }
    rustix::fs::openat(&dir, ".", FOLDER_FLAGS, Mode::empty())
}

/// A folder that is to be opened.
struct Unopened<'a> {
    access: FsAccess,
    host_dir: &'a str,
    guest_dir: &'a str,
}

impl Unopened<'_> {
    fn capability(&self) -> Capability {
        Capability::Fs {
            access: self.access,
            host_dir: self.host_dir.to_owned(),
            guest_dir: self.guest_dir.to_owned(),
        }
    }

    fn opened(
        &self,
        policy: &Policy,
        opened: rustix::io::Result<OwnedFd>,
        place: Arc<OpenFile>,
    ) -> Result<Folder, Failure> {
        let (perms, mode) = match self.access {
            FsAccess::ReadOnly => (FsPerms::ReadOnly, OpenMode::READ),
            FsAccess::ReadWrite => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        let fd = opened.map_err(|errno| {
            let capability = self.capability();
            Failure {
                hint: Some(format!(
                    "it must be a folder that exists and can be read before the run, and that of an execution no \
                     link; it is granted by {}",
                    granted_by(policy, &capability)
                )),
                ..Failure::new(
                    OutcomeCode::LoadError,
                    format!("cannot open the folder of {capability}: {errno}"),
                )
            }
        })?;
        if let Some(kind) = kernel_file_system(&fd) {
            let host_dir = self.host_dir;
            let message = format!("{host_dir} is part of {kind}, which is no place for files");
            let granted_by = granted_by(policy, &self.capability());
            return Err(Failure {
                hint: Some(format!("it is granted by {granted_by}")),
                ..Failure::new(OutcomeCode::LoadError, message)
            });
        }
        Ok(Folder {
            access: self.access,
            host_dir: self.host_dir.to_owned(),
            guest_dir: self.guest_dir.to_owned(),
            dir: Dir::new(fd.into(), perms, mode, false),
            place,
        })
    }
}

/// What of the kernel a folder shows, if it shows that and no files: processes with their variables and
/// their memory, this one among them, and the settings of the machine.
fn kernel_file_system(folder: &impl AsFd) -> Option<&'static str> {
    const PROC_MAGIC: u64 = 0x9fa0;
    const SYSFS_MAGIC: u64 = 0x6265_6572;
    let kind = rustix::fs::fstatfs(folder).ok()?.f_type;
    match u64::try_from(kind).ok()? {
        PROC_MAGIC => Some("/proc"),
        SYSFS_MAGIC => Some("/sys"),
        _ => None,
    }
}

/// Where the operator can change a grant.
fn granted_by(policy: &Policy, capability: &Capability) -> &'static str {
    let meets = |one: &&crate::capability::Grant| one.capability.intersection(capability).is_some();
    match policy.granted.iter().find(meets).map(|grant| grant.source) {
        Some(GrantSource::Config) => "capabilities.grant in config.toml",
        Some(GrantSource::Skill) => "skills.<name>.grant in config.toml",
        Some(GrantSource::Call) | None => "the call (--grant)",
    }
}

fn two_folders(guest_dir: &str, one: &str, other: &str) -> Failure {
    Failure {
        hint: Some(
            "grant one of them, in capabilities.grant or skills.<name>.grant of config.toml or with --grant"
                .to_owned(),
        ),
        ..Failure::new(
            OutcomeCode::LoadError,
            format!("two folders are granted for {guest_dir}: {one} and {other}"),
        )
    }
}

impl HostState {
    /// Gives the guest descriptors of its folders.
    pub(crate) fn hand_out_folders(
        &mut self,
    ) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut directories = Vec::new();
        for folder in self.files.folders.clone() {
            let held = Held {
                path: folder.guest_dir.clone(),
                place: Arc::clone(&folder.place),
                folder: Arc::clone(&folder),
            };
            let descriptor = self.table.push(Descriptor::Dir(folder.dir.clone()))?;
            self.files.held.insert(descriptor.rep(), held);
            directories.push((descriptor, folder.guest_dir.clone()));
        }
        Ok(directories)
    }

    /// Puts what was opened into the guest's hands.
    pub(crate) fn hold(
        &mut self,
        descriptor: Descriptor,
        held: Held,
    ) -> Result<Resource<Descriptor>, FsError> {
        let descriptor = self.table.push(descriptor)?;
        self.files.held.insert(descriptor.rep(), held);
        Ok(descriptor)
    }

    pub(crate) fn held(&self, descriptor: &Resource<Descriptor>) -> Result<Held, FsError> {
        let held = self.files.held.get(&descriptor.rep()).cloned();
        held.ok_or_else(|| FsError::trap(wasmtime::format_err!("a descriptor without a folder")))
    }

    pub(crate) fn let_go(&mut self, descriptor: &Resource<Descriptor>) {
        self.files.held.remove(&descriptor.rep());
    }

    /// Takes bytes that the run may write to files.
    pub(crate) fn take_file_bytes(&self, bytes: u64) -> Result<(), FsError> {
        let budget = self.record.budget();
        budget
            .take(LimitKey::FileWriteBytes, bytes)
            .map_err(FsError::trap)
    }

    /// Takes what a new name in a folder costs.
    pub(crate) fn take_entry(&self) -> Result<(), FsError> {
        self.take_file_bytes(ENTRY_BYTES)
    }

    /// Refuses whatever changes something, in a folder that is to be read only.
    pub(crate) fn check_writable(
        &self,
        held: &Held,
        verb: &str,
        path: &str,
    ) -> Result<(), FsError> {
        if held.is_read_only() {
            return Err(self.refuse_file(held, Refusal::ReadOnly, verb, path));
        }
        Ok(())
    }

    /// Records a refusal and gives the error that the guest gets for it. The guest learns no more than
    /// that; which folder of the host it is, the ledger says.
    pub(crate) fn refuse_file(
        &self,
        held: &Held,
        refusal: Refusal,
        verb: &str,
        path: &str,
    ) -> FsError {
        let access = match refusal {
            Refusal::ReadOnly => FsAccess::ReadWrite,
            _ => held.folder.access,
        };
        let capability = held.folder.capability(access).to_string();
        let rule = match refusal {
            Refusal::ReadOnly => self.policy().rule(&capability),
            Refusal::LeadsOut => "the path leads out of the folder",
            Refusal::LinkOut => "a link must be relative and lead down",
            Refusal::NotAFile => "neither a file nor a folder",
        };
        self.record.denied(Denial {
            capability: &capability,
            rule,
            wanted: &format!("{verb} {}", held.join(path)),
            call_id: None,
        });
        ErrorCode::NotPermitted.into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{OpenFile, check_no_folder, open_without_links};
    use crate::capability::Policy;
    use crate::limits::{Budget, LimitKey, LimitOverrides, Limits, Scope, Source};
    use crate::outcome::OutcomeCode;

    #[test]
    fn a_file_that_is_let_go_of_is_free_again_here_and_above() {
        let overrides = LimitOverrides::from([("open_files".to_owned(), 2)]);
        let limits = Limits::default().with(Source::Config, &overrides).unwrap();
        let above = Arc::new(Budget::new(Arc::new(limits), None));
        let inside = Arc::new(Budget::new(Arc::default(), Some(Arc::clone(&above))));
        let first = OpenFile::take(&inside).unwrap();
        let second = OpenFile::take(&above).unwrap();
        let refused = OpenFile::take(&inside).err().unwrap();
        assert_eq!((refused.limit.value, refused.scope), (2, Scope::Above));
        drop((first, second));
        assert_eq!(above.used(LimitKey::OpenFiles), 0);
        assert_eq!(inside.used(LimitKey::OpenFiles), 0);
    }

    #[test]
    fn a_folder_is_opened_where_no_part_of_its_path_is_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::os::unix::fs::symlink("b", root.join("a/link")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        let open = |path: &str| open_without_links(root.join(path).to_str().unwrap());
        assert!(open("a").is_ok() && open("a/b").is_ok());
        for bad in ["link", "link/b", "a/link", "a/file", "none", "a/../a"] {
            assert!(open(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_is_not_given_where_nobody_would_watch() {
        let mut policy = Policy {
            effective: vec!["env:A".parse().unwrap()],
            ..Policy::default()
        };
        assert_eq!(check_no_folder(&policy), Ok(()));
        policy.effective.push("fs:ro:/a=/b".parse().unwrap());
        let refused = check_no_folder(&policy).unwrap_err();
        assert_eq!(refused.code, OutcomeCode::LoadError);
        assert!(refused.message.contains("fs:ro:/a=/b"), "{refused}");
    }
}
