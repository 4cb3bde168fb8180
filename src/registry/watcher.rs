//! Skills that change while a process lives.
//!
//! A watcher loads the folder anew when something in it changed and publishes the new snapshot as a
//! whole. Whoever has an older one keeps it, so a run that has begun is not disturbed. A folder that
//! cannot be loaded leaves the last snapshot in place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use super::state::STATE_FILE;
use super::{Registry, RegistryError};
use crate::clock::Clock;
use crate::telemetry::chain;

/// How long the folder has to be quiet before it is loaded: whoever copies files into it by hand takes
/// a moment between two of them.
const QUIET: Duration = Duration::from_millis(100);
/// A folder that is never quiet is loaded nevertheless after this time.
const UNQUIET_MAX: Duration = Duration::from_secs(2);
/// How often the folder is loaded again at once because it turned out to have places to be watched in
/// that were not. Protects from a skill that names another place each time.
const ROUNDS_MAX: usize = 3;

/// The skills as they are now: one snapshot at a time, for all who share it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SkillSet {
    published: watch::Receiver<Published>,
    /// Who publishes; nobody does when the skills stay as they are.
    publisher: Weak<Publisher>,
}

/// Loads a folder of skills and publishes what it finds, one after the other.
#[derive(Debug)]
struct Publisher {
    skills_dir: PathBuf,
    published: watch::Sender<Published>,
    /// Held from before the folder is read until that is published, so that an older snapshot never takes the place
    /// of a newer one.
    loading: Mutex<()>,
}

impl Publisher {
    fn publish(
        &self,
        load: impl FnOnce() -> Result<Registry, RegistryError>,
    ) -> Result<(), Arc<RegistryError>> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = load().map_err(Arc::new);
        self.published.send_modify(|published| match &loaded {
            Ok(registry) => {
                *published = Published {
                    registry: registry.clone(),
                    problem: None,
                };
            }
            Err(error) => {
                tracing::warn!("skills stay as they were: {}", chain(error));
                published.problem = Some(Arc::clone(error));
            }
        });
        loaded.map(|_registry| ())
    }
}

#[derive(Debug, Clone)]
struct Published {
    registry: Registry,
    problem: Option<Arc<RegistryError>>,
}

impl SkillSet {
    /// The newest snapshot. Whoever makes several decisions about one thing makes them with one
    /// snapshot.
    pub fn current(&self) -> Registry {
        self.published.borrow().registry.clone()
    }

    /// Why the newest snapshot is older than the folder, if it is.
    pub fn problem(&self) -> Option<Arc<RegistryError>> {
        self.published.borrow().problem.clone()
    }

    /// Loads the folder anew at once, on the calling thread; false when the skills are not those of a folder that
    /// is watched, and stay as they are.
    ///
    /// # Errors
    /// The folder cannot be loaded. The skills stay as they were.
    pub fn reload(&self) -> Result<bool, Arc<RegistryError>> {
        let Some(publisher) = self.publisher.upgrade() else {
            return Ok(false);
        };
        publisher.publish(|| Registry::load(&publisher.skills_dir))?;
        Ok(true)
    }

    /// Waits until something else is published than this handle was told of last; false when nothing
    /// ever will be.
    pub async fn changed(&mut self) -> bool {
        self.published.changed().await.is_ok()
    }
}

impl From<Registry> for SkillSet {
    /// Skills that stay as they are.
    fn from(registry: Registry) -> Self {
        let problem = None;
        Self {
            published: watch::channel(Published { registry, problem }).1,
            publisher: Weak::new(),
        }
    }
}

/// Why a folder is not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The folder cannot be loaded in the first place.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The system cannot tell of changes.
    #[error("cannot watch {}", path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: notify::Error,
    },
    /// There is no thread to watch in.
    #[error("cannot start a thread")]
    NoThread(#[source] std::io::Error),
}

/// Keeps a [`SkillSet`] as the folder is, until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    skills: SkillSet,
    /// Tells the thread to end.
    signals: Option<SyncSender<Signal>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told; one that is not taken yet stands for all that follow.
enum Signal {
    Changed,
    End,
}

impl Watcher {
    /// Loads `skills_dir` and goes on watching it. The folder may be made later, and come and go;
    /// the one that it is in has to be there.
    ///
    /// # Errors
    /// The folder cannot be loaded, or not be watched.
    pub fn start(skills_dir: &Path, clock: Clock) -> Result<Self, WatchError> {
        // The system tells of places by the paths that they are watched under.
        let skills_dir = &std::path::absolute(skills_dir).unwrap_or_else(|_| skills_dir.to_owned());
        let unwatchable = |source| WatchError::Unwatchable {
            path: skills_dir.to_owned(),
            source,
        };
        let (signals, told) = sync_channel(1);
        let folder = skills_dir.to_owned();
        let tell = signals.clone();
        let config = notify::Config::default().with_follow_symlinks(false);
        let events = RecommendedWatcher::new(
            move |event: notify::Result<notify::Event>| {
                // An error, such as a queue that ran over, may stand for any change.
                if event.is_ok_and(|event| !concerns(&event, &folder)) {
                    return;
                }
                // When the place is taken, the thread has a signal that it did not take yet.
                let _told = tell.try_send(Signal::Changed);
            },
            config,
        )
        .map_err(unwatchable)?;
        let mut places = Places {
            skills_dir: skills_dir.to_owned(),
            events,
            watched: BTreeSet::new(),
        };
        places.watch_parent().map_err(unwatchable)?;
        let registry = places.load()?;
        let (publish, published) = watch::channel(Published {
            registry,
            problem: None,
        });
        let publisher = Arc::new(Publisher {
            skills_dir: skills_dir.to_owned(),
            published: publish,
            loading: Mutex::new(()),
        });
        let skills = SkillSet {
            published,
            publisher: Arc::downgrade(&publisher),
        };
        let thread = std::thread::Builder::new()
            .name("skills".to_owned())
            .spawn(move || watch_on(&mut places, &told, &publisher, &clock))
            .map_err(WatchError::NoThread)?;
        Ok(Self {
            skills,
            signals: Some(signals),
            thread: Some(thread),
        })
    }

