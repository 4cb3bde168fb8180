//! A ledger as a timeline: one line an event, indented by step.

use super::display::shown;
use crate::clock::Timestamp;
use crate::ledger::{
    ApprovalResponse, CallFailure, CallPhase, Event, Json, LlmCall, Origin, Record, RunCompleted,
    RunStatus, SessionPhase, SessionStatus, SessionTold, ToolResult, TurnCompleted, UpdateKind,
};

/// Steps within steps that a line moves to the right for.
const DEPTH_SHOWN_MAX: usize = 16;

/// Lays out records in the order in which they come.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    layout: Layout,
    depth: usize,
}

impl Timeline {
    /// One record as a line: seconds since the first one, type, and what it says.
    pub(crate) fn line(&mut self, record: &Record) -> String {
        let event = record.event();
        if matches!(event, Event::NodeExit(_)) {
            self.depth = self.depth.saturating_sub(1);
        }
        let line = self.layout.line(record, self.depth, &described(&event));
        if matches!(event, Event::NodeEnter(_)) {
            self.depth += 1;
        }
        line
    }
}

/// Where the columns of a line are.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    start: Option<Timestamp>,
}

impl Layout {
    /// One record as a line with this text, so far to the right.
    pub(crate) fn line(&mut self, record: &Record, depth: usize, text: &str) -> String {
        let start = *self.start.get_or_insert(record.time);
        let micros = record
            .time
            .unix_micros()
            .saturating_sub(start.unix_micros());
        let kind = match record.origin {
            Origin::Host => shown(&record.kind),
            Origin::Guest => format!("{} (guest)", shown(&record.kind)),
        };
        let line = format!(
            "{:>4} {:>10}  {}{:<22}  {}",
            record.seq,
            seconds(micros),
            "  ".repeat(depth.min(DEPTH_SHOWN_MAX)),
            kind,
            text,
        );
        line.trim_end().to_owned()
    }
}

/// Microseconds as seconds with milliseconds, negative when the clock was set back.
fn seconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "+" };
    let millis = micros.unsigned_abs() / 1000;
    format!("{sign}{}.{:03}s", millis / 1000, millis % 1000)
}

/// A duration in the unit that suits it.
pub(crate) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

/// A time that people wait, in the units that they think in.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        _ if minutes % 60 == 0 => format!("{hours} h"),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// What an event says, on one line.
pub(crate) fn described(event: &Event) -> String {
    match event {
        Event::RunStarted(e) => format!("{} {}", shown(&e.skill), json(&e.input)),
        Event::RunResumed(e) => format!("resumption {}", e.attempt),
        Event::RunCompleted(e) => run_completed(e),
        Event::NodeEnter(e) => shown(&e.node_id),
        Event::NodeExit(e) => {
            let ended = if e.success { "ok" } else { "failed" };
            format!(
                "{} {ended} in {}",
                shown(&e.node_id),
                duration(e.duration_micros)
            )
        }
        Event::ToolCall(e) => {
            let arguments = json(&e.arguments);
            call(&e.call_id, &format!("{} {arguments}", shown(&e.name)))
        }
        Event::ToolResult(e) => tool_result(e),
        Event::LlmCall(e) if e.phase == Some(CallPhase::Result) => llm_result(e),
        Event::LlmCall(e) => {
            let model = format!("{}/{}", shown(&e.provider), shown(&e.model));
            call(e.call_id.as_deref().unwrap_or_default(), &model)
        }
        Event::LlmChunk(e) => match &e.tool_use {
            None => shown(e.delta.as_str()),
            Some(tool_use) => json(tool_use),
        },
        Event::StructuredOutput(e) => json(&e.output),
        Event::ApprovalRequest(e) => call(&e.approval_id, &shown(e.prompt.as_str())),
        Event::ApprovalResponse(e) => approval_response(e),
        Event::HttpCall(e) => {
            let url = shown(e.url.as_str());
            call(&e.call_id, &format!("{} {url}", shown(&e.method)))
        }
        Event::HttpResult(e) => match (e.status, &e.error) {
            (Some(status), _) => status.to_string(),
            (None, error) => error
                .as_ref()
                .map(|e| shown(e.as_str()))
                .unwrap_or_default(),
        },
        Event::Timer(e) => match e.look {
            Some(_) => "the guest looked at a clock".to_owned(),
            None => duration(e.duration_micros),
        },
        Event::Log(e) => {
            let level = format!("{:?}", e.level).to_lowercase();
            let fields = e.fields.as_ref().map(json).unwrap_or_default();
            format!("{level} {} {fields}", shown(e.message.as_str()))
        }
        Event::Error(e) => shown(e.message.as_str()),
        Event::Denied(e) => format!(
            "{} {} ({})",
            shown(&e.capability),
            shown(e.wanted.as_str()),
            shown(e.rule.as_deref().unwrap_or("denied"))
        ),
        Event::Prompt(e) => format!("#{} {}", e.generation, shown(e.text.as_str())),
        Event::TurnCompleted(e) => turn_completed(e),
        Event::SessionUpdate(e) => session_update(e),
        Event::SessionStatus(e) => session_status(e),
        Event::Custom(e) => format!(
            "{} {}",
            shown(&e.name),
            e.data.as_ref().map(json).unwrap_or_default()
        ),
        Event::Unknown { payload, .. } => json(payload),
    }
}

