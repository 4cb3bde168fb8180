//! Compiled components on disk: what is used, and what is passed over, made anew and replaced.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skillrun::clock::Clock;
use skillrun::executor::{Engine, EngineOptions, HttpOptions, LoadError, Program};
use skillrun::ledger::Digest;
use skillrun::limits::Limits;

use super::{PATIENT, call, limits, skill_of};

/// A folder that several processes share, one after the other, and how often a component was compiled.
struct Shared {
    folder: tempfile::TempDir,
    component: Vec<u8>,
    compilations: Arc<AtomicUsize>,
}

impl Shared {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            component: skill_of("", "", "", ""),
            compilations: Arc::default(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn engine(&self, limits: Limits) -> Engine {
        Engine::new(EngineOptions {
            instances_max: 2,
            limits,
            loading: PATIENT,
            cache_dir: Some(self.dir()),
            http: HttpOptions::default(),
            clock: Clock::system(),
        })
        .unwrap()
    }

    /// Loads the component as a process that has just begun does. The bytes are asked for only to be
    /// compiled.
    async fn load(&self, limits: Limits) -> Result<Arc<Program>, LoadError> {
        let (bytes, compilations) = (self.component.clone(), Arc::clone(&self.compilations));
        let read = move || {
            compilations.fetch_add(1, Ordering::SeqCst);
            Ok(bytes)
        };
        let digest = Digest::of(&self.component).to_string();
        self.engine(limits).load(&digest, read).await
    }

    /// Loads the component, sees that it runs, and gives how often it was compiled for that.
    async fn compilations(&self) -> usize {
        let before = self.compilations.load(Ordering::SeqCst);
        let program = self.load(limits(&[])).await.unwrap();
        let answer = program.call(call("{}", limits(&[]))).await;
        assert_eq!(answer.as_deref(), Ok("null"));
        self.compilations.load(Ordering::SeqCst) - before
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir()).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The only file.
    #[track_caller]
    fn file(&self) -> PathBuf {
        let [file] = self.files().try_into().unwrap();
        file
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn what_one_process_compiled_the_next_one_runs() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    assert_eq!((mode(&shared.dir()), mode(&shared.file())), (0o700, 0o600));
    let inode = fs::metadata(shared.file()).unwrap().ino();
    assert_eq!(shared.compilations().await, 0);
    // Another time of modification only makes it look at every byte again.
    let file = File::options().write(true).open(shared.file()).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(shared.compilations().await, 0);
    assert_eq!(fs::metadata(shared.file()).unwrap().ino(), inode);
}

#[tokio::test]
async fn what_is_damaged_is_compiled_anew_and_replaced() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    let path = shared.file();
    let length = fs::metadata(&path).unwrap().len();
    // In the header, in the code, and in each part of the trailer.
    let offsets = [0, 1, 64, length / 3, length / 2];
    let from_end = [1, 8, 9, 24, 25, 26, 33, 41, 49, 57, 113, 114];
    for offset in offsets
        .into_iter()
        .chain(from_end.map(|back| length - back))
    {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        assert_eq!(shared.compilations().await, 1, "byte {offset} of {length}");
        assert_eq!(shared.compilations().await, 0, "byte {offset} of {length}");
    }
    for left in [0, 1, 112, 113, 4096, length - 1] {
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        assert_eq!(shared.compilations().await, 1, "{left} bytes left");
        assert_eq!(shared.compilations().await, 0, "{left} bytes left");
    }
    let file = File::options().append(true).open(&path).unwrap();
    file.set_len(length + 1).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert_eq!(shared.compilations().await, 0);
}

#[tokio::test]
async fn what_was_made_for_another_component_or_engine_is_not_used() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    let mut other = Shared::new();
    other.component = skill_of("", "", "(func)", "");
    assert_eq!(other.compilations().await, 1);
    fs::copy(other.file(), shared.file()).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert_eq!(shared.compilations().await, 0);

    let name = shared
        .file()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let (digest, _) = name.split_once('-').unwrap();
    let older = shared
        .dir()
        .join(format!("{digest}-0123456789abcdef.artifact"));
    fs::rename(shared.file(), &older).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert!(older.exists());
}

