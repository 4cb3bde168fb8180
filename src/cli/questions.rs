//! Questions of a run that goes on in this process: shown to whoever watches, and answered at the
//! terminal, if there is one.

use std::future::Future;
use std::io::BufRead as _;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::display::{json, message};
use super::live::Screen;
use super::printer::{Printer, paragraph};
use crate::call::PermissionOption;
use crate::id::RunId;
use crate::ledger::{
    ApprovalDecision, ApprovalSource, DecideError, Entry, Event, Follower, Gate, Origin, Position,
    REASON_BYTES_MAX, Store,
};
use crate::telemetry::chain;

/// How often it is looked whether the run asks something.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Lines that were typed and not read yet; more are dropped.
const TYPED_MAX: usize = 16;
/// Runs inside the run whose questions are shown here, at once; those of others are answered by
/// `skillrun runs approve`. Protects the process's file descriptors.
const RUNS_MAX: usize = 64;

/// The questions of one run, and of those inside it.
pub(crate) struct Questions {
    store: Store,
    printer: Printer,
    /// Where the run is shown as it happens, if it is. What moves there must not while somebody is asked.
    screen: Option<Screen>,
    runs: Vec<Watched>,
    /// What was asked and is not known to be answered, the oldest first.
    open: Vec<Question>,
    /// The question that the person was shown.
    shown: Option<Question>,
    /// What is typed; none where nobody is there to type.
    typed: Option<mpsc::Receiver<String>>,
}

/// A run that may ask.
struct Watched {
    run_id: RunId,
    /// The run that it is inside of, and the call there that it is.
    call: Option<(RunId, String)>,
    follower: Option<Follower>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    run_id: RunId,
    approval_id: String,
    /// The number of the event.
    seq: u64,
}

impl Watched {
    fn new(run_id: RunId, call: Option<(RunId, String)>) -> Self {
        Self {
            run_id,
            call,
            follower: None,
        }
    }

