//! A chat from its first line to its last.

use std::collections::VecDeque;

use tokio::task::JoinSet;

use super::super::event::{Told as What, exit_of, is_listing, outcome, steps, value};
use super::again::Again;
use super::line::{self, HELP, Line};
use super::link::{Events, Link, Opened, Told};
use super::screen::Screen;
use super::typed::Typed;
use crate::call::{PermissionOption, PlanEntry, TurnStop};
use crate::cli::commands::run::Signals;
use crate::cli::display::{json, shown};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::clock::{Clock, Stopwatch};
use crate::id::ExecutionId;
use crate::ledger::Store;
use crate::outcome::OutcomeCode;
use crate::runtime::ExecutionStatus;
use crate::telemetry::chain;

/// Milliseconds within which a second Ctrl-C leaves the chat.
const AGAIN_MS: u128 = 1_000;
/// Prompts that were typed ahead. Protects the memory from a terminal that is pasted into.
const AHEAD_MAX: usize = 64;

/// A question that waits for an answer.
struct Question {
    id: String,
    options: Vec<PermissionOption>,
}

/// What can be done with an execution when its chat was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// It is live, unless it ends with this process.
    Live,
    /// It was stopped, and can be taken up.
    Stopped,
    /// It ended where a call had no answer on record, and can be taken up if such calls may be made again.
    Ambiguous,
    /// Whether it is live is not known: nothing more is heard of it.
    Lost,
    /// Nothing: it has completed, or failed.
    Over,
}

/// How a chat was left.
pub(super) struct Left {
    pub(super) exit: Exit,
    id: ExecutionId,
    after: After,
}

impl Left {
    /// How it is taken up again, for whoever sits at the terminal.
    pub(super) fn taken_up_by(&self, again: &Again, link: &Link) -> Option<String> {
        let id = &self.id;
        let command = again.command(id.run_id());
        match self.after {
            After::Over => None,
            After::Live if !link.is_here() => Some(format!(
                "it goes on in the daemon: skillrun agent chat {id} talks with it, skillrun agent stop {id} ends it"
            )),
            After::Lost if !link.is_here() => Some(format!(
                "skillrun agent show {id} says whether it goes on; if it does not: {command}"
            )),
            After::Ambiguous => Some(format!(
                "to go on, though such calls may do their work twice: {command} --retry-ambiguous"
            )),
            After::Live | After::Lost | After::Stopped => Some(format!("to go on: {command}")),
        }
    }
}

/// Whether the chat goes on.
enum Next {
    Talk,
    Leave(Left),
}

/// A chat.
pub(super) struct Conversation {
    link: Link,
    id: ExecutionId,
    store: Store,
    printer: Printer,
    screen: Screen,
    is_attended: bool,
    /// Whether the agent waits for a prompt.
    is_ready: bool,
    /// Whether a prompt was sent whose turn has not begun.
    is_sent: bool,
    ahead: VecDeque<String>,
    question: Option<Question>,
    plan: Vec<PlanEntry>,
    /// Since Ctrl-C was last pressed.
    interrupted: Option<Stopwatch>,
    exit: Exit,
    /// The error that was last said.
    error: String,
    /// What was asked of the execution and goes on.
    work: JoinSet<anyhow::Result<()>>,
    clock: Clock,
}

impl Conversation {
    /// Begins a chat with an execution. From then on signals are the chat's.
    ///
    /// # Errors
    /// Signals cannot be listened to.
    pub(super) fn begin(link: Link, opened: Opened, printer: Printer) -> anyhow::Result<Running> {
        let Opened {
            id,
            events,
            store,
            is_ready,
        } = opened;
        let signals = Signals::new()?;
        Ok(Running {
            events,
            signals,
            typed: Some(Typed::new()),
            conversation: Self {
                link,
                id,
                store,
                printer,
                screen: Screen::new(printer),
                is_attended: printer.is_attended(),
                is_ready,
                is_sent: false,
                ahead: VecDeque::new(),
                question: None,
                plan: Vec::new(),
                interrupted: None,
                exit: Exit::Ok,
                error: String::new(),
                work: JoinSet::new(),
                clock: Clock::system(),
            },
        })
    }

