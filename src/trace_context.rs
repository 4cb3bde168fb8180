//! The W3C trace that a run is in: what a caller hands over in `traceparent` and `tracestate`, and what is handed
//! on with a call.
//!
//! Whoever sends a `traceparent` is not trusted with more than that its trace is named: what does not follow
//! the specification is dropped, and the run gets a trace of its own.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use rand::Rng as _;
use sha2::{Digest as _, Sha256};

use crate::id::RunId;

/// The name of the header field, and of the key in `_meta` of an MCP request.
pub const TRACEPARENT: &str = "traceparent";
/// The name of the header field that comes with it.
pub const TRACESTATE: &str = "tracestate";

/// Characters of a `traceparent` of the one version that there is.
const TRACEPARENT_CHARS: usize = 55;
/// Characters of a `traceparent` of a later version at most. Protects whoever reads one.
const TRACEPARENT_CHARS_MAX: usize = 512;
/// Characters of a `tracestate`, as the specification wants them to be passed on at least. Protects servers
/// that a call goes to, and whoever keeps it.
const TRACESTATE_CHARS_MAX: usize = 512;
/// Members of a `tracestate`, as the specification has it.
const TRACESTATE_MEMBERS_MAX: usize = 32;
/// Characters of a key, and of a value, of a `tracestate`, as the specification has it.
const TRACESTATE_PART_CHARS_MAX: usize = 256;

/// The flag that says that the caller may have recorded its part of the trace.
const SAMPLED: u8 = 0b01;
/// The flag that says that the trace id was made at random.
const RANDOM: u8 = 0b10;

/// A trace: 16 bytes, not all of them zero, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// A span of a trace: 8 bytes, not all of them zero, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// A new id, at random.
    pub fn generate() -> Self {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        // All zeros is no id.
        bytes[15] |= u8::from(bytes == [0; 16]);
        Self(bytes)
    }

    /// The id's bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// The id of what a part of a run calls `name`: its own id in the ledger. The same ledger gives the same
    /// ids, today and later. Parts are numbered by the `run_resumed` before them.
    pub fn of(run_id: &RunId, part: u64, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"skillrun span\0");
        hash.update(run_id.as_str());
        hash.update(b"\0");
        hash.update(part.to_be_bytes());
        hash.update(name);
        let mut bytes = [0; 8];
        for (byte, hashed) in bytes.iter_mut().zip(hash.finalize()) {
            *byte = hashed;
        }
        bytes[7] |= u8::from(bytes == [0; 8]);
        Self(bytes)
    }

    /// The id of a part of a run as a whole.
    pub fn of_part(run_id: &RunId, part: u64) -> Self {
        Self::of(run_id, part, "run")
    }

    /// The id's bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0
    }
}

macro_rules! hexadecimal {
    ($($id:ident),+) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $id {
            type Err = TraceContextError;

            fn from_str(text: &str) -> Result<Self, TraceContextError> {
                let bytes = bytes(text)?;
                match bytes.iter().all(|byte| *byte == 0) {
                    true => Err(TraceContextError),
                    false => Ok(Self(bytes)),
                }
            }
        }
    )+};
}

hexadecimal!(TraceId, SpanId);

/// The bytes that lower-case hexadecimal digits are, exactly as many as there is room for.
fn bytes<const N: usize>(text: &str) -> Result<[u8; N], TraceContextError> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return Err(TraceContextError);
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(TraceContextError),
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        if let [high, low] = *pair {
            *byte = digit(high)? << 4 | digit(low)?;
        }
    }
    Ok(bytes)
}

