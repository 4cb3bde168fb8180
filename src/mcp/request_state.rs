//! What a client brings back when it answers: which run asked it, signed, so that nobody makes it up.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::Rng as _;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::ledger::Digest;
use crate::telemetry::chain;

/// The file in the home folder that the key is in, which only its user may read.
const KEY_FILE: &str = "mcp.key";
/// Bytes of the key: as many as the digest that it signs with has.
const KEY_BYTES: usize = 32;
/// Bytes of a state that are looked at. Protects whoever checks one; ours have a few hundred.
const STATE_BYTES_MAX: usize = 16 * 1024;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {problem}", path.display())]
pub struct KeyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// What a state says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The run that waits for answers.
    pub(super) run_id: RunId,
    /// The keys of the questions that it asked.
    pub(super) asked: Vec<String>,
}

/// Signs states, and knows its own.
pub(super) struct RequestStates {
    codec: RequestStateCodec,
    key: Vec<u8>,
}

impl RequestStates {
    /// With the key of a home folder, which is made when there is none.
    pub(super) fn of_home(home: &Path) -> Result<Self, KeyError> {
        let path = home.join(KEY_FILE);
        let failed = |problem: String| KeyError {
            path: path.clone(),
            problem,
        };
        let key = match read(&path) {
            Ok(key) => key,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make(home, &path).map_err(|error| failed(error.to_string()))?;
                read(&path).map_err(|error| failed(error.to_string()))?
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let codec = RequestStateCodec::try_new(key.as_slice());
        let codec = codec.map_err(|error| failed(chain(&error)))?;
        Ok(Self { codec, key })
    }

    /// A name for whoever shows a token. It tells nobody anything about the token who has not the key.
    pub(super) fn name_of(&self, token: &str) -> Digest {
        Digest::of(&[self.key.as_slice(), token.as_bytes()].concat())
    }

    /// A state for the client with that id, whose request has that digest. It is of use for `ttl`.
    pub(super) fn seal(
        &self,
        state: &State,
        client_id: &str,
        request_digest: &str,
        ttl: Duration,
    ) -> Result<String, serde_json::Error> {
        let payload = serde_json::to_vec(state)?;
        let bound = bound(client_id, request_digest);
        let options = SealOptions::new().associated_data(&bound).ttl(ttl);
        Ok(self.codec.seal_with(&payload, &options))
    }

    /// What a state says, if it was made here, for that client and that request, and is still of use.
    pub(super) fn open(
        &self,
        sealed: &str,
        client_id: &str,
        request_digest: &str,
    ) -> Option<State> {
        if sealed.len() > STATE_BYTES_MAX {
            return None;
        }
        let opened = self
            .codec
            .open_with(sealed, &bound(client_id, request_digest));
        let payload = opened
            .inspect_err(|error| tracing::debug!(error = chain(error), "a state was refused"))
            .ok()?;
        serde_json::from_slice(&payload).ok()
    }
}

/// A JSON array keeps the two apart, whatever is in them.
fn bound(client_id: &str, request_digest: &str) -> Vec<u8> {
    serde_json::json!([client_id, request_digest])
        .to_string()
        .into_bytes()
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let refused = |problem| Err(std::io::Error::new(ErrorKind::PermissionDenied, problem));
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
        return refused("expected a regular file of this user");
    }
    if about.mode() & 0o077 != 0 {
        return refused(
            "expected a file that only its user can read: remove it, and it is made anew",
        );
    }
    let mut key = Vec::new();
    let bytes_max = u64::try_from(KEY_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    file.take(bytes_max).read_to_end(&mut key)?;
    if key.len() != KEY_BYTES {
        let problem = "expected 32 bytes: remove it, and it is made anew";
        return Err(std::io::Error::new(ErrorKind::InvalidData, problem));
    }
    Ok(key)
}

/// Makes a key, unless another process does so at the same time: then that one is the key.
fn make(home: &Path, path: &Path) -> std::io::Result<()> {
    let mut key = [0_u8; KEY_BYTES];
    rand::rng().fill_bytes(&mut key);
    let temporary = home.join(format!("{KEY_FILE}.{}", RunId::generate()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(&temporary).and_then(|mut file| {
        file.write_all(&key)?;
        file.sync_all()?;
        match std::fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let removed = std::fs::remove_file(&temporary);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::{KEY_FILE, RequestStates, State};
    use crate::id::RunId;

    fn state() -> State {
        State {
            run_id: RunId::generate(),
            asked: vec!["confirm".to_owned()],
        }
    }

    #[test]
    fn a_state_is_of_use_to_its_client_for_its_request_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let states = RequestStates::of_home(home.path()).unwrap();
        let ttl = Duration::from_secs(60);
        let state = state();
        let sealed = states.seal(&state, "a", "1", ttl).unwrap();
        assert_eq!(states.open(&sealed, "a", "1"), Some(state));
        for (sealed, client, request) in [
            (format!("{sealed}-TAMPERED"), "a", "1"),
            (format!("{sealed}="), "a", "1"),
            (sealed.clone(), "b", "1"),
            (sealed.clone(), "a", "2"),
            (String::new(), "a", "1"),
            ("x".repeat(100_000), "a", "1"),
        ] {
            assert_eq!(states.open(&sealed, client, request), None, "{sealed}");
        }
        // Whoever starts later has the same key.
        let later = RequestStates::of_home(home.path()).unwrap();
        assert!(later.open(&sealed, "a", "1").is_some());
        // One of another home has another one.
        let other = tempfile::tempdir().unwrap();
        let other = RequestStates::of_home(other.path()).unwrap();
        assert_eq!(other.open(&sealed, "a", "1"), None);
    }

    #[test]
    fn a_state_ends() {
        let home = tempfile::tempdir().unwrap();
        let states = RequestStates::of_home(home.path()).unwrap();
        let sealed = states.seal(&state(), "a", "1", Duration::ZERO).unwrap();
        while states.open(&sealed, "a", "1").is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(KEY_FILE);
        RequestStates::of_home(home.path()).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let error = RequestStates::of_home(home.path())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("only its user can read"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(RequestStates::of_home(home.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        RequestStates::of_home(home.path()).unwrap();
        std::fs::write(&path, b"short").unwrap();
        let error = RequestStates::of_home(home.path())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("expected 32 bytes"), "{error}");
    }
}