    fn left(&self, exit: Exit, after: After) -> Next {
        Next::Leave(Left {
            exit,
            id: self.id.clone(),
            after,
        })
    }

    /// Nothing more comes.
    fn lost(&mut self, why: &str) -> anyhow::Result<Next> {
        self.screen.say("error: ", why)?;
        Ok(self.left(Exit::Failed, After::Lost))
    }

    fn is_idle(&self) -> bool {
        self.is_ready && !self.is_sent
    }

    /// Lets something be done while the chat goes on. What goes wrong is said.
    fn spawn(&mut self, work: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.work.spawn(work);
    }

    /// Takes what comes next from whoever types, when the agent waits for it.
    fn go_on(&mut self) -> anyhow::Result<()> {
        if !self.is_idle() || self.question.is_some() {
            return Ok(());
        }
        match self.ahead.pop_front() {
            Some(prompt) => {
                self.is_sent = true;
                let (link, id) = (self.link.clone(), self.id.clone());
                self.spawn(async move { link.prompt(&id, prompt).await });
                Ok(())
            }
            None => self.screen.mark(),
        }
    }

    fn take_line(&mut self, line: &str) -> anyhow::Result<Next> {
        self.screen.typed();
        if let Some(question) = &self.question {
            let Some(decision) = line::answer(line, &question.options) else {
                let expected = match question.options.is_empty() {
                    true => "please answer y or n",
                    false => "please answer with the id or the number of a choice, or n",
                };
                self.screen.say("", expected)?;
                self.screen.mark()?;
                return Ok(Next::Talk);
            };
            let decided = self
                .store
                .decide(self.id.run_id(), Some(&question.id), &decision);
            match decided {
                Ok(_) => self.question = None,
                Err(error) => self.screen.say("error: ", &chain(&error))?,
            }
            return Ok(Next::Talk);
        }
        // A program that writes lines into a chat has no commands that a text could be taken for.
        let meant = match self.is_attended {
            true => line::parse(line),
            false if line.trim().is_empty() => Line::Empty,
            false => Line::Prompt(line.to_owned()),
        };
        match meant {
            Line::Empty => {}
            Line::Prompt(_) if self.ahead.len() >= AHEAD_MAX => {
                let said = format!("{AHEAD_MAX} prompts wait: wait for an answer first");
                self.screen.say("error: ", &said)?;
            }
            Line::Prompt(prompt) => self.ahead.push_back(prompt),
            Line::Help => {
                for line in HELP {
                    self.screen.say("", line)?;
                }
            }
            Line::Plan if self.plan.is_empty() => self.screen.say("", "there is no plan")?,
            Line::Plan => self.show_plan()?,
            Line::Mode(mode) => {
                let (link, id) = (self.link.clone(), self.id.clone());
                self.spawn(async move { link.set_mode(&id, &mode).await });
            }
            Line::Stop => {
                let (link, id) = (self.link.clone(), self.id.clone());
                self.spawn(async move { link.stop(&id).await });
            }
            Line::Quit => return Ok(self.left(self.exit, After::Live)),
            Line::Unknown(word) => {
                let said = format!("{}: /help shows the commands there are", shown(&word));
                self.screen.say("no such command: ", &said)?;
            }
        }
        self.go_on()?;
        Ok(Next::Talk)
    }

    fn show_plan(&mut self) -> anyhow::Result<()> {
        for step in steps(&self.plan) {
            self.screen.say("plan: ", &step)?;
        }
        Ok(())
    }

    /// Ctrl-C: cancels the turn. Again within a second, or where nothing goes on, it leaves the chat.
    fn interrupt(&mut self) -> anyhow::Result<Next> {
        let again = self.interrupted.replace(self.clock.stopwatch());
        let is_again = again.is_some_and(|since| since.elapsed().as_millis() < AGAIN_MS);
        if is_again || self.is_idle() {
            self.screen.end_line()?;
            let exit = match self.is_attended && !is_again {
                true => self.exit,
                false => Exit::Interrupted,
            };
            return Ok(self.left(exit, After::Live));
        }
        self.ahead.clear();
        self.screen
            .say("", "cancelling the turn; Ctrl-C again leaves the chat")?;
        let (link, id) = (self.link.clone(), self.id.clone());
        self.spawn(async move { link.cancel_turn(&id).await });
        Ok(Next::Talk)
    }