/// A place in a trace: the trace, the span that is the parent of whatever comes next, and what vendors pass on.
/// Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    parent_span_id: Option<SpanId>,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The beginning of a new trace.
    pub fn generate() -> Self {
        Self {
            trace_id: TraceId::generate(),
            parent_span_id: None,
            flags: SAMPLED | RANDOM,
            state: None,
        }
    }

    /// The place that a ledger has of a run: its trace, the caller's span, and whether the caller recorded its
    /// part of the trace. None where there is no valid trace.
    pub fn recorded(
        trace_id: &str,
        parent_span_id: Option<&str>,
        is_sampled: bool,
    ) -> Option<Self> {
        Some(Self {
            trace_id: trace_id.parse().ok()?,
            parent_span_id: parent_span_id.and_then(|id| id.parse().ok()),
            flags: if is_sampled { SAMPLED } else { 0 },
            state: None,
        })
    }

    /// Reads a `traceparent`, and the `tracestate` that came with it. A state that does not follow the
    /// specification, or is longer than 512 characters, is dropped.
    ///
    /// # Errors
    /// The `traceparent` does not follow the specification.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, TraceContextError> {
        if traceparent.len() > TRACEPARENT_CHARS_MAX || !traceparent.is_ascii() {
            return Err(TraceContextError);
        }
        let mut parts = traceparent.splitn(5, '-');
        let mut next = || parts.next().ok_or(TraceContextError);
        let [version] = bytes(next()?)?;
        let (trace_id, parent) = (next()?.parse()?, next()?.parse()?);
        let [flags] = bytes(next()?)?;
        let is_longer = traceparent.len() != TRACEPARENT_CHARS;
        if version == 0xff || (version == 0 && is_longer) {
            return Err(TraceContextError);
        }
        Ok(Self {
            trace_id,
            parent_span_id: Some(parent),
            flags: flags & (SAMPLED | RANDOM),
            state: tracestate.filter(|state| is_state(state)).map(Into::into),
        })
    }

    /// What a request brings along; none when that is nothing, or not what the specification wants.
    pub fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() {
            return None;
        }
        let states = headers.get_all(TRACESTATE).iter();
        // Several fields are one list.
        let states: Option<Vec<&str>> = states.map(|state| state.to_str().ok()).collect();
        let state = states.filter(|states| !states.is_empty());
        let state = state.map(|states| states.join(","));
        Self::parse(parent.trim_matches([' ', '\t']), state.as_deref()).ok()
    }

    /// Puts the place into the header fields of a request, unless whoever made the request did so already.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        let parent = self.traceparent().map(HeaderValue::try_from);
        let Some(Ok(parent)) = parent.filter(|_| !headers.contains_key(TRACEPARENT)) else {
            return;
        };
        headers.insert(TRACEPARENT, parent);
        match self.tracestate().map(HeaderValue::from_str) {
            Some(Ok(state)) => drop(headers.insert(TRACESTATE, state)),
            // A state belongs to the parent that it came with.
            _ => drop(headers.remove(TRACESTATE)),
        }
    }

    /// The trace.
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The span that is the parent of what comes next; none at the beginning of a trace.
    pub fn parent_span_id(&self) -> Option<SpanId> {
        self.parent_span_id
    }

    /// Whether the caller may have recorded its part of the trace. If not, ours is not exported either.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same trace below that span.
    #[must_use]
    pub fn below(&self, span_id: SpanId) -> Self {
        Self {
            parent_span_id: Some(span_id),
            ..self.clone()
        }
    }

    /// What a request hands on; none at the beginning of a trace, where there is no span to name.
    pub fn traceparent(&self) -> Option<String> {
        let parent = self.parent_span_id?;
        Some(format!("00-{}-{parent}-{:02x}", self.trace_id, self.flags))
    }

    /// What a request hands on beside it.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Whether a `tracestate` is one: members of a key and a value, no key twice.
fn is_state(state: &str) -> bool {
    if state.len() > TRACESTATE_CHARS_MAX {
        return false;
    }
    let mut keys = Vec::new();
    for member in state
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']))
    {
        if member.is_empty() {
            continue;
        }
        let Some((key, value)) = member.split_once('=') else {
            return false;
        };
        if !is_state_key(key) || !is_state_value(value) || keys.contains(&key) {
            return false;
        }
        keys.push(key);
    }
    (1..=TRACESTATE_MEMBERS_MAX).contains(&keys.len())
}

fn is_state_key(key: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_next = |byte: u8| is_first(&byte) || b"_-*/".contains(&byte);
    let is_name =
        |name: &str| name.as_bytes().first().is_some_and(is_first) && name.bytes().all(is_next);
    let is_key = match key.split_once('@') {
        None => is_name(key),
        Some((tenant, system)) => is_name(tenant) && is_name(system),
    };
    is_key && key.len() <= TRACESTATE_PART_CHARS_MAX
}

fn is_state_value(value: &str) -> bool {
    let is_character = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=' && byte != b',';
    (1..=TRACESTATE_PART_CHARS_MAX).contains(&value.len())
        && value.bytes().all(is_character)
        && !value.ends_with(' ')
}

/// A text that is no `traceparent`, or no part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "malformed traceparent: expected 00-<32 hexadecimal digits>-<16 hexadecimal digits>-<2 hexadecimal digits>"
)]
pub struct TraceContextError;

tokio::task_local! {
    /// The place of the call that is being made, for whoever puts it on a wire.
    static CALL: TraceContext;
}

/// Makes a call, with its place in the trace in scope where there is one to be handed on.
pub(crate) async fn scope<F: Future>(call: Option<TraceContext>, future: F) -> F::Output {
    match call {
        Some(call) => CALL.scope(call, future).await,
        None => future.await,
    }
}

