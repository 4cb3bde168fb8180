//! Requests that may be sent again: each comes with a key of its caller's, by which the second one finds the run of
//! the first, also after the process died in between.
//!
//! A key is claimed on disk, together with the id that the run will have, before the run is begun. Whoever comes
//! with the key later either finds a run of that id or begins it with that id. What is kept are digests, the id and
//! times, for a day. A database that cannot be used refuses requests with a key, because nobody could tell which of
//! them were sent before, and no others.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use futures_util::future::OptionFuture;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, TransactionBehavior};
use tokio::sync::MutexGuard;

use super::guard::Caller;
use super::problem::{Problem, ProblemCode};
use crate::clock::{Clock, Timestamp};
use crate::id::RunId;
use crate::ledger::Digest;
use crate::telemetry::chain;

/// The header field with the key of a request.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header field that says that an earlier request is answered.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Characters of a key.
const KEY_CHARS_MAX: usize = 255;
/// How long a key is kept.
const KEPT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Keys that are kept at once. Protects the disk from a caller who makes up keys.
const KEYS_MAX: i64 = 1_000_000;
/// Keys that one request forgets at most. Protects it from paying for a day of others.
const FORGOTTEN_MAX: i64 = 1_000;
/// Keys of which the first digits differ are claimed at the same time.
const TURNS: usize = 16;
/// How long another process may have the database.
const BUSY_TIME: Duration = Duration::from_secs(5);
const FILE_NAME: &str = "requests.db";
const VERSION: i64 = 1;
const SETTINGS: &str =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;";
const SCHEMA: &str = "CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    run_id TEXT NOT NULL,
    claimed_micros INTEGER NOT NULL,
    started_micros INTEGER
) STRICT;
CREATE INDEX requests_claimed ON requests (claimed_micros);
PRAGMA user_version = 1;";
/// Forgets the oldest of what was claimed before, at most so many.
const FORGET: &str = "DELETE FROM requests WHERE number IN
    (SELECT number FROM requests WHERE claimed_micros < ?1 ORDER BY claimed_micros LIMIT ?2)";

/// Why keys cannot be looked up.
#[derive(Debug, thiserror::Error)]
enum RequestsError {
    #[error("cannot use the database of requests")]
    Database(#[from] rusqlite::Error),
    #[error("cannot make the database of requests")]
    File(#[from] std::io::Error),
    #[error("the database of requests has version {found}: expected {VERSION}")]
    Version { found: i64 },
    #[error("the database of requests holds something else than requests")]
    Content,
    #[error("{KEYS_MAX} idempotency keys are in use: expected fewer")]
    Full,
}

impl From<RequestsError> for Problem {
    fn from(error: RequestsError) -> Self {
        if matches!(error, RequestsError::Full) {
            return Self::new(ProblemCode::Busy, error.to_string())
                .with_hint("a key is forgotten after a day; requests without one are taken");
        }
        tracing::error!(error = chain(&error), "idempotency keys cannot be used");
        Self::new(
            ProblemCode::Unavailable,
            "idempotency keys cannot be looked up",
        )
        .with_hint("requests without one are taken")
    }
}

/// A key, and the request that it came with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed {
    key: Digest,
    request: Digest,
}

impl Keyed {
    /// The key of a request, if it has one. What the request is made of is `route`, the run that it names as its
    /// parent and its body; how long it waits for an answer changes nothing.
    pub(crate) fn of(
        headers: &HeaderMap,
        caller: Caller,
        route: &str,
        parent: Option<&RunId>,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        let mut named = headers.get_all(IDEMPOTENCY_KEY).iter();
        let (Some(key), further) = (named.next(), named.next()) else {
            return Ok(None);
        };
        let key = key.as_bytes();
        let is_key = (1..=KEY_CHARS_MAX).contains(&key.len())
            && key.iter().all(u8::is_ascii_graphic)
            && further.is_none();
        if !is_key {
            let detail = format!(
                "the header field Idempotency-Key is no key: expected one of 1 to {KEY_CHARS_MAX} visible ASCII characters"
            );
            return Err(Problem::new(ProblemCode::BadRequest, detail));
        }
        let scope: &[u8] = match caller {
            Caller::Anybody | Caller::Watcher => b"anybody\0",
            Caller::Trusted => b"trusted\0",
        };
        let parent = parent.map_or("", RunId::as_str);
        let request = format!("{route}\0{parent}\0{}", Digest::of(body));
        Ok(Some(Self {
            key: Digest::of(&[scope, key].concat()),
            request: Digest::of(request.as_bytes()),
        }))
    }
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    request: Digest,
    /// The run that was, or was to be, begun.
    pub(crate) run_id: RunId,
    /// When it began, if it is known that it did.
    pub(crate) started_at: Option<Timestamp>,
}

impl Known {
    /// Whether the key came with the same request.
    pub(crate) fn is_of(&self, key: &Keyed) -> bool {
        self.request == key.request
    }
}

/// The requests that came with a key.
pub(crate) struct Requests {
    file: PathBuf,
    clock: Clock,
    keys_max: i64,
    /// None before the first key comes, and after the database failed.
    connection: Mutex<Option<Connection>>,
    turns: [tokio::sync::Mutex<()>; TURNS],
}

impl Requests {
    /// The requests of a home folder. Nothing is opened before the first key comes.
    pub(crate) fn new(home: &Path, clock: Clock) -> Self {
        Self {
            file: home.join(FILE_NAME),
            clock,
            keys_max: KEYS_MAX,
            connection: Mutex::new(None),
            turns: Default::default(),
        }
    }