    fn take_event(&mut self, told: Told) -> anyhow::Result<Next> {
        if self.printer.json() {
            self.printer.line(&json(&told.json))?;
        }
        let generation = told.event.prompt_generation;
        match told.event.told {
            What::BootReady => {
                self.is_ready = true;
                if generation == 0 && self.is_attended {
                    let said = format!("{}, /help shows what can be typed", self.id);
                    self.screen.whisper("", &said)?;
                }
            }
            What::Ready => {
                self.screen.end_line()?;
                self.is_ready = true;
            }
            What::Running { .. } => (self.is_ready, self.is_sent) = (false, false),
            What::MessageChunk { text } => self.screen.answer(&text)?,
            What::Reasoning { text } => self.screen.reasoning(&text)?,
            What::Plan { entries } => {
                self.plan = entries;
                self.show_plan()?;
            }
            told @ (What::ToolCall { .. }
            | What::ToolUpdate { .. }
            | What::ModeChanged { .. }
            | What::ToolsChanged { .. }) => self.show_tools(told)?,
            What::PermissionRequest {
                permission_id,
                title,
                options,
                details,
            } => self.ask(permission_id, &title, options, details.as_ref())?,
            What::PermissionAnswered { permission_id, .. }
            | What::PermissionCancelled { permission_id } => self.answered(&permission_id)?,
            What::Complete {
                stop_reason,
                error,
                undone,
                ..
            } => self.turn_ended(stop_reason, error.as_deref(), undone)?,
            What::Error { message } => {
                self.screen.say("error: ", &message)?;
                self.error = message;
            }
            What::Stopped {
                status,
                code,
                reason,
                message,
            } => return self.ended(status, &code, reason.or(message)),
            // The turn that it was cut off in may go on before it waits for a prompt.
            What::SessionStatus { .. } if generation > 0 && self.is_attended => {
                let said = format!("{}, taken up after {generation} prompts", self.id);
                self.screen.whisper("", &said)?;
            }
            What::SessionStatus { .. } | What::ContextWindow { .. } | What::Other => {}
        }
        self.go_on()?;
        Ok(Next::Talk)
    }

