//! Compiled components on disk, so that the next process need not compile them again.
//!
//! Loading one is `unsafe` in wasmtime, because it is native code that will be run: the engine checks
//! that it was made by the same version under the same settings, and believes the rest. This is the one
//! module of the crate in which `unsafe` may stand.
//!
//! # What is trusted, and why
//!
//! The user as whom this process runs, and nobody else. Whoever can write as that user can change
//! `config.toml`, the skills and the ledgers already, so a signature would protect nothing that is not
//! lost by then. Everyone else is kept out by the file system, which is asked each time: a file counts
//! only when it is a regular file that belongs to us and that nobody else may write, in a folder of which
//! the same is true, and when no link had to be followed from the folder on. All that is asked of the open
//! handle, and the code is mapped from the same handle, so what was checked is what is used.
//!
//! Against damage there is a checksum over every byte. It is fast and not cryptographic, since nobody who
//! could forge it is trusted any less than we are. Even so it takes longer than all the rest of a load.
//! So whoever has written a file, synced, or summed it up leaves a mark: the fraction of a second in the
//! file's modification time is made from the checksum. A write to the file, whoever makes it, sets another
//! time, and then every byte is looked at again. What that cannot see is a disk that alters what it was
//! given, from which no program on it is safe either.
//!
//! Files are made under another name and renamed, never written in place, so several processes can use
//! one folder. Whatever does not fit is passed over, made anew and replaced; no failure here fails a load.
//!
//! # The file
//!
//! What the engine serialized, from the first byte on, since it is mapped as it lies there; then a
//! trailer of fixed length: the component's digest, the engine's key, the component's size, the length of
//! what comes before, whether the component needs the engine with `async`, a checksum over all of that,
//! and a magic with the version of this layout.

use std::fs::{DirBuilder, File, FileTimes, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags};
use wasmtime::component::Component;
use xxhash_rust::xxh3::Xxh3;

use crate::clock::Clock;

/// Bytes of all artifacts, and of one. Protects the disk from a home in which ever new components run.
const CACHE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Number of artifacts. Protects whoever reads the folder.
const CACHE_FILES_MAX: usize = 512;
/// Age from which an unfinished file counts as left behind by a process that is gone.
const UNFINISHED_SECONDS_MAX: i64 = 60 * 60;

/// How the name of an artifact ends.
const ENDING: &str = ".artifact";
/// How the name of an unfinished one begins.
const UNFINISHED: &str = ".unfinished-";

/// Ends every artifact; the last byte is the version of the layout.
const MAGIC: &[u8; 8] = b"sklrun\0\x01";
/// Hexadecimal digits of a SHA-256.
const DIGEST_LENGTH: usize = 64;
/// What the checksum covers of the trailer: digest, key, two lengths, flag.
const COVERED_LENGTH: usize = DIGEST_LENGTH + 8 + 8 + 8 + 1;
const TRAILER_LENGTH: usize = COVERED_LENGTH + 16 + MAGIC.len();

/// Bytes that are read at a time to be summed: few enough to stay in the processor's cache.
const CHUNK_BYTES: usize = 128 * 1024;

/// Permissions of anybody but the owner to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Where the system shows a process its own open files under a path.
const OPEN_FILES: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

type Checksum = [u8; 16];

/// A folder of artifacts.
pub(super) struct Artifacts {
    dir: PathBuf,
    /// Stands for the engine's version and settings, as far as compiled code depends on them.
    engine_key: u64,
    clock: Clock,
}

/// What is known of a component beside its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// It belongs on the engine for components that use `async`.
    pub(super) uses_async: bool,
    /// The size of the component from which it was compiled.
    pub(super) component_bytes: u64,
}

/// An artifact that was found whole and ours.
pub(super) struct Artifact {
    file: File,
    pub(super) facts: Facts,
}

