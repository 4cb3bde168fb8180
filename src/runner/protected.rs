//! What no skill is given a folder of: what skillrun itself keeps. A skill that could write there could
//! change its own record, its own grants or the component that runs next; one that could read there
//! would see what other skills were given and said.

use std::path::PathBuf;

use crate::config::{Config, ModelKeySource};

/// The files and folders of a configuration that are kept from skills.
pub(super) fn of(config: &Config) -> Vec<PathBuf> {
    let mut paths = vec![
        config.config_file(),
        config.runs_dir(),
        config.skills_dir(),
        config.cache_dir(),
    ];
    let secrets = config.secrets.values().filter_map(|s| s.file.as_ref());
    let keys = config.model_providers.values();
    let keys = keys.filter_map(|provider| match &provider.key {
        Some(ModelKeySource::File(file)) => Some(file),
        _ => None,
    });
    let named = secrets.chain(keys).chain(&config.http.ca_file);
    paths.extend(named.map(|file| config.home.join(file)));
    paths
}
