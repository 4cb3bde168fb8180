//! From the events of a ledger to spans.

use std::collections::{HashMap, HashSet};

use super::attribute::{self, Attributes, content, flag, int, text};
use super::span::{Part, Span, SpanKind, SpanStatus, Value};
use crate::id::RunId;
use crate::ledger::{
    ApprovalRequest, ApprovalResponse, CallFailure, CallKind, CallPhase, Event, HttpCall,
    HttpResult, LlmCall, Origin, Pair, Record, RunCompleted, RunStarted, RunStatus, ToolCall,
    ToolResult,
};
use crate::trace_context::{SpanId, TraceContext};

/// Spans of one run at most; how many more there were stands in the span of the part. Protects whoever makes
/// them, and whoever is sent them, from a run that never ends.
pub const SPANS_MAX: usize = 20_000;
/// Runs inside a run that are remembered. Protects the same.
const RUNS_INSIDE_MAX: usize = 10_000;

/// Who says that it began or ended, and what it is: what a guest claims says nothing of what the host saw.
type Key = (Origin, Pair, String);

/// Something that began and has not ended.
struct Open {
    /// The name that its span's id is made from.
    id: String,
    /// That of the step that it is in.
    step: Option<String>,
    kind: SpanKind,
    name: String,
    start_micros: i64,
    attributes: Attributes,
    /// It began in an earlier part of the run.
    is_carried: bool,
}

/// How something ended.
#[derive(Default)]
struct End {
    attributes: Attributes,
    /// The kind of error, and what may be told of it.
    error: Option<(String, Option<String>)>,
    duration_micros: Option<u64>,
}

/// The part of the run that is being read.
struct Current {
    number: u64,
    trace: TraceContext,
    /// The part as a whole.
    whole: Open,
    spans: Vec<Span>,
    runs_inside: Vec<RunId>,
}

/// Takes the events of one ledger, in order, and makes spans of them.
pub struct Collector {
    run_id: RunId,
    has_content: bool,
    started: RunStarted,
    /// The number of the last event that repeats another run's.
    repeated_until: u64,
    /// How often the run was cut off.
    resumptions: u64,
    current: Option<Current>,
    open: HashMap<Key, Open>,
    /// The ids of steps that were entered and not left, the innermost last.
    steps: Vec<String>,
    parts: Vec<Part>,
    spans: usize,
    dropped: u64,
    last: (u64, i64),
}

