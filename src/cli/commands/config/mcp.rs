//! `[mcp]`, as it is shown.

use super::Setting;
use crate::config::McpSettings;

pub(super) fn settings(mcp: &McpSettings) -> Vec<Setting> {
    let default = McpSettings::default();
    let numbers = [
        (
            "mcp.task_after_ms",
            mcp.task_after_ms,
            default.task_after_ms,
        ),
        ("mcp.task_ttl_ms", mcp.task_ttl_ms, default.task_ttl_ms),
        (
            "mcp.poll_interval_ms",
            mcp.poll_interval_ms,
            default.poll_interval_ms,
        ),
        (
            "mcp.input_timeout_ms",
            mcp.input_timeout_ms,
            default.input_timeout_ms,
        ),
    ];
    let mut settings = vec![Setting::of("mcp.serve", &mcp.serve, &default.serve)];
    settings.extend(numbers.map(|(key, value, default)| Setting::of(key, &value, &default)));
    settings.push(Setting::of(
        "mcp.page_size",
        &mcp.page_size,
        &default.page_size,
    ));
    settings
}