    /// Waits until nobody else in this process begins something with the same key.
    pub(crate) async fn turn(&self, key: &Keyed) -> Option<MutexGuard<'_, ()>> {
        let digit = key.key.to_string().chars().next();
        let digit = digit.and_then(|digit| digit.to_digit(16));
        let turn = digit.and_then(|digit| self.turns.get(usize::try_from(digit).ok()?));
        OptionFuture::from(turn.map(tokio::sync::Mutex::lock)).await
    }

    /// What is known of a key.
    pub(crate) async fn find(self: &Arc<Self>, key: &Keyed) -> Result<Option<Known>, Problem> {
        let key = *key;
        let since = self.kept_since();
        self.on_disk(move |connection| find(connection, &key, since))
            .await
    }

    /// Claims a key for the run that is to be begun with `run_id`, so that it is found from now on, also after a
    /// power cut. Another process may have been faster, and then its claim is given.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        key: &Keyed,
        run_id: &RunId,
    ) -> Result<Known, Problem> {
        let (key, run_id) = (*key, run_id.clone());
        let (since, now, keys_max) = (self.kept_since(), self.clock.now(), self.keys_max);
        self.on_disk(move |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute(FORGET, (since, FORGOTTEN_MAX))?;
            transaction.execute(
                "DELETE FROM requests WHERE key = ?1 AND claimed_micros < ?2",
                (key.key.to_string(), since),
            )?;
            if let Some(known) = find(&transaction, &key, since)? {
                transaction.commit()?;
                return Ok(known);
            }
            // Numbers are given in order, so that nothing has to be counted.
            let span: i64 = transaction.query_row(
                "SELECT coalesce(max(number) - min(number) + 1, 0) FROM requests",
                (),
                |row| row.get(0),
            )?;
            if span >= keys_max {
                transaction.commit()?;
                return Err(RequestsError::Full);
            }
            transaction.execute(
                "INSERT INTO requests (key, request, run_id, claimed_micros) VALUES (?1, ?2, ?3, ?4)",
                (
                    key.key.to_string(),
                    key.request.to_string(),
                    run_id.as_str(),
                    now.unix_micros(),
                ),
            )?;
            transaction.commit()?;
            Ok(Known {
                request: key.request,
                run_id,
                started_at: None,
            })
        })
        .await
    }

    /// Notes that the run began. Should that fail, the run's own ledger is asked the next time.
    pub(crate) async fn settle(self: &Arc<Self>, key: &Keyed, started_at: Timestamp) {
        let key = key.key.to_string();
        let settled = self.on_disk(move |connection| {
            let values = (started_at.unix_micros(), key);
            Ok(connection.execute(
                "UPDATE requests SET started_micros = ?1 WHERE key = ?2",
                values,
            )?)
        });
        // It is in the log.
        let _failed = settled.await;
    }

    /// Frees a key with which nothing was begun. Should that fail, the next one begins the run with the same id.
    pub(crate) async fn release(self: &Arc<Self>, key: &Keyed, run_id: &RunId) {
        let values = (key.key.to_string(), run_id.to_string());
        let released = self.on_disk(move |connection| {
            Ok(connection.execute(
                "DELETE FROM requests WHERE key = ?1 AND run_id = ?2",
                values,
            )?)
        });
        // It is in the log.
        let _failed = released.await;
    }

    /// Keys that were claimed before are forgotten.
    fn kept_since(&self) -> i64 {
        self.clock.now().unix_micros().saturating_sub(KEPT_MICROS)
    }

    /// Works on the database, which is opened if it is not. One that failed is opened anew the next time.
    async fn on_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Connection) -> Result<T, RequestsError> + Send + 'static,
    ) -> Result<T, Problem> {
        let requests = Arc::clone(self);
        let worked = tokio::task::spawn_blocking(move || requests.with_connection(work)).await;
        match worked {
            Ok(worked) => Ok(worked?),
            Err(error) => Err(Problem::internal(&error)),
        }
    }

    fn with_connection<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, RequestsError>,
    ) -> Result<T, RequestsError> {
        let held = self.connection.lock();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => open(&self.file)?,
        };
        let worked = work(&mut connection);
        if !matches!(
            worked,
            Err(RequestsError::Database(_) | RequestsError::Content)
        ) {
            *held = Some(connection);
        }
        worked
    }
}