    /// Which tools the agent has, and what it does with them.
    fn show_tools(&mut self, told: What) -> anyhow::Result<()> {
        match told {
            // To ask which tools there are is no news.
            What::ToolCall { ref call_id, .. } | What::ToolUpdate { ref call_id, .. }
                if is_listing(call_id) => {}
            What::ToolCall {
                name, arguments, ..
            } => {
                let said = format!("{} {}", shown(&name), value(&arguments));
                self.screen.whisper("tool: ", &said)?;
            }
            What::ToolUpdate {
                output,
                is_error,
                error,
                ..
            } => {
                let said = outcome(output.as_ref(), is_error, error.as_ref());
                self.screen.whisper("  ->  ", &said)?;
            }
            What::ModeChanged { mcp_mode } => self.screen.whisper("mode: ", &mcp_mode)?,
            What::ToolsChanged { tools } => {
                let said = match tools.is_empty() {
                    true => "none".to_owned(),
                    false => tools.join(", "),
                };
                self.screen.whisper("tools: ", &said)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn turn_ended(
        &mut self,
        stop: TurnStop,
        error: Option<&str>,
        undone: bool,
    ) -> anyhow::Result<()> {
        if self.exit == Exit::Ok && !self.is_attended {
            self.exit = exit_of(stop);
        }
        let undone = if undone {
            ", and for the agent it never was"
        } else {
            ""
        };
        match (error, stop) {
            (Some(error), _) => self.screen.say("error: ", error),
            (None, TurnStop::EndTurn) => self.screen.end_line(),
            (None, stop) => self
                .screen
                .say("", &format!("the turn ended: {}{undone}", stop.as_str())),
        }
    }

    fn ask(
        &mut self,
        id: String,
        title: &str,
        options: Vec<PermissionOption>,
        details: Option<&serde_json::Value>,
    ) -> anyhow::Result<()> {
        self.screen.say("the agent asks: ", title)?;
        if let Some(details) = details.filter(|details| !details.is_null()) {
            self.screen.say("         about: ", &value(details))?;
        }
        for (at, option) in options.iter().enumerate() {
            let said = format!("{} - {}", shown(&option.id), shown(&option.label));
            self.screen.say(&format!("{:>14}) ", at + 1), &said)?;
        }
        if !self.is_attended {
            let run_id = self.id.run_id();
            let option = match options.is_empty() {
                true => "",
                false => " --option ID",
            };
            let said = format!(
                "skillrun runs approve {run_id} --decision approve{option}, or --decision reject"
            );
            return self.screen.say("   waiting for: ", &said);
        }
        let how = match options.is_empty() {
            true => "y or n, and a reason behind it",
            false => "an id or a number, or n, and a reason behind it",
        };
        self.screen.say("", how)?;
        self.question = Some(Question { id, options });
        self.screen.mark()
    }

    /// It was answered here or elsewhere, or needs no answer any more.
    fn answered(&mut self, id: &str) -> anyhow::Result<()> {
        if self
            .question
            .take_if(|question| question.id == id)
            .is_some()
        {
            self.screen.say("", "the question is settled")?;
        }
        Ok(())
    }

    fn ended(
        &mut self,
        status: ExecutionStatus,
        code: &str,
        why: Option<String>,
    ) -> anyhow::Result<Next> {
        // It need not be said twice.
        let why = why.filter(|why| *why != self.error);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let said = format!("{status}, {}{why}", shown(code));
        let parsed = serde_json::from_value::<OutcomeCode>(code.into());
        let code = parsed.unwrap_or(OutcomeCode::Internal);
        let exit = match status {
            ExecutionStatus::Failed => {
                self.screen.say("error: ", &said)?;
                Exit::from(code)
            }
            _ => {
                self.screen
                    .say("", &format!("the agent has ended: {said}"))?;
                self.exit
            }
        };
        let after = match (status, code) {
            (ExecutionStatus::Stopped, _) => After::Stopped,
            (_, OutcomeCode::AmbiguousCall) => After::Ambiguous,
            _ => After::Over,
        };
        Ok(self.left(exit, after))
    }
}

/// A chat that goes on, with everything that it waits for.
pub(super) struct Running {
    conversation: Conversation,
    events: Events,
    signals: Signals,
    /// None when nothing is typed any more.
    typed: Option<Typed>,
}

impl Running {
    /// Goes on until it is left, or the execution has ended.
    pub(super) async fn talk(mut self) -> anyhow::Result<Left> {
        self.conversation.go_on()?;
        loop {
            // A program's next line is for the next turn; a person's may be a command, or an answer.
            let conversation = &mut self.conversation;
            let takes_lines = conversation.is_attended || conversation.is_idle();
            let next = tokio::select! {
                told = self.events.next() => match told {
                    Ok(Some(told)) => conversation.take_event(told)?,
                    Ok(None) => conversation.lost("nothing more is heard of the agent")?,
                    Err(error) => conversation.lost(&chain(error.as_ref()))?,
                },
                line = next_line(&mut self.typed), if takes_lines => match line {
                    Some(line) => conversation.take_line(&line)?,
                    None => {
                        conversation.screen.end_line()?;
                        conversation.left(conversation.exit, After::Live)
                    }
                },
                interrupted = self.signals.next() => match interrupted {
                    true => conversation.interrupt()?,
                    false => conversation.left(Exit::Interrupted, After::Live),
                },
                Some(done) = conversation.work.join_next() => {
                    if let Ok(Err(error)) = done {
                        conversation.is_sent = false;
                        conversation.screen.say("error: ", &chain(error.as_ref()))?;
                        conversation.go_on()?;
                    }
                    Next::Talk
                }
            };
            if let Next::Leave(left) = next {
                return Ok(left);
            }
        }
    }
}

async fn next_line(typed: &mut Option<Typed>) -> Option<String> {
    match typed {
        Some(typed) => typed.next().await,
        None => std::future::pending().await,
    }
}