/// Why a file is not used, or not written.
#[derive(Debug, thiserror::Error)]
enum ArtifactError {
    #[error("cannot {action}")]
    Io {
        action: &'static str,
        source: io::Error,
    },
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it belongs to user {owner}, not to {us}")]
    Foreign { owner: u32, us: u32 },
    #[error("others may write to it: its mode is {mode:o}")]
    Writable { mode: u32 },
    #[error("it has {bytes} bytes: expected {TRAILER_LENGTH} to {CACHE_BYTES_MAX}")]
    Size { bytes: u64 },
    #[error("it is damaged: {what}")]
    Damaged { what: &'static str },
    #[error("it was made for another component or another engine")]
    OtherKey,
}

impl ArtifactError {
    fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Io {
            action,
            source: error.into(),
        }
    }
}

impl Artifacts {
    /// Artifacts in `dir` for `engine` and its twin with `async`, whose settings follow from it.
    pub(super) fn new(dir: PathBuf, engine: &wasmtime::Engine, clock: Clock) -> Self {
        let mut key = Xxh3::new();
        engine.precompile_compatibility_hash().hash(&mut key);
        Self {
            dir,
            engine_key: key.finish(),
            clock,
        }
    }

    /// The artifact of the component with this digest, if there is one that can be used.
    pub(super) fn find(&self, digest: &str) -> Option<Artifact> {
        let name = self.name(digest)?;
        match self.try_find(digest, &name) {
            Ok(found) => found,
            Err(error) => {
                let path = self.dir.join(&name);
                tracing::warn!(
                    path = %path.display(),
                    reason = crate::telemetry::chain(&error),
                    "compiled component passed over"
                );
                None
            }
        }
    }