fn open(file: &Path) -> Result<Connection, RequestsError> {
    make(file)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIME)?;
    connection.execute_batch(SETTINGS)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = transaction.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    match version {
        0 => transaction.execute_batch(SCHEMA)?,
        VERSION => {}
        found => return Err(RequestsError::Version { found }),
    }
    transaction.commit()?;
    Ok(connection)
}

/// Makes the file, which SQLite would make for everybody to read, unless it is there.
fn make(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match made {
        Ok(_) => match file.parent() {
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn find(connection: &Connection, key: &Keyed, since: i64) -> Result<Option<Known>, RequestsError> {
    let mut statement = connection.prepare(
        "SELECT request, run_id, started_micros FROM requests WHERE key = ?1 AND claimed_micros >= ?2",
    )?;
    let found = statement.query_row((key.key.to_string(), since), |row| Ok(known(row)));
    match found.optional()? {
        Some(known) => known.map(Some),
        None => Ok(None),
    }
}

fn known(row: &Row<'_>) -> Result<Known, RequestsError> {
    let (request, run_id): (String, String) = (row.get(0)?, row.get(1)?);
    let started_micros: Option<i64> = row.get(2)?;
    Ok(Known {
        request: request.parse().map_err(|_| RequestsError::Content)?,
        run_id: run_id.parse().map_err(|_| RequestsError::Content)?,
        started_at: started_micros.map(Timestamp::from_unix_micros),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn keyed(key: &str, body: &str) -> Keyed {
        of(&[key.as_bytes()], Caller::Anybody, body.as_bytes())
            .unwrap()
            .unwrap()
    }

    fn of(keys: &[&[u8]], caller: Caller, body: &[u8]) -> Result<Option<Keyed>, Problem> {
        let values = keys
            .iter()
            .map(|key| (IDEMPOTENCY_KEY, key.to_vec().try_into().unwrap()));
        Keyed::of(&values.collect(), caller, "POST /runs", None, body)
    }

    fn requests(home: &Path, clock: &Clock) -> Arc<Requests> {
        Arc::new(Requests::new(home, clock.clone()))
    }

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000))
    }

    #[tokio::test]
    async fn a_claim_is_found_by_everybody_for_a_day() {
        let (home, clock) = (tempfile::tempdir().unwrap(), clock());
        let key = keyed("k", "body");
        let run_id = RunId::generate();
        let first = requests(home.path(), &clock);
        assert_eq!(first.find(&key).await.unwrap(), None);
        let claimed = first.claim(&key, &run_id).await.unwrap();
        assert_eq!((claimed.run_id, claimed.started_at), (run_id.clone(), None));
        // Another process.
        let second = requests(home.path(), &clock);
        let known = second.claim(&key, &RunId::generate()).await.unwrap();
        assert_eq!(known.run_id, run_id);
        assert!(known.is_of(&keyed("k", "body")) && !known.is_of(&keyed("k", "other")));
        first.settle(&key, clock.now()).await;
        clock.advance(24 * HOUR);
        let known = second.find(&key).await.unwrap().unwrap();
        assert!(known.started_at.is_some());
        clock.advance(Duration::from_micros(1));
        assert_eq!(second.find(&key).await.unwrap(), None);
        let other = RunId::generate();
        assert_eq!(second.claim(&key, &other).await.unwrap().run_id, other);
    }

    #[tokio::test]
    async fn only_whoever_claimed_a_key_frees_it() {
        let (home, clock) = (tempfile::tempdir().unwrap(), clock());
        let requests = requests(home.path(), &clock);
        let (key, run_id) = (keyed("k", "body"), RunId::generate());
        requests.claim(&key, &run_id).await.unwrap();
        requests.release(&key, &RunId::generate()).await;
        assert!(requests.find(&key).await.unwrap().is_some());
        requests.release(&key, &run_id).await;
        assert_eq!(requests.find(&key).await.unwrap(), None);
    }

    #[tokio::test]
    async fn so_many_keys_are_kept_and_no_more() {
        let (home, clock) = (tempfile::tempdir().unwrap(), clock());
        let mut requests = Requests::new(home.path(), clock.clone());
        requests.keys_max = 3;
        let requests = Arc::new(requests);
        for number in 0..3 {
            let key = keyed(&format!("k{number}"), "");
            requests.claim(&key, &RunId::generate()).await.unwrap();
        }
        let (fourth, run_id) = (keyed("k3", ""), RunId::generate());
        assert!(requests.claim(&fourth, &run_id).await.is_err());
        assert!(requests.find(&keyed("k0", "")).await.unwrap().is_some());
        clock.advance(25 * HOUR);
        assert_eq!(
            requests.claim(&fourth, &run_id).await.unwrap().run_id,
            run_id
        );
        let count = requests.with_connection(|connection| {
            Ok(
                connection.query_row("SELECT count(*) FROM requests", (), |row| {
                    row.get::<_, i64>(0)
                })?,
            )
        });
        assert_eq!(count.unwrap(), 1);
    }

    #[tokio::test]
    async fn what_is_forgotten_is_found_without_looking_at_what_is_kept() {
        let (home, clock) = (tempfile::tempdir().unwrap(), clock());
        let requests = requests(home.path(), &clock);
        for number in 0..100 {
            let key = keyed(&format!("k{number}"), "");
            requests.claim(&key, &RunId::generate()).await.unwrap();
        }
        let since = requests.kept_since();
        let steps = requests.with_connection(|connection| {
            let mut statement = connection.prepare(FORGET)?;
            statement.execute((since, FORGOTTEN_MAX))?;
            Ok(statement.get_status(rusqlite::StatementStatus::VmStep))
        });
        let steps = steps.unwrap();
        assert!(steps < 100, "{steps} steps for none of 100 keys");
    }

    #[tokio::test]
    async fn a_database_of_another_kind_is_left_alone() {
        let (home, clock) = (tempfile::tempdir().unwrap(), clock());
        let file = home.path().join(FILE_NAME);
        for sql in [
            "PRAGMA user_version = 2;",
            "PRAGMA user_version = 1; CREATE TABLE requests (number INTEGER);",
            "CREATE TABLE requests (number INTEGER);",
        ] {
            Connection::open(&file).unwrap().execute_batch(sql).unwrap();
            let requests = requests(home.path(), &clock);
            assert!(requests.find(&keyed("k", "")).await.is_err(), "{sql}");
            drop(requests);
            std::fs::remove_file(&file).unwrap();
        }
        std::os::unix::fs::symlink(home.path().join("elsewhere"), &file).unwrap();
        assert!(
            requests(home.path(), &clock)
                .find(&keyed("k", ""))
                .await
                .is_err()
        );
        assert!(!home.path().join("elsewhere").exists());
    }

    #[test]
    fn a_key_counts_for_one_kind_of_caller() {
        let of_anybody = keyed("k", "");
        let of_trusted = of(&[b"k"], Caller::Trusted, b"").unwrap().unwrap();
        assert_ne!(of_anybody.key, of_trusted.key);
        assert_eq!(of_anybody.request, of_trusted.request);
        assert!(of(&[], Caller::Anybody, b"").unwrap().is_none());
        assert!(of(&[b"k", b"k"], Caller::Anybody, b"").is_err());
    }

    proptest! {
        #[test]
        fn a_key_is_visible_ascii(key in prop::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..], 0..300)) {
            let is_key = (1..=255).contains(&key.len()) && key.iter().all(|byte| (0x21..0x7f).contains(byte));
            prop_assert_eq!(of(&[&key], Caller::Anybody, b"").is_ok(), is_key);
        }

        #[test]
        fn another_request_has_another_digest(one in ".{0,20}", other in ".{0,20}") {
            prop_assert_eq!(keyed("k", &one).request == keyed("k", &other).request, one == other);
        }
    }
}
