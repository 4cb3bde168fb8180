//! `[runtime]`, as it is shown.

use super::{CONFIGURED, Setting};
use crate::config::RuntimeSettings;

pub(super) fn settings(runtime: &RuntimeSettings) -> Vec<Setting> {
    let default = RuntimeSettings::default();
    let mut settings = vec![
        Setting::of(
            "runtime.executions_max",
            &runtime.executions_max,
            &default.executions_max,
        ),
        Setting::of("runtime.grace_ms", &runtime.grace_ms, &default.grace_ms),
        Setting::of(
            "runtime.retention_ms",
            &runtime.retention_ms,
            &default.retention_ms,
        ),
        Setting::of(
            "runtime.default_backend",
            &runtime.default_backend,
            &default.default_backend,
        ),
    ];
    if !runtime.workspaces.is_empty() {
        let folders = runtime.workspaces.iter();
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        let folders = folders.join(", ");
        settings.push(Setting::new("runtime.workspaces", folders, CONFIGURED));
    }
    settings
}
