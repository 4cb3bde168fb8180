//! What no skill is given a folder of: what skillrun itself keeps. A skill that could write there could
//! change its own record, its own grants or the component that runs next; one that could read there
//! would see what other skills were given and said.

use std::path::{Path, PathBuf};

use crate::capability::{Capability, Policy};
use crate::config::Config;
use crate::executor::Failure;
use crate::outcome::OutcomeCode;

/// The files and folders of a configuration that are kept from skills.
pub(super) fn of(config: &Config) -> Vec<PathBuf> {
    let mut paths = vec![
        config.config_file(),
        config.runs_dir(),
        config.skills_dir(),
        config.cache_dir(),
    ];
    paths.extend(config.secrets.values().filter_map(|s| s.file.clone()));
    paths
}

/// Refuses a folder that is one of them, lies in one or has one in it, whatever the access.
pub(super) fn check(policy: &Policy, protected: &[PathBuf]) -> Result<(), Failure> {
    for capability in &policy.effective {
        let Capability::Fs { host_dir, .. } = capability else {
            continue;
        };
        let folder = resolved(Path::new(host_dir));
        let meets = |path: &&PathBuf| {
            let path = resolved(path);
            path.starts_with(&folder) || folder.starts_with(&path)
        };
        if let Some(path) = protected.iter().find(meets) {
            return Err(Failure {
                hint: Some("grant a folder that has nothing of skillrun's own in it".to_owned()),
                ..Failure::new(
                    OutcomeCode::LoadError,
                    format!(
                        "{capability} cannot be given to a skill: it would reach {}",
                        path.display()
                    ),
                )
            });
        }
    }
    Ok(())
}

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}