impl Collector {
    /// A collector for the ledger of this run. With `has_content`, spans have what was asked and answered, as the
    /// ledger has it and cut at 4 KiB each.
    pub fn new(run_id: RunId, has_content: bool) -> Self {
        Self {
            run_id,
            has_content,
            started: RunStarted::default(),
            repeated_until: 0,
            resumptions: 0,
            current: None,
            open: HashMap::new(),
            steps: Vec::new(),
            parts: Vec::new(),
            spans: 0,
            dropped: 0,
            last: (0, 0),
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, record: &Record) {
        let micros = record.time.unix_micros();
        self.last = (record.seq, micros);
        let origin = record.origin;
        match record.event() {
            Event::RunStarted(started) => self.begin(started, micros),
            Event::RunResumed(resumed) => {
                self.resumptions = self.resumptions.saturating_add(1);
                let trace = resumed.trace_id.as_deref().and_then(|trace_id| {
                    let parent = resumed.parent_span_id.as_deref();
                    TraceContext::recorded(trace_id, parent, !resumed.trace_unsampled)
                });
                self.end_part(None);
                self.begin_part(trace, micros);
            }
            Event::RunCompleted(completed) => self.end_part(Some(&completed)),
            Event::NodeEnter(enter) => {
                let attributes = vec![text("skillrun.step.id", &enter.node_id)];
                let step = self.steps.last().cloned();
                let name = attribute::name(&enter.node_name);
                // With more steps than there can be spans, those further inside have none.
                if self.steps.len() < SPANS_MAX {
                    self.steps.push(enter.node_id.clone());
                }
                let open = Open {
                    step,
                    ..open(&enter.node_id, SpanKind::Internal, name, micros, attributes)
                };
                self.opened((origin, Pair::Node, enter.node_id), open);
            }
            Event::NodeExit(exit) => {
                let seat = self.steps.iter().rposition(|id| *id == exit.node_id);
                self.steps.truncate(seat.unwrap_or(self.steps.len()));
                let end = End {
                    error: (!exit.success).then(|| ("step_failed".to_owned(), None)),
                    duration_micros: Some(exit.duration_micros),
                    ..End::default()
                };
                self.closed((origin, Pair::Node, exit.node_id), end, micros);
            }
            Event::ToolCall(call) => self.tool_call(origin, call, record.seq, micros),
            Event::ToolResult(result) => self.tool_result(origin, result, micros),
            Event::LlmCall(call) => self.model_call(origin, call, record.seq, micros),
            Event::HttpCall(call) => self.http_call(origin, call, micros),
            Event::HttpResult(result) => self.http_result(origin, result, micros),
            Event::ApprovalRequest(request) => self.approval_request(origin, request, micros),
            Event::ApprovalResponse(response) => self.approval_response(origin, response, micros),
            _ => {}
        }
    }

    /// The parts that the events so far make. What is open is cut off at the last of them.
    pub fn finish(mut self) -> Vec<Part> {
        self.end_part(None);
        self.parts
    }

    fn begin(&mut self, started: RunStarted, micros: i64) {
        self.repeated_until = match &started.resumed_from {
            Some(_) => started.repeated_events.unwrap_or(0).saturating_add(1),
            None => 0,
        };
        self.started = started;
        self.begin_part(None, micros);
    }

    /// Whether what comes now was done by this run, and is not repeated from another.
    fn is_own(&self) -> bool {
        self.last.0 > self.repeated_until
    }

    fn begin_part(&mut self, trace: Option<TraceContext>, micros: i64) {
        let started = &self.started;
        let recorded = || {
            let parent = started.parent_span_id.as_deref();
            TraceContext::recorded(
                started.trace_id.as_deref()?,
                parent,
                !started.trace_unsampled,
            )
        };
        let Some(trace) = trace.or_else(recorded).filter(|_| self.is_own()) else {
            return;
        };
        let mut attributes = vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", &started.skill),
            text("skillrun.run.id", self.run_id.as_str()),
            int("skillrun.run.part", self.resumptions),
        ];
        if let Some(flavor) = &started.flavor {
            attributes.push(text("skillrun.flavor", flavor));
        }
        if let Some(parent) = &started.parent_run_id {
            attributes.push(text("skillrun.parent_run.id", parent.as_str()));
        }
        if let Some(from) = &started.resumed_from {
            attributes.push(text("skillrun.resumed_from.id", from.as_str()));
        }
        if self.has_content {
            attributes.extend(content("skillrun.input", Some(&started.input)));
        }
        let name = format!("invoke_agent {}", attribute::name(&started.skill));
        for open in self.open.values_mut() {
            open.is_carried = true;
            // A question was asked when it was asked; everything else goes on from here.
            if open.name != APPROVAL {
                open.start_micros = micros;
            }
        }
        self.current = Some(Current {
            number: self.resumptions,
            trace,
            whole: open("run", SpanKind::Internal, name, micros, attributes),
            spans: Vec::new(),
            runs_inside: Vec::new(),
        });
    }

