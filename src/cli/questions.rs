//! Questions of a run that goes on in this process: shown to whoever watches, and answered at the
//! terminal, if there is one.

use std::future::Future;
use std::io::BufRead as _;
use std::time::Duration;

use tokio::sync::mpsc;

use super::display::{json, message};
use super::live::Screen;
use super::printer::Printer;
use crate::id::RunId;
use crate::ledger::{
    ApprovalDecision, ApprovalSource, DecideError, Entry, Event, Follower, Gate, Origin, Position,
    REASON_BYTES_MAX, Store,
};
use crate::telemetry::chain;

/// How often it is looked whether the run asks something.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Lines that were typed and not read yet.
const TYPED_MAX: usize = 16;

/// The questions of one run.
pub(crate) struct Questions {
    store: Store,
    run_id: RunId,
    printer: Printer,
    /// Where the run is shown as it happens, if it is. A question waits until all before it is there.
    screen: Option<Screen>,
    follower: Option<Follower>,
    /// What was asked and is not known to be answered, the oldest first: number of the event, and id.
    open: Vec<(u64, String)>,
    /// The question that the person was shown.
    shown: Option<String>,
    /// What is typed; none where nobody is there to type.
    typed: Option<mpsc::Receiver<String>>,
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
            run_id,
            printer,
            screen,
            follower: None,
            open: Vec::new(),
            shown: None,
            typed: printer.is_attended().then(typed_lines),
        }
    }

    /// Shows and answers questions while `work` goes on.
    pub(crate) async fn answer_during<T>(mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                ended = &mut work => return ended,
                _ = looks.tick() => self.look(),
                line = next_line(&mut self.typed, self.shown.is_some()) => self.take(line),
            }
        }
    }

    /// Notes what was asked and answered since the last look. What cannot be read yet is read at the
    /// next one.
    fn look(&mut self) {
        if self.follower.is_none() {
            self.follower = self.store.follow(&self.run_id, Position::default()).ok();
        }
        while let Some(Ok(Some(entry))) = self.follower.as_mut().map(Follower::next_entry) {
            let Entry::Record(record) = entry else {
                continue;
            };
            match record.event() {
                _ if record.origin != Origin::Host => {}
                Event::ApprovalRequest(request) => {
                    self.open.push((record.seq, request.approval_id));
                }
                Event::ApprovalResponse(response) => {
                    self.open.retain(|(_, id)| *id != response.approval_id);
                    let shown = self.shown.take_if(|id| *id == response.approval_id);
                    // A screen shows the answer itself.
                    if shown.is_some() && self.screen.is_none() {
                        self.printer.note("it was answered");
                    }
                }
                _ => {}
            }
        }
        if self.shown.is_none()
            && let Some((seq, id)) = self.open.first().cloned()
            && self
                .screen
                .as_ref()
                .is_none_or(|screen| screen.has_shown(seq))
        {
            self.show(id);
        }
    }

    fn note(&self, line: &str) {
        match &self.screen {
            Some(screen) => screen.note(line),
            None => self.printer.note(line),
        }
    }

    fn show(&mut self, id: String) {
        let gates = self.store.gates(&self.run_id).unwrap_or_default();
        let gate = gates.into_iter().find(|gate| gate.approval_id == id);
        let Some(gate) = gate.filter(|gate| gate.decision.is_none()) else {
            // A policy, or another process, was faster than this look.
            return;
        };
        for line in described(&gate) {
            self.note(&line);
        }
        match &self.typed {
            Some(_) => self.note("approve? (y or n, and a reason behind it)"),
            None => self.note(&format!(
                "waiting for: skillrun runs approve {} --decision approve",
                self.run_id
            )),
        }
        self.shown = Some(id);
    }

    fn take(&mut self, line: Option<String>) {
        let Some(line) = line else {
            // Nobody types any more; another process can still answer.
            self.typed = None;
            return;
        };
        let Some((approved, reason)) = parse(&line) else {
            self.note("please answer y or n");
            return;
        };
        let decision = ApprovalDecision {
            approved,
            reason: reason.to_owned(),
            source: ApprovalSource::Cli,
        };
        let shown = self.shown.clone();
        match self.store.decide(&self.run_id, shown.as_deref(), &decision) {
            Ok(_) => {
                self.open.retain(|(_, id)| Some(id) != shown.as_ref());
                self.shown = None;
            }
            Err(error @ DecideError::ReasonTooLong { .. }) => {
                self.note(&message("error: ", &error.to_string()));
            }
            Err(error) => {
                self.note(&message("error: ", &chain(&error)));
                self.shown = None;
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
    lines
}

/// Lines of standard input, read by a thread that the end of the process ends.
fn typed_lines() -> mpsc::Receiver<String> {
    let (sender, typed) = mpsc::channel(TYPED_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    typed
}

/// The next line that is typed; nothing while nobody is asked.
async fn next_line(typed: &mut Option<mpsc::Receiver<String>>, is_asked: bool) -> Option<String> {
    match typed {
        Some(typed) if is_asked => typed.recv().await,
        _ => std::future::pending().await,
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
