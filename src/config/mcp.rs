//! `[mcp]`: the MCP server.

use std::time::Duration;

use serde::Deserialize;

use super::ConfigProblem;
use super::file::{Number, Place};

/// A day: a client that has not come back by then does not.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Thirty days: longer than that nobody counts on a run.
const TASK_TTL_MS_MAX: u64 = 30 * DAY_MS;
/// Ten minutes: by then every client has given up.
const TASK_AFTER_MS_MAX: u64 = 600_000;
/// Tools, prompts or resources of a page. Protects whoever reads one.
const PAGE_SIZE_MAX: u64 = 1_000;

/// `[mcp]`: how the MCP server serves its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// Whether `skillrun serve` has it at `/mcp`.
    pub serve: bool,
    /// Milliseconds after which a call becomes a task where a skill leaves that open, 0 to 600,000.
    pub task_after_ms: u64,
    /// Milliseconds for which a client can count on a task, from its beginning on, 1,000 to 2,592,000,000.
    pub task_ttl_ms: u64,
    /// Milliseconds after which a client is told to ask again for a task, 50 to 600,000.
    pub poll_interval_ms: u64,
    /// Milliseconds that a client has to answer what a skill asks it, 1,000 to 86,400,000.
    pub input_timeout_ms: u64,
    /// Entries of a page of a list, 1 to 1,000.
    pub page_size: usize,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            serve: false,
            task_after_ms: 2_000,
            task_ttl_ms: DAY_MS,
            poll_interval_ms: 500,
            input_timeout_ms: 600_000,
            page_size: 100,
        }
    }
}

impl McpSettings {
    /// `task_after_ms` as a time.
    pub fn task_after(&self) -> Duration {
        Duration::from_millis(self.task_after_ms)
    }

    /// `input_timeout_ms` as a time.
    pub fn input_timeout(&self) -> Duration {
        Duration::from_millis(self.input_timeout_ms)
    }
}

/// The section as it stands in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct McpSection {
    serve: bool,
    task_after_ms: Number,
    task_ttl_ms: Number,
    poll_interval_ms: Number,
    input_timeout_ms: Number,
    page_size: Number,
}

/// The settings that a section is.
pub(super) fn settings(
    place: &Place<'_>,
    section: &McpSection,
) -> Result<McpSettings, ConfigProblem> {
    let default = McpSettings::default();
    let page_size = u64::try_from(default.page_size).unwrap_or(u64::MAX);
    let page_size = place.number(
        "mcp.page_size",
        &section.page_size,
        page_size,
        1..=PAGE_SIZE_MAX,
    )?;
    Ok(McpSettings {
        serve: section.serve,
        task_after_ms: place.number(
            "mcp.task_after_ms",
            &section.task_after_ms,
            default.task_after_ms,
            0..=TASK_AFTER_MS_MAX,
        )?,
        task_ttl_ms: place.number(
            "mcp.task_ttl_ms",
            &section.task_ttl_ms,
            default.task_ttl_ms,
            1_000..=TASK_TTL_MS_MAX,
        )?,
        poll_interval_ms: place.number(
            "mcp.poll_interval_ms",
            &section.poll_interval_ms,
            default.poll_interval_ms,
            50..=TASK_AFTER_MS_MAX,
        )?,
        input_timeout_ms: place.number(
            "mcp.input_timeout_ms",
            &section.input_timeout_ms,
            default.input_timeout_ms,
            1_000..=DAY_MS,
        )?,
        page_size: usize::try_from(page_size).unwrap_or(usize::MAX),
    })
}