    /// The next event of the host's. What cannot be read yet is read at the next look.
    fn next(&mut self, store: &Store) -> Option<(u64, Event)> {
        if self.follower.is_none() {
            self.follower = store.follow(&self.run_id, Position::default()).ok();
        }
        let follower = self.follower.as_mut()?;
        loop {
            match follower.next_entry() {
                Ok(Some(Entry::Record(record))) if record.origin == Origin::Host => {
                    return Some((record.seq, record.event()));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Questions {
    pub(crate) fn new(
        store: Store,
        run_id: RunId,
        printer: Printer,
        screen: Option<Screen>,
    ) -> Self {
        Self {
            store,
            printer,
            screen,
            runs: vec![Watched::new(run_id, None)],
            open: Vec::new(),
            shown: None,
            typed: printer.is_attended().then(typed_lines),
        }
    }

    /// Shows and answers questions while `work` goes on.
    pub(crate) async fn answer_during<T>(mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                _ = looks.tick() => self.look(),
                line = next_line(&mut self.typed) => self.take(line),
            }
        };
        self.hide();
        ended
    }

    /// Notes what was asked and answered since the last look.
    fn look(&mut self) {
        let mut at = 0;
        while let Some(watched) = self.runs.get_mut(at) {
            let run_id = watched.run_id.clone();
            while let Some((seq, event)) =
                self.runs.get_mut(at).and_then(|run| run.next(&self.store))
            {
                self.note(&run_id, seq, event);
            }
            at += 1;
        }
        if self.shown.is_none()
            && let Some(question) = self.open.first().cloned()
            && self.is_next(&question)
        {
            self.show(question);
        }
    }

    fn note(&mut self, run_id: &RunId, seq: u64, event: Event) {
        match event {
            Event::ApprovalRequest(request) => self.open.push(Question {
                run_id: run_id.clone(),
                approval_id: request.approval_id,
                seq,
            }),
            Event::ApprovalResponse(response) => self.close(|question| {
                question.run_id == *run_id && question.approval_id == response.approval_id
            }),
            Event::ToolCall(call) => {
                if let Some(child) = call.child_run_id.filter(|_| self.runs.len() <= RUNS_MAX) {
                    let call = (run_id.clone(), call.call_id);
                    self.runs.push(Watched::new(child, Some(call)));
                }
            }
            Event::ToolResult(result) => {
                let call = Some((run_id.clone(), result.call_id));
                let Some(at) = self.runs.iter().rposition(|run| run.call == call) else {
                    return;
                };
                let ended = self.runs.remove(at);
                self.close(|question| question.run_id == ended.run_id);
            }
            _ => {}
        }
    }

    /// Takes questions that nobody has to answer any more off the list, and off the screen.
    fn close(&mut self, is_closed: impl Fn(&Question) -> bool) {
        self.open.retain(|question| !is_closed(question));
        if self.shown.as_ref().is_some_and(is_closed) {
            self.hide();
            self.say("it was answered");
        }
    }

    /// Whether all that came before the question is on the screen. Runs inside the run are not shown there.
    fn is_next(&self, question: &Question) -> bool {
        let is_inside = !self.is_outermost(&question.run_id);
        let screen = self.screen.as_ref();
        screen.is_none_or(|screen| is_inside || screen.has_shown(question.seq))
    }

    fn is_outermost(&self, run_id: &RunId) -> bool {
        self.runs.first().map(|run| &run.run_id) == Some(run_id)
    }

    fn say(&self, text: &str) {
        match &self.screen {
            Some(screen) => screen.note(text),
            None => self.printer.note(text),
        }
    }

    fn hide(&mut self) {
        if self.shown.take().is_some()
            && let Some(screen) = &self.screen
        {
            screen.show_spinners();
        }
    }

    fn show(&mut self, question: Question) {
        let gates = self.store.gates(&question.run_id).unwrap_or_default();
        let mut gates = gates.into_iter();
        let gate = gates.find(|gate| gate.approval_id == question.approval_id);
        let Some(gate) = gate.filter(|gate| gate.decision.is_none()) else {
            // A policy, or another process, was faster than this look.
            return;
        };
        if let Some(screen) = self.screen.as_ref().filter(|_| self.typed.is_some()) {
            screen.hide_spinners();
        }
        if !self.is_outermost(&question.run_id) {
            self.say(&format!("in {}:", question.run_id));
        }
        for line in described(&gate) {
            self.say(&paragraph(&line));
        }
        match &mut self.typed {
            Some(typed) => {
                // What was typed before the question could be read is no answer to it.
                while typed.try_recv().is_ok() {}
                self.say("approve? (y or n, and a reason behind it)");
            }
            None => self.say(&format!(
                "waiting for: skillrun runs approve {} --decision approve",
                question.run_id
            )),
        }
        self.shown = Some(question);
    }

    fn take(&mut self, line: Option<String>) {
        let Some(line) = line else {
            // Nobody types any more; another process can still answer.
            self.typed = None;
            return;
        };
        if self.shown.is_none() {
            // It answers nothing, and must not answer the next question, which nobody has read yet.
            return;
        }
        let Some(shown) = self.shown.clone() else {
            return;
        };
        // Only an execution lets people choose.
        let Some(decision) = decision(&line, &[]) else {
            self.say("please answer y or n");
            return;
        };
        let id = Some(shown.approval_id.as_str());
        match self.store.decide(&shown.run_id, id, &decision) {
            Ok(_) => {
                self.open.retain(|question| *question != shown);
                self.hide();
            }
            Err(error @ DecideError::ReasonTooLong { .. }) => {
                self.say(&message("error: ", &error.to_string()));
            }
            Err(error) => {
                self.say(&message("error: ", &chain(&error)));
                self.hide();
            }
        }
    }
}

/// A question, as a person reads it.
pub(crate) fn described(gate: &Gate) -> Vec<String> {
    let mut lines = vec![message(
        &format!("{} asks: ", gate.approval_id),
        gate.prompt.as_str(),
    )];
    if let Some(payload) = &gate.payload {
        lines.push(format!("  {}", json(payload.as_str())));
    }
    let options = gate.options.iter();
    lines.extend(options.map(|option| message(&format!("  {} - ", option.id), &option.label)));
    lines
}

/// What a line says about a question: yes or no, or which choice, each with a reason behind it.
pub(crate) fn decision(line: &str, options: &[PermissionOption]) -> Option<ApprovalDecision> {
    let decided = |approved, option: Option<&str>, reason: &str| ApprovalDecision {
        approved,
        reason: reason.to_owned(),
        source: ApprovalSource::Cli,
        option: option.map(str::to_owned),
        answer: None,
    };
    let chosen = |id: &str| {
        let rest = line.trim().strip_prefix(id)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
    };
    for option in options {
        if let Some(reason) = chosen(&option.id) {
            return Some(decided(true, Some(&option.id), reason));
        }
    }
    let (approved, reason) = parse(line)?;
    (options.is_empty() || !approved).then(|| decided(approved, None, reason))
}

/// Lines of standard input, read by a thread that the end of the process ends.
fn typed_lines() -> mpsc::Receiver<String> {
    let (sender, typed) = mpsc::channel(TYPED_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if matches!(sender.try_send(line), Err(TrySendError::Closed(_))) {
                return;
            }
        }
    });
    typed
}

/// The next line that is typed.
async fn next_line(typed: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

/// Yes or no, and what stands behind it.
fn parse(line: &str) -> Option<(bool, &str)> {
    let line = line.trim();
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let approved = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "approve" => true,
        "n" | "no" | "reject" => false,
        _ => return None,
    };
    let reason = reason.trim();
    let reason = reason.get(..reason.floor_char_boundary(REASON_BYTES_MAX));
    Some((approved, reason.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_a_clear_word_is_an_answer() {
        for (line, expected) in [
            ("y", Some((true, ""))),
            ("YES  it is fine ", Some((true, "it is fine"))),
            ("n not\ttoday", Some((false, "not\ttoday"))),
            ("reject", Some((false, ""))),
            ("", None),
            ("yy", None),
            ("sure", None),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }
}