fn approval_response(response: &ApprovalResponse) -> String {
    let decision = if response.approved {
        "approved"
    } else {
        "rejected"
    };
    let option = response.option.as_deref().map(shown);
    let reason = response.reason.as_ref();
    let reason = reason.map(|reason| shown(reason.as_str()));
    let words = [Some(decision.to_owned()), option, reason];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn turn_completed(turn: &TurnCompleted) -> String {
    let undone = if turn.undone { ", undone" } else { "" };
    let error = turn.error.as_ref().map(|error| shown(error.as_str()));
    format!(
        "#{} {}{undone} in {} {}",
        turn.generation,
        turn.stop_reason.as_str(),
        duration(turn.duration_micros),
        error.unwrap_or_default()
    )
}

fn session_update(told: &SessionTold) -> String {
    let kind = match told.kind {
        UpdateKind::MessageChunk => "message",
        UpdateKind::Reasoning => "reasoning",
        UpdateKind::Plan => "plan",
        UpdateKind::ContextWindow => "context window",
    };
    let what = match (&told.text, &told.entries, told.used, told.size) {
        (Some(text), ..) => shown(text.as_str()),
        (None, Some(entries), ..) => json(entries),
        (None, None, Some(used), Some(size)) => format!("{used} of {size} tokens"),
        _ => String::new(),
    };
    format!("{kind} {what}")
}

fn session_status(status: &SessionStatus) -> String {
    let word = match status.status {
        SessionPhase::BootReady => "started",
        SessionPhase::Ready => "ready",
        SessionPhase::ModeChanged => "mode",
        SessionPhase::ToolsChanged => "tools",
        SessionPhase::Finishing => "finishing",
    };
    let mode = status.mcp_mode.as_deref().map(shown);
    let tools = status.tools.as_ref().map(|tools| shown(&tools.join(", ")));
    format!("{word} {}", mode.or(tools).unwrap_or_default())
}

fn run_completed(completed: &RunCompleted) -> String {
    let code = match (completed.status, completed.code) {
        // It waits for people and has no outcome yet; nobody interrupted it.
        (RunStatus::Suspended, _) | (_, None) => completed.status.as_str(),
        (_, Some(code)) => code.as_str(),
    };
    let detail = match (&completed.error, &completed.output) {
        (Some(error), _) => shown(error.as_str()),
        (None, Some(output)) => json(output),
        (None, None) => String::new(),
    };
    let took = completed.duration_micros;
    let took = took.map(|micros| format!(" in {}", duration(micros)));
    format!("{code}{} {detail}", took.unwrap_or_default())
}

/// A call with its id, by which a new run can begin at it. Ledgers of the older system have none for some.
fn call(call_id: &str, what: &str) -> String {
    match call_id {
        "" => what.to_owned(),
        call_id => format!("{} {what}", shown(call_id)),
    }
}

fn tool_result(result: &ToolResult) -> String {
    let failed = if result.is_error { "failed " } else { "" };
    let output = result.output.as_ref().map(json).unwrap_or_default();
    format!("{failed}{}{output}", failure(result.error.as_ref()))
}

fn llm_result(call: &LlmCall) -> String {
    let failed = if call.is_error { "failed " } else { "" };
    let failure = failure(call.error.as_ref());
    let prompt = call.prompt_tokens.unwrap_or(0);
    let output = call.output_tokens.unwrap_or(0);
    let cost = call.cost_usd.map(|cost| format!(", {} USD", amount(cost)));
    let cost = cost.unwrap_or_default();
    format!("{failed}{failure}{prompt}+{output} tokens{cost}")
}

/// US dollars to a thousandth of a millionth, below which a sum shows how floating-point numbers are added.
pub(crate) fn amount(usd: f64) -> String {
    let digits = format!("{usd:.9}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    digits.to_owned()
}

/// Why a call has no answer.
fn failure(error: Option<&CallFailure>) -> String {
    let spelled = error.and_then(|error| Json::from_serialize(error).ok());
    spelled.map_or_else(String::new, |spelled| format!("{} ", json(&spelled)))
}

fn json(value: &Json) -> String {
    shown(value.as_str())
}

#[cfg(test)]
mod tests {
    use super::{amount, duration, seconds, span};

    #[test]
    fn times_read_well() {
        assert_eq!(seconds(1_234_567), "+1.234s");
        assert_eq!(seconds(-1_500), "-0.001s");
        assert_eq!(duration(12), "12 µs");
        assert_eq!(duration(12_340), "12.3 ms");
        assert_eq!(duration(61_200_000), "61.2 s");
        for (seconds, text) in [
            (0, "0 s"),
            (119, "1 min"),
            (5_400, "1 h 30 min"),
            (86_400, "24 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn sums_read_as_what_they_are_of() {
        assert_eq!(amount(0.1 + 0.2), "0.3");
        assert_eq!(amount(0.000_183_5), "0.0001835");
        assert_eq!(
            (amount(0.0), amount(10.0)),
            ("0".to_owned(), "10".to_owned())
        );
    }
}