    fn end_part(&mut self, completed: Option<&RunCompleted>) {
        let Some(mut part) = self.current.take() else {
            return;
        };
        let (last_seq, micros) = self.last;
        let steps: HashSet<&String> = self.steps.iter().collect();
        // A call of an earlier part that did not end in this one has no place in it.
        let has_place = |open: &&Open| !open.is_carried || steps.contains(&open.id);
        let mut cut_off: Vec<&Open> = self.open.values().filter(has_place).collect();
        cut_off.sort_by_key(|open| (open.start_micros, &open.id));
        let room = SPANS_MAX.saturating_sub(self.spans);
        let more = u64::try_from(cut_off.len().saturating_sub(room)).unwrap_or(u64::MAX);
        self.dropped = self.dropped.saturating_add(more);
        cut_off.truncate(room);
        // What is open has a span in every part that it goes on through.
        self.spans = self.spans.saturating_add(cut_off.len());
        for cut_off in cut_off {
            let end = End {
                attributes: vec![flag("skillrun.cut_off")],
                ..End::default()
            };
            part.spans
                .push(span(&self.run_id, &part, cut_off, end, micros));
        }
        part.spans
            .sort_by_key(|span| (span.start_micros, span.span_id));
        let mut end = completed.map_or_else(End::default, |end| self.whole_end(end));
        if completed.is_none() {
            end.attributes.push(flag("skillrun.cut_off"));
        }
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            end.attributes.push(int("skillrun.spans_dropped", dropped));
        }
        let mut whole = span(&self.run_id, &part, &part.whole, end, micros);
        whole.parent_span_id = part.trace.parent_span_id();
        part.spans.insert(0, whole);
        self.parts.push(Part {
            run_id: self.run_id.clone(),
            number: part.number,
            is_sampled: part.trace.is_sampled(),
            is_parent_remote: part.trace.parent_span_id().is_some()
                && self.started.parent_run_id.is_none(),
            last_seq,
            spans: part.spans,
            runs_inside: part.runs_inside,
        });
    }

    /// How a run, or a part of it, ended. Only an error is one: being cancelled or suspended is not.
    fn whole_end(&self, completed: &RunCompleted) -> End {
        let mut attributes = vec![text("skillrun.status", completed.status.as_str())];
        let code = completed.code.map_or("", |code| code.as_str());
        attributes.push(text("skillrun.code", code));
        if let Some(queued_micros) = completed.queued_micros {
            attributes.push(int("skillrun.queued_micros", queued_micros));
        }
        if self.has_content {
            attributes.extend(content("skillrun.output", completed.output.as_ref()));
        }
        let error = (completed.status == RunStatus::Error).then(|| {
            let said = completed.error.as_ref().filter(|_| self.has_content);
            (code.to_owned(), said.map(|error| error.as_str().to_owned()))
        });
        End {
            attributes,
            error,
            duration_micros: None,
        }
    }

    fn opened(&mut self, key: Key, mut open: Open) {
        let is_full = self.spans.saturating_add(self.open.len()) >= SPANS_MAX;
        if is_full && !self.open.contains_key(&key) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        if key.0 == Origin::Guest && key.1 != Pair::Node {
            open.attributes.push(flag("skillrun.claimed_by_guest"));
        }
        self.open.insert(key, open);
    }

    fn closed(&mut self, key: Key, mut end: End, micros: i64) {
        let Some(open) = self.open.remove(&key) else {
            return;
        };
        let Some(part) = &mut self.current else {
            return;
        };
        if self.spans >= SPANS_MAX {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        if !self.has_content
            && let Some((_, said)) = &mut end.error
        {
            *said = None;
        }
        part.spans
            .push(span(&self.run_id, part, &open, end, micros));
        self.spans = self.spans.saturating_add(1);
    }

    fn tool_call(&mut self, origin: Origin, call: ToolCall, seq: u64, micros: i64) {
        if !self.is_own() {
            return;
        }
        let mut attributes = Attributes::new();
        let (kind, name) = match call.kind {
            Some(CallKind::Tools) => (SpanKind::Internal, "list_tools".to_owned()),
            Some(CallKind::Skill) => {
                attributes.push(text("gen_ai.operation.name", "invoke_agent"));
                attributes.push(text("gen_ai.agent.name", &call.name));
                let name = format!("invoke_agent {}", attribute::name(&call.name));
                (SpanKind::Client, name)
            }
            Some(CallKind::Tool) | None => {
                attributes.push(text("gen_ai.operation.name", "execute_tool"));
                attributes.push(text("gen_ai.tool.name", &call.name));
                let name = format!("execute_tool {}", attribute::name(&call.name));
                (SpanKind::Client, name)
            }
        };
        attributes.push(text("gen_ai.tool.call.id", &call.call_id));
        attributes.push(text("skillrun.effect", &attribute::word(&call.effect)));
        if let Some(child) = call.child_run_id.filter(|_| origin == Origin::Host) {
            attributes.push(text("skillrun.child_run.id", child.as_str()));
            if let Some(part) = &mut self.current
                && part.runs_inside.len() < RUNS_INSIDE_MAX
            {
                part.runs_inside.push(child);
            }
        }
        if self.has_content {
            attributes.extend(content("gen_ai.tool.call.arguments", Some(&call.arguments)));
        }
        let id = id_of(origin, &call.call_id, seq);
        let open = open(&id, kind, name, micros, attributes).in_step(call.node_id);
        self.opened((origin, Pair::Tool, call.call_id), open);
    }

    fn tool_result(&mut self, origin: Origin, result: ToolResult, micros: i64) {
        let mut end = End {
            error: error(result.is_error, result.error.as_ref(), "tool_error"),
            duration_micros: result.duration_micros,
            ..End::default()
        };
        if self.has_content {
            let output = content("gen_ai.tool.call.result", result.output.as_ref());
            end.attributes.extend(output);
        }
        self.closed((origin, Pair::Tool, result.call_id), end, micros);
    }

    fn model_call(&mut self, origin: Origin, call: LlmCall, seq: u64, micros: i64) {
        if !self.is_own() {
            return;
        }
        let call_id = call.call_id.clone().unwrap_or_else(|| format!("llm@{seq}"));
        let key = (origin, Pair::Llm, call_id.clone());
        if call.phase != Some(CallPhase::Result) {
            let mut attributes = vec![
                text("gen_ai.operation.name", "chat"),
                text("gen_ai.provider.name", &call.provider),
                text("gen_ai.request.model", &call.model),
            ];
            if call.streamed {
                attributes.push(flag("gen_ai.request.stream"));
            }
            if self.has_content {
                attributes.extend(content("skillrun.model.request", call.request.as_ref()));
            }
            let name = format!("chat {}", attribute::name(&call.model));
            let id = id_of(origin, &call_id, seq);
            let step = call.node_id.clone().unwrap_or_default();
            let began = open(&id, SpanKind::Client, name, micros, attributes).in_step(step);
            self.opened(key.clone(), began);
        }
        if call.phase != Some(CallPhase::Call) {
            let mut attributes = Attributes::new();
            let counts = [
                ("gen_ai.usage.input_tokens", call.prompt_tokens),
                ("gen_ai.usage.output_tokens", call.output_tokens),
                (
                    "gen_ai.usage.cache_read.input_tokens",
                    call.cache_read_tokens,
                ),
                (
                    "skillrun.usage.cache_write.input_tokens",
                    call.cache_write_tokens,
                ),
            ];
            attributes.extend(counts.into_iter().filter_map(|(key, n)| Some(int(key, n?))));
            if let Some(cost_usd) = call.cost_usd {
                attributes.push(("skillrun.cost_usd", Value::Float(cost_usd)));
            }
            if self.has_content {
                attributes.extend(content("skillrun.model.response", call.output.as_ref()));
            }
            let end = End {
                attributes,
                error: error(call.is_error, call.error.as_ref(), "model_error"),
                duration_micros: call.duration_micros,
            };
            self.closed(key, end, micros);
        }
    }

    fn http_call(&mut self, origin: Origin, call: HttpCall, micros: i64) {
        if !self.is_own() {
            return;
        }
        let mut attributes = vec![text("http.request.method", &call.method)];
        if let Ok(mut url) = url::Url::parse(call.url.as_str()) {
            if let Some(host) = url.host_str() {
                attributes.push(text("server.address", host));
            }
            if let Some(port) = url.port_or_known_default() {
                attributes.push(int("server.port", port.into()));
            }
            if !self.has_content {
                url.set_query(None);
            }
            attributes.push(text("url.full", url.as_str()));
        }
        let name = attribute::name(&call.method);
        let open = open(&call.call_id, SpanKind::Client, name, micros, attributes);
        self.opened(
            (origin, Pair::Http, call.call_id),
            open.in_step(call.node_id),
        );
    }

    fn http_result(&mut self, origin: Origin, result: HttpResult, micros: i64) {
        let mut end = End {
            duration_micros: result.duration_micros,
            ..End::default()
        };
        match result.status {
            Some(status) => {
                let code = int("http.response.status_code", status.into());
                end.attributes.push(code);
                end.error = (status >= 400).then(|| (status.to_string(), None));
            }
            None => {
                let said = result.error.map(|error| error.as_str().to_owned());
                end.error = Some(("no_response".to_owned(), said));
            }
        }
        self.closed((origin, Pair::Http, result.call_id), end, micros);
    }

    fn approval_request(&mut self, origin: Origin, request: ApprovalRequest, micros: i64) {
        if !self.is_own() {
            return;
        }
        let mut attributes = vec![text("skillrun.approval.id", &request.approval_id)];
        if self.has_content {
            let prompt = attribute::message(request.prompt.as_str());
            attributes.push(("skillrun.approval.prompt", Value::Text(prompt)));
        }
        let id = &request.approval_id;
        let open = open(
            id,
            SpanKind::Internal,
            APPROVAL.to_owned(),
            micros,
            attributes,
        );
        let open = open.in_step(request.node_id.unwrap_or_default());
        self.opened((origin, Pair::Approval, request.approval_id), open);
    }

    fn approval_response(&mut self, origin: Origin, response: ApprovalResponse, micros: i64) {
        let end = End {
            attributes: vec![
                ("skillrun.approval.approved", Value::Bool(response.approved)),
                text(
                    "skillrun.approval.source",
                    &attribute::word(&response.source),
                ),
            ],
            // The time of day tells, since a wait may go on in another process.
            ..End::default()
        };
        self.closed((origin, Pair::Approval, response.approval_id), end, micros);
    }
}