    fn try_find(&self, digest: &str, name: &str) -> Result<Option<Artifact>, ArtifactError> {
        let Some(dir) = absent_is_none(open_folder(&self.dir))? else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&dir, name, flags, Mode::empty())
            .map_err(ArtifactError::io("open it"));
        let Some(file) = absent_is_none(opened)? else {
            return Ok(None);
        };
        let mut file = File::from(file);
        let metadata = file.metadata().map_err(ArtifactError::io("look at it"))?;
        if !metadata.is_file() {
            return Err(ArtifactError::NotAFile);
        }
        check_owner(&metadata)?;
        let (facts, sum) = self.verify(&mut file, &metadata, digest)?;
        self.mark(&file, sum);
        Ok(Some(Artifact { file, facts }))
    }

    /// What the file is of, and its checksum, when nothing of it has changed.
    fn verify(
        &self,
        file: &mut File,
        metadata: &Metadata,
        digest: &str,
    ) -> Result<(Facts, Checksum), ArtifactError> {
        let bytes = metadata.len();
        let code_length = bytes
            .checked_sub(u64_of(TRAILER_LENGTH))
            .filter(|_| bytes <= CACHE_BYTES_MAX)
            .ok_or(ArtifactError::Size { bytes })?;
        let mut trailer = [0; TRAILER_LENGTH];
        file.read_exact_at(&mut trailer, code_length)
            .map_err(ArtifactError::io("read it"))?;
        let (covered, rest) = trailer.split_at(COVERED_LENGTH);
        let sum = rest.strip_suffix(MAGIC).and_then(<[u8]>::first_chunk);
        let (Some(&sum), Some(facts)) = (sum, facts(covered)) else {
            return Err(ArtifactError::Damaged {
                what: "its end is not that of an artifact",
            });
        };
        if covered != self.covered(digest, facts, code_length) {
            return Err(ArtifactError::OtherKey);
        }
        let is_marked = u64::try_from(metadata.mtime_nsec()) == Ok(mark(sum));
        if !is_marked && checksum(file, code_length, covered)? != sum {
            return Err(ArtifactError::Damaged {
                what: "its checksum does not match",
            });
        }
        Ok((facts, sum))
    }

    /// Notes that an artifact is in use and that every byte of it was seen. Where that cannot be noted, it
    /// is looked at again, and goes first.
    fn mark(&self, file: &File, sum: Checksum) {
        let seconds = self.clock.now().unix_micros().div_euclid(1_000_000);
        let marked = FileTimes::new().set_modified(
            UNIX_EPOCH
                + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
                + Duration::from_nanos(mark(sum)),
        );
        let _goes_first = file.set_times(marked);
    }

    /// Keeps a component that was compiled, and makes room for it.
    pub(super) fn store(&self, digest: &str, facts: Facts, component: &Component) {
        let Some(name) = self.name(digest) else {
            return;
        };
        if let Err(error) = self.try_store(digest, &name, facts, component) {
            tracing::warn!(
                path = %self.dir.join(&name).display(),
                reason = crate::telemetry::chain(&error),
                "compiled component not kept"
            );
        }
    }

    fn try_store(
        &self,
        digest: &str,
        name: &str,
        facts: Facts,
        component: &Component,
    ) -> Result<(), ArtifactError> {
        let code = component
            .serialize()
            .map_err(|error| ArtifactError::io("serialize it")(io::Error::other(error)))?;
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&self.dir);
        made.map_err(ArtifactError::io("make the folder"))?;
        let dir = open_folder(&self.dir)?;
        let covered = self.covered(digest, facts, u64_of(code.len()));
        let mut sum = Xxh3::new();
        sum.update(&code);
        sum.update(&covered);
        let sum = sum.digest128().to_le_bytes();

        let unfinished = format!("{UNFINISHED}{:016x}", rand::random::<u64>());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, &unfinished, flags, Mode::RUSR | Mode::WUSR)
            .map_err(ArtifactError::io("make it"))?;
        let mut file = File::from(file);
        let parts: [&[u8]; 4] = [&code, &covered, &sum, MAGIC];
        let written = parts.into_iter().try_for_each(|part| file.write_all(part));
        // The mark says that the bytes are there, so they have to be.
        let written = written.and_then(|()| file.sync_data());
        let finished = written
            .map_err(ArtifactError::io("write it"))
            .and_then(|()| {
                self.mark(&file, sum);
                rustix::fs::renameat(&dir, &unfinished, &dir, name)
                    .map_err(ArtifactError::io("rename it"))
            });
        if finished.is_err() {
            // Should it stay, whoever makes room next removes it.
            let _met_again = rustix::fs::unlinkat(&dir, &unfinished, AtFlags::empty());
        }
        finished?;
        let now = self.clock.now().unix_micros().div_euclid(1_000_000);
        make_room(&dir, name, now).map_err(ArtifactError::io("make room for it"))
    }

    /// The name of an artifact's file; none for what is no digest and might lead anywhere.
    fn name(&self, digest: &str) -> Option<String> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_digest = digest.len() == DIGEST_LENGTH && digest.bytes().all(is_digit);
        is_digest.then(|| format!("{digest}-{:016x}{ENDING}", self.engine_key))
    }

    /// The part of the trailer that the checksum covers.
    fn covered(&self, digest: &str, facts: Facts, code_length: u64) -> Vec<u8> {
        let mut covered = Vec::with_capacity(COVERED_LENGTH);
        covered.extend(digest.as_bytes());
        covered.extend(self.engine_key.to_le_bytes());
        covered.extend(code_length.to_le_bytes());
        covered.extend(facts.component_bytes.to_le_bytes());
        covered.push(u8::from(facts.uses_async));
        covered
    }
}

impl Artifact {
    /// The component, on the engine that its facts name.
    pub(super) fn component(self, engine: &wasmtime::Engine) -> Option<Component> {
        let path = format!("{OPEN_FILES}/{}", self.file.as_raw_fd());
        deserialize(engine, Path::new(&path))
            .inspect_err(|error| {
                // Most often it no longer fits the pool, of which the error that follows tells more.
                let reason = format!("{error:#}");
                tracing::debug!(reason, "compiled component passed over by the engine");
            })
            .ok()
    }
}