#[tokio::test]
async fn a_file_or_folder_that_others_could_have_written_is_not_used() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    for mode_of_file in [0o620, 0o602, 0o666] {
        fs::set_permissions(shared.file(), Permissions::from_mode(mode_of_file)).unwrap();
        assert_eq!(shared.compilations().await, 1, "{mode_of_file:o}");
        assert_eq!(mode(&shared.file()), 0o600);
        assert_eq!(shared.compilations().await, 0, "{mode_of_file:o}");
    }
    for mode_of_dir in [0o770, 0o702, 0o777] {
        fs::set_permissions(shared.dir(), Permissions::from_mode(mode_of_dir)).unwrap();
        let inode = fs::metadata(shared.file()).unwrap().ino();
        assert_eq!(shared.compilations().await, 1, "{mode_of_dir:o}");
        assert_eq!(
            shared.compilations().await,
            1,
            "nothing is put there either"
        );
        assert_eq!(fs::metadata(shared.file()).unwrap().ino(), inode);
    }
    fs::set_permissions(shared.dir(), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(shared.compilations().await, 0);

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(shared.file(), Some(65534), None).unwrap();
        assert_eq!(shared.compilations().await, 1, "a file of another user");
        assert_eq!(shared.compilations().await, 0);
        std::os::unix::fs::chown(shared.dir(), Some(65534), None).unwrap();
        assert_eq!(shared.compilations().await, 1, "a folder of another user");
        assert_eq!(shared.compilations().await, 1);
    }
}

#[tokio::test]
async fn no_link_is_followed() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    let (file, elsewhere) = (shared.file(), shared.folder.path().join("elsewhere"));
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert!(fs::symlink_metadata(&file).unwrap().is_file(), "replaced");
    assert_eq!(shared.compilations().await, 0);

    let moved = shared.folder.path().join("moved");
    fs::rename(shared.dir(), &moved).unwrap();
    symlink(&moved, shared.dir()).unwrap();
    assert_eq!(shared.compilations().await, 1);

    fs::remove_file(shared.dir()).unwrap();
    fs::rename(&moved, shared.dir()).unwrap();
    fs::remove_file(shared.file()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(shared.compilations().await, 1, "a pipe does not hold it up");
    assert_eq!(shared.compilations().await, 0);
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_fails_no_load() {
    let shared = Shared::new();
    fs::write(shared.dir(), "a file where the folder should be").unwrap();
    assert_eq!(shared.compilations().await, 1);
    fs::remove_file(shared.dir()).unwrap();
    fs::create_dir(shared.dir()).unwrap();
    // A folder under the name that the file should get: it cannot be replaced by a file.
    assert_eq!(shared.compilations().await, 1);
    let file = shared.file();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert_eq!(shared.files(), [file], "nothing unfinished is left");
}

/// It is not even looked at whether the bytes fit: the engine says no, and then they tell why.
#[tokio::test]
async fn a_component_that_fits_no_longer_is_refused_with_key_and_need() {
    let mut shared = Shared::new();
    shared.component = skill_of("", "", "(table 5000 funcref)", "");
    assert_eq!(shared.compilations().await, 1);
    let refused = shared.load(limits(&[("table_elements", 100)])).await.err();
    assert_eq!(
        refused.unwrap().to_string(),
        "component needs table_elements = 5000: this host has room for 100"
    );
    assert_eq!(shared.compilations().await, 0, "it is kept nevertheless");
}

#[tokio::test]
async fn which_engine_a_component_needs_is_remembered() {
    let mut shared = Shared::new();
    shared.component = skill_of("(core func (canon waitable-set.new))", "", "", "");
    assert_eq!(shared.compilations().await, 1);
    assert_eq!(shared.compilations().await, 0);
}

#[tokio::test]
async fn what_was_not_used_for_longest_makes_room() {
    let shared = Shared::new();
    assert_eq!(shared.compilations().await, 1);
    let ours = shared.file();
    let long_ago = std::time::UNIX_EPOCH;
    for n in 0..600 {
        let path = shared
            .dir()
            .join(format!("{n:064x}-0123456789abcdef.artifact"));
        let file = File::create(path).unwrap();
        file.set_modified(long_ago + std::time::Duration::from_secs(n))
            .unwrap();
    }
    let huge = shared
        .dir()
        .join(format!("{:064x}-0123456789abcdef.artifact", 1000));
    // Newer than all others, and alone more than may be kept.
    File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    let unfinished = shared.dir().join(".unfinished-0123456789abcdef");
    File::create(&unfinished)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    let foreign = shared.dir().join("README");
    fs::write(&foreign, "not ours to remove").unwrap();

    fs::remove_file(&ours).unwrap();
    assert_eq!(shared.compilations().await, 1);
    assert!(!unfinished.exists() && foreign.exists());
    assert!(!huge.exists(), "more bytes than may be kept");
    assert!(ours.exists(), "what was just made stays");
    assert!(shared.files().len() <= 513, "{}", shared.files().len());
}