/// The place of the call that is being made, if it is to be handed on.
pub fn current() -> Option<TraceContext> {
    CALL.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_what_the_specification_allows_is_a_traceparent() {
        let later = format!("01{}", &GOOD[2..]);
        for good in [GOOD, &later, &format!("{later}-what-the-future-will-bring")] {
            let parsed = TraceContext::parse(good, None).unwrap();
            assert_eq!(parsed.traceparent().as_deref(), Some(GOOD), "{good}");
            assert!(parsed.is_sampled());
        }
        for bad in [
            "",
            "00",
            "----",
            &GOOD[1..],
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}-00"),
            &format!("{GOOD} "),
            &format!("{later}0"),
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replacen("00", "0g", 1),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace('-', "_"),
            &GOOD.replace("4b", "4ü"),
            &format!("{later}-{}", "x".repeat(1000)),
        ] {
            assert_eq!(
                TraceContext::parse(bad, None),
                Err(TraceContextError),
                "{bad}"
            );
        }
    }

    #[test]
    fn flags_that_nobody_knows_are_not_passed_on() {
        for (given, passed_on) in [
            ("00", "00"),
            ("01", "01"),
            ("03", "03"),
            ("fd", "01"),
            ("fc", "00"),
        ] {
            let parsed = TraceContext::parse(&GOOD.replace("-01", &format!("-{given}")), None);
            let expected = GOOD.replace("-01", &format!("-{passed_on}"));
            assert_eq!(parsed.unwrap().traceparent(), Some(expected), "{given}");
        }
    }

    #[test]
    fn a_tracestate_comes_through_whole_or_not_at_all() {
        let long = format!("a={}", "x".repeat(256));
        for good in [
            "a=1",
            "a=1,b=2",
            "a=1, b=2,,",
            "1t@sys=x y",
            "a-b*c/d_e=!~",
            &long,
        ] {
            let parsed = TraceContext::parse(GOOD, Some(good)).unwrap();
            assert_eq!(parsed.tracestate(), Some(good));
        }
        let many: Vec<String> = (0..33).map(|n| format!("k{n}=1")).collect();
        for bad in [
            "",
            ",",
            "a",
            "=1",
            "a=",
            "a=1=2",
            "A=1",
            "a=1,a=2",
            "a=ü",
            "@a=1",
            "a@=1",
            "a@b@c=1",
            "a b=1",
            "a=\u{1}",
            &many.join(","),
            &format!("{long}x"),
            &format!("{long},b{}", &long[1..]),
        ] {
            let parsed = TraceContext::parse(GOOD, Some(bad)).unwrap();
            assert_eq!(parsed.tracestate(), None, "{bad}");
        }
    }

    #[test]
    fn of_several_fields_a_parent_counts_for_nothing_and_states_are_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::of_headers(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        headers.append(TRACESTATE, HeaderValue::from_static("a=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("b=2"));
        let context = TraceContext::of_headers(&headers).unwrap();
        assert_eq!(context.tracestate(), Some("a=1,b=2"));
        let mut sent = HeaderMap::new();
        context.add_to(&mut sent);
        assert_eq!(TraceContext::of_headers(&sent).as_ref(), Some(&context));
        TraceContext::generate()
            .below(SpanId::of_part(&RunId::generate(), 0))
            .add_to(&mut sent);
        assert_eq!(TraceContext::of_headers(&sent), Some(context));
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(TraceContext::of_headers(&headers), None);
    }

    #[test]
    fn the_same_name_has_the_same_span_and_another_has_another() {
        let run_id: RunId = "run_0190a0a0a0a07000800000000000abcd".parse().unwrap();
        let id = SpanId::of(&run_id, 0, "tool#1");
        assert_eq!(id.to_string(), SpanId::of(&run_id, 0, "tool#1").to_string());
        assert_eq!(id.to_string().parse(), Ok(id));
        for other in [
            SpanId::of(&run_id, 1, "tool#1"),
            SpanId::of(&run_id, 0, "tool#2"),
            SpanId::of(&RunId::generate(), 0, "tool#1"),
            SpanId::of_part(&run_id, 0),
        ] {
            assert_ne!(id, other);
        }
    }

    #[tokio::test]
    async fn a_call_is_in_scope_only_while_it_is_made() {
        let context = TraceContext::generate();
        let made = scope(Some(context.clone()), async { current() }).await;
        assert_eq!(made, Some(context));
        assert_eq!(scope(None, async { current() }).await, None);
    }

    proptest! {
        #[test]
        fn what_was_read_is_written_the_same(trace in "[0-9a-f]{32}", span in "[0-9a-f]{16}", flags in 0_u8..4) {
            let text = format!("00-{trace}-{span}-{flags:02x}");
            let is_zero = |digits: &str| digits.bytes().all(|digit| digit == b'0');
            let parsed = TraceContext::parse(&text, None).ok();
            let expected = (!is_zero(&trace) && !is_zero(&span)).then_some(text);
            prop_assert_eq!(parsed.and_then(|parsed| parsed.traceparent()), expected);
        }

        #[test]
        fn nothing_that_is_sent_stops_the_host(parent in "\\PC*|[0-9a-f-]{0,80}", state in "\\PC*") {
            if let Ok(context) = TraceContext::parse(&parent, Some(&state)) {
                let written = context.traceparent().unwrap_or_default();
                prop_assert!(TraceContext::parse(&written, context.tracestate()).is_ok());
            }
        }
    }
}