/// The name of a span in which a person is waited for.
const APPROVAL: &str = "approval";

fn open(id: &str, kind: SpanKind, name: String, start_micros: i64, attributes: Attributes) -> Open {
    Open {
        id: id.to_owned(),
        step: None,
        kind,
        name,
        start_micros,
        attributes,
        is_carried: false,
    }
}

impl Open {
    fn in_step(mut self, step: String) -> Self {
        self.step = Some(step).filter(|step| !step.is_empty());
        self
    }
}

/// The name that a span's id is made from. That of a call that only the guest tells of is none that the host gives.
fn id_of(origin: Origin, call_id: &str, seq: u64) -> String {
    match origin {
        Origin::Host => call_id.to_owned(),
        Origin::Guest => format!("guest@{seq}"),
    }
}

fn error(
    is_error: bool,
    failure: Option<&CallFailure>,
    otherwise: &str,
) -> Option<(String, Option<String>)> {
    match failure {
        Some(failure) => {
            let said = attribute::failure_message(failure).map(str::to_owned);
            Some((attribute::failure(failure).to_owned(), said))
        }
        None => is_error.then(|| (otherwise.to_owned(), None)),
    }
}

/// A span of a part of the run.
fn span(run_id: &RunId, part: &Current, open: &Open, end: End, micros: i64) -> Span {
    let id_of = |name: &str| SpanId::of(run_id, part.number, name);
    let parent = open.step.as_deref().unwrap_or("run");
    let mut attributes = open.attributes.clone();
    attributes.extend(end.attributes);
    let status = match end.error {
        None => SpanStatus::Unset,
        Some((kind, said)) => {
            attributes.push(text("error.type", &kind));
            SpanStatus::Error(attribute::message(&said.unwrap_or(kind)))
        }
    };
    // A clock may be set back between two events, and a duration is measured with one that is not. Of what began
    // in another process it says nothing.
    let measured = end.duration_micros.filter(|_| !open.is_carried);
    let measured = measured.and_then(|micros| i64::try_from(micros).ok());
    let end_micros = measured.map_or(micros, |micros| open.start_micros.saturating_add(micros));
    Span {
        trace_id: part.trace.trace_id(),
        span_id: id_of(&open.id),
        parent_span_id: Some(id_of(parent)),
        kind: open.kind,
        name: open.name.clone(),
        start_micros: open.start_micros,
        end_micros: end_micros.max(open.start_micros),
        status,
        attributes,
    }
}