    /// The handle to what is published.
    pub fn skills(&self) -> SkillSet {
        self.skills.clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(signals) = self.signals.take() {
            // It waits until the thread takes what it has; the thread is gone when that fails.
            let _told = signals.send(Signal::End);
        }
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Whether an event may have changed what would be loaded.
fn concerns(event: &notify::Event, skills_dir: &Path) -> bool {
    let is_reading = matches!(event.kind, EventKind::Access(kind)
        if kind != AccessKind::Close(AccessMode::Write));
    // What is unpacked beside the skills, and what state is written to before it gets its name.
    let is_hidden = |path: &Path| {
        let inside = path.strip_prefix(skills_dir).ok();
        let first = inside.and_then(|inside| inside.iter().next());
        first.is_some_and(|first| first.as_encoded_bytes().starts_with(b".") && first != STATE_FILE)
    };
    let is_beside = |path: &Path| !path.starts_with(skills_dir);
    let counts = |path: &PathBuf| !is_hidden(path) && !is_beside(path);
    !is_reading && (event.paths.is_empty() || event.paths.iter().any(counts))
}

/// Loads and publishes until it is told to end.
fn watch_on(places: &mut Places, told: &Receiver<Signal>, publisher: &Publisher, clock: &Clock) {
    while let Ok(Signal::Changed) = told.recv() {
        let unquiet = clock.stopwatch();
        loop {
            match told.recv_timeout(QUIET) {
                Ok(Signal::Changed) if unquiet.elapsed() < UNQUIET_MAX => {}
                Ok(Signal::Changed) | Err(RecvTimeoutError::Timeout) => break,
                Ok(Signal::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let _told_by_the_snapshot = publisher.publish(|| places.load());
    }
}

/// The folders in which something may change.
struct Places {
    skills_dir: PathBuf,
    events: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Places {
    /// The folder of skills may come and go, which shows only in the one that it is in.
    fn watch_parent(&mut self) -> notify::Result<()> {
        let parent = self.skills_dir.parent().unwrap_or(&self.skills_dir);
        let parent = parent.to_owned();
        self.watch_only(&parent)
    }

    /// Not what is below: a skill's folder may have anything in it, such as all that its tools
    /// installed.
    fn watch_only(&mut self, path: &Path) -> notify::Result<()> {
        self.events.watch(path, RecursiveMode::NonRecursive)
    }

    /// Loads the folder. Every place that was read of is watched before, so that a change that comes
    /// too late for the snapshot is told of.
    fn load(&mut self) -> Result<Registry, RegistryError> {
        self.watched.clear();
        self.watch([self.skills_dir.clone()]);
        self.watch(folders_in(&self.skills_dir));
        let mut registry = Registry::load(&self.skills_dir)?;
        for _ in 0..ROUNDS_MAX {
            if !self.watch(inner_folders(&registry)) {
                break;
            }
            registry = Registry::load(&self.skills_dir)?;
        }
        Ok(registry)
    }

    /// Watches places, and says whether one of them was not before. One that went meanwhile is told
    /// of by the folder that it was in.
    fn watch(&mut self, places: impl IntoIterator<Item = PathBuf>) -> bool {
        let mut is_new = false;
        for place in places {
            if self.watched.contains(&place) {
                continue;
            }
            match self.watch_only(&place) {
                Ok(()) => is_new |= self.watched.insert(place),
                Err(error) if place.is_dir() => {
                    tracing::warn!(place = %place.display(), %error, "changes here are not seen");
                }
                Err(_gone) => {}
            }
        }
        is_new
    }
}

/// The folders of skills, whatever is in them. A folder with more than is loaded is refused by then.
fn folders_in(skills_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(skills_dir)
        .into_iter()
        .flatten()
        .flatten();
    let visible = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        !name.as_encoded_bytes().starts_with(b".") && path.is_dir()
    };
    let paths = entries.take(super::ENTRIES_MAX).map(|entry| entry.path());
    paths.filter(visible).collect()
}

/// The folders inside skills from which a file was read.
fn inner_folders(registry: &Registry) -> Vec<PathBuf> {
    let skills = registry.skills().chain(registry.disabled());
    let folders = skills.flat_map(|skill| {
        let files = skill.files.keys().chain(skill.documents.keys());
        let parents = files.flat_map(|file| Path::new(file).ancestors().skip(1));
        let inside = parents.filter(|parent| *parent != Path::new(""));
        inside.map(|parent| skill.folder.join(parent))
    });
    folders.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind};

    use super::concerns;

    #[test]
    fn reading_and_work_in_progress_are_no_changes() {
        let changed = EventKind::Modify(ModifyKind::Any);
        let read = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        for (kind, path, expected) in [
            (changed, "/home/skills/greet/SKILL.md", true),
            (written, "/home/skills/greet/SKILL.md", true),
            (read, "/home/skills/greet/SKILL.md", false),
            (EventKind::Create(CreateKind::Any), "/home/skills", true),
            (changed, "/home/skills/.state.json", true),
            (changed, "/home/skills/.state.json.new", false),
            (changed, "/home/skills/.staging-1/greet", false),
            (changed, "/home/runs", false),
        ] {
            let event = notify::Event::new(kind).add_path(path.into());
            let concerned = concerns(&event, Path::new("/home/skills"));
            assert_eq!(concerned, expected, "{kind:?} {path}");
        }
    }
}
