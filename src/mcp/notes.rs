//! What a client is told of a run while it waits: how far it is, and what the skill logs.

use rmcp::RoleServer;
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::Peer;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{Event, Log, LogLevel, Origin};

/// The event of a skill that says how far it is: `{progress, total, message}`.
const PROGRESS: &str = "progress";
/// The least time between two notifications of progress, by when each was recorded. Protects the client from a skill that
/// counts fast; what comes faster is left out.
const PROGRESS_INTERVAL_MICROS: i64 = 10_000;
/// Log lines of a run that its client is told. The others are in the ledger. Protects the client.
const LOG_LINES_MAX: u64 = 1_000;

/// Tells one client of one run.
pub(super) struct Notes {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    level: Option<LoggingLevel>,
    logger: String,
    run_id: RunId,
    /// How far the client was told that the run is, and when it was so far.
    told: Option<(f64, Timestamp)>,
    /// Whether the skill itself says how far it is.
    skill_reports: bool,
    calls: u32,
    lines: u64,
}

impl Notes {
    /// Progress where the client gave a token for it, and log lines of at least that level.
    pub(super) fn new(
        peer: Peer<RoleServer>,
        token: Option<ProgressToken>,
        level: Option<LoggingLevel>,
        logger: String,
        run_id: RunId,
    ) -> Self {
        Self {
            peer,
            token,
            level,
            logger,
            run_id,
            told: None,
            skill_reports: false,
            calls: 0,
            lines: 0,
        }
    }

    /// Tells what there is to tell of an event. A client that does not take it is not told.
    pub(super) async fn tell(&mut self, event: &Event, origin: Origin, at: Timestamp) {
        match event {
            Event::Custom(custom) if custom.name == PROGRESS && origin == Origin::Guest => {
                let data = custom.data.as_ref().and_then(|data| data.to_value().ok());
                let number = |key: &str| data.as_ref()?.get(key)?.as_f64();
                if let Some(progress) = number("progress") {
                    self.skill_reports = true;
                    let message = data.as_ref().and_then(|data| data.get("message")?.as_str());
                    self.progress(progress, number("total"), message, at).await;
                }
            }
            Event::ToolCall(call) if origin == Origin::Host => self.call(&call.name, at).await,
            Event::LlmCall(call) if origin == Origin::Host => self.call(&call.model, at).await,
            Event::NodeEnter(node) => self.call(&node.node_name, at).await,
            Event::Log(log) => self.log(log).await,
            _ => {}
        }
    }

    /// Of a skill that does not say how far it is, it is told what it does.
    async fn call(&mut self, name: &str, at: Timestamp) {
        if !self.skill_reports {
            self.calls = self.calls.saturating_add(1);
            self.progress(f64::from(self.calls), None, Some(name), at)
                .await;
        }
    }

    async fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        at: Timestamp,
    ) {
        let Some(token) = &self.token else {
            return;
        };
        let is_last = total == Some(progress);
        let is_due = self.told.is_none_or(|(told, before)| {
            let elapsed_micros = at.unix_micros().saturating_sub(before.unix_micros());
            progress > told && (is_last || elapsed_micros >= PROGRESS_INTERVAL_MICROS)
        });
        if !is_due || !progress.is_finite() {
            return;
        }
        self.told = Some((progress, at));
        let mut params = ProgressNotificationParam::new(token.clone(), progress);
        params.total = total.filter(|total| total.is_finite());
        params.message = message.map(str::to_owned);
        let _gone = self.peer.notify_progress(params).await;
    }

    async fn log(&mut self, log: &Log) {
        let level = shown(log.level);
        if self.level.is_none_or(|least| rank(level) < rank(least)) || self.lines >= LOG_LINES_MAX {
            return;
        }
        self.lines += 1;
        let mut data = json!({ "message": log.message.as_str(), "run_id": self.run_id.as_str() });
        if let (Some(data), Some(fields)) = (data.as_object_mut(), fields(log)) {
            data.insert("fields".to_owned(), fields);
        }
        let mut params = LoggingMessageNotificationParam::new(level, data);
        params.logger = Some(self.logger.clone());
        let _gone = self.peer.notify_logging_message(params).await;
    }
}

fn fields(log: &Log) -> Option<Value> {
    let fields = serde_json::to_value(&log.fields).ok()?;
    let is_empty = fields.as_object().is_none_or(serde_json::Map::is_empty);
    (!is_empty).then_some(fields)
}

fn shown(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Trace | LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Warn => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
        LogLevel::Critical => LoggingLevel::Critical,
    }
}

/// How urgent a level is; the least urgent one is 0.
pub(super) fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