#[expect(
    unsafe_code,
    reason = "the engine believes compiled code, and only this module knows that it may"
)]
fn deserialize(engine: &wasmtime::Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the path names the open file of an `Artifact`, which `Artifacts::try_find` alone makes. That
    // file is ours, nobody else can write to it, it is never written in place, and every byte of it is what
    // `Component::serialize` gave to a process of this user, under this engine's key.
    unsafe { Component::deserialize_file(engine, path) }
}

/// Takes the facts out of a trailer.
fn facts(covered: &[u8]) -> Option<Facts> {
    let (uses_async, rest) = covered.split_last()?;
    let component_bytes = u64::from_le_bytes(*rest.last_chunk()?);
    Some(Facts {
        uses_async: *uses_async != 0,
        component_bytes,
    })
}

/// The folder, when it is one in which nobody else can put anything.
fn open_folder(path: &Path) -> Result<File, ArtifactError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())
        .map_err(ArtifactError::io("open the folder"))?;
    let dir = File::from(dir);
    let metadata = dir
        .metadata()
        .map_err(ArtifactError::io("look at the folder"))?;
    check_owner(&metadata)?;
    Ok(dir)
}

fn check_owner(metadata: &Metadata) -> Result<(), ArtifactError> {
    let us = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != us {
        return Err(ArtifactError::Foreign { owner, us });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(ArtifactError::Writable { mode });
    }
    Ok(())
}

fn checksum(file: &mut File, code_length: u64, covered: &[u8]) -> Result<Checksum, ArtifactError> {
    let mut sum = Xxh3::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut code = file.take(code_length);
    loop {
        let length = code
            .read(&mut chunk)
            .map_err(ArtifactError::io("read it"))?;
        if length == 0 {
            break;
        }
        sum.update(chunk.get(..length).unwrap_or_default());
    }
    sum.update(covered);
    Ok(sum.digest128().to_le_bytes())
}

/// The part of a second in the modification time of a file with this checksum, in nanoseconds.
fn mark(sum: Checksum) -> u64 {
    u64::try_from(u128::from_le_bytes(sum) % 1_000_000_000).unwrap_or(0)
}

fn u64_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn absent_is_none<T>(opened: Result<T, ArtifactError>) -> Result<Option<T>, ArtifactError> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(ArtifactError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Removes what was not used for longest until the rest is within bounds, and what was left unfinished.
/// `newest` goes last, since it may have been made in the same second as others.
/// It is called when something was compiled, which is rare and takes longer.
fn make_room(dir: &File, newest: &str, now_seconds: i64) -> rustix::io::Result<()> {
    let mut kept = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        let is = |test: fn(&str) -> bool| name.to_str().is_ok_and(test);
        let is_unfinished = is(|name| name.starts_with(UNFINISHED));
        if !is_unfinished && !is(|name| name.ends_with(ENDING)) {
            continue;
        }
        // Another process may have removed it meanwhile.
        let Ok(stat) = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if !is_unfinished {
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            kept.push((
                (name.to_bytes() == newest.as_bytes(), stat.st_mtime),
                bytes,
                name,
            ));
        } else if stat.st_mtime < now_seconds.saturating_sub(UNFINISHED_SECONDS_MAX) {
            remove(dir, &name);
        }
    }
    kept.sort_by(|(used, ..), (other, ..)| other.cmp(used));
    let mut bytes_sum = 0_u64;
    for (index, (_, bytes, name)) in kept.iter().enumerate() {
        bytes_sum = bytes_sum.saturating_add(*bytes);
        if index >= CACHE_FILES_MAX || bytes_sum > CACHE_BYTES_MAX {
            remove(dir, name);
        }
    }
    Ok(())
}

fn remove(dir: &File, name: &std::ffi::CStr) {
    // What cannot be removed now is met again the next time.
    let _met_again = rustix::fs::unlinkat(dir, name, AtFlags::empty());
}
