//! `skillrun agent prompt`.

use serde_json::{Value, json};

use super::{EXECUTIONS, send_prompt, told};
use crate::call::TurnStop;
use crate::cli::args::PromptArgs;
use crate::cli::commands::agent::event::{
    AgentEvent, Told, exit_of, is_listing, outcome, steps, value,
};
use crate::cli::daemon::{Answer, DaemonRecord, EventStream};
use crate::cli::display::{message, shown, text};
use crate::cli::exit::{Exit, Refused};
use crate::cli::input;
use crate::cli::printer::Printer;

pub(super) async fn prompt(
    args: PromptArgs,
    daemon: &DaemonRecord,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let prompt = input::prompt(&args.prompt)?;
    let id = &args.id;
    if args.no_wait {
        let accepted = send_prompt(id, &prompt, daemon).await?;
        return told(&accepted, &format!("{id}: accepted"), printer);
    }
    // Opened first, so that nothing of the turn is missed.
    let path = format!("{EXECUTIONS}/{id}/events?after=newest");
    let mut events = daemon.events(&path).await?;
    let path = format!("{EXECUTIONS}/{id}/prompt?wait=true");
    let body = json!({ "prompt": prompt });
    let mut asked = std::pin::pin!(daemon.post_at_leisure(&path, Some(&body)));
    let mut turn = Turn::of(&prompt, printer);
    let answer = loop {
        tokio::select! {
            answer = &mut asked => break answer?,
            event = next(&mut events) => match event? {
                Some(event) => turn.take(event)?,
                None => break asked.await?,
            },
        }
    };
    let ended: Value = ended(&answer)?;
    // What was told of the turn before its end may still be on its way.
    while !turn.is_over {
        match next(&mut events).await? {
            Some(event) => turn.take(event)?,
            None => break,
        }
    }
    turn.finish(&ended)
}

/// The end of the turn. One that goes on when nobody waits for it any more has none.
fn ended(answer: &Answer) -> anyhow::Result<Value> {
    let document = answer.document()?;
    if answer.status == 202 {
        let refused = "the turn goes on, and the daemon no longer waits for it";
        let hint = "skillrun agent events shows what becomes of it";
        return Err(Refused::conflict(refused).with_hint(hint).into());
    }
    Ok(document)
}

/// Follows the first turn of an execution to its end.
pub(super) async fn follow(events: &mut EventStream, printer: Printer) -> anyhow::Result<Exit> {
    let mut turn = Turn::any(printer);
    while let Some(event) = next(events).await? {
        if let Told::Stopped {
            code,
            message,
            reason,
            ..
        } = event.told
        {
            return Err(stopped(&code, message.or(reason)));
        }
        turn.take(event)?;
        if let Some(ended) = turn.is_over.then(|| turn.ended.clone()).flatten() {
            return turn.finish(&ended);
        }
    }
    Err(anyhow::anyhow!(
        "the daemon closed the stream before the turn was over"
    ))
}

/// Why there is no turn.
pub(super) fn stopped(code: &str, why: Option<String>) -> anyhow::Error {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Refused::conflict(format!("the execution has ended, {code}{why}")).into()
}

/// The next event; none when there are no more.
async fn next(events: &mut EventStream) -> anyhow::Result<Option<AgentEvent>> {
    loop {
        let Some(frame) = events.next().await? else {
            return Ok(None);
        };
        // What the stream says about itself is no event.
        if !matches!(frame.name.as_str(), "reset" | "lagged" | "shutdown") {
            return AgentEvent::parse(&frame.data).map(Some);
        }
    }
}

/// A turn as it is printed: the answer on standard output, the rest beside it.
struct Turn {
    printer: Printer,
    /// What the turn begins with; none when it is the first that comes.
    prompt: Option<String>,
    /// The number of the turn, once it has begun.
    generation: Option<u64>,
    answer: String,
    ended: Option<Value>,
    is_over: bool,
}

impl Turn {
    fn of(prompt: &str, printer: Printer) -> Self {
        Self {
            prompt: Some(prompt.to_owned()),
            ..Self::any(printer)
        }
    }

    fn any(printer: Printer) -> Self {
        Self {
            printer,
            prompt: None,
            generation: None,
            answer: String::new(),
            ended: None,
            is_over: false,
        }
    }

    fn note(&self, label: &str, text: &str) {
        if !self.printer.json() {
            self.printer.note(&message(label, text));
        }
    }

    fn take(&mut self, event: AgentEvent) -> anyhow::Result<()> {
        if let Told::Running { prompt } = &event.told {
            let is_it = self.prompt.as_ref().is_none_or(|wanted| wanted == prompt);
            if is_it && self.generation.is_none() {
                self.generation = Some(event.prompt_generation);
            }
            return Ok(());
        }
        if matches!(event.told, Told::Stopped { .. }) {
            self.is_over = true;
        }
        if self.generation != Some(event.prompt_generation) || self.is_over {
            return Ok(());
        }
        match event.told {
            Told::MessageChunk { text: chunk } => {
                self.answer.push_str(&chunk);
                if !self.printer.json() {
                    self.printer.piece(&text(&chunk))?;
                }
            }
            Told::ToolCall { ref call_id, .. } | Told::ToolUpdate { ref call_id, .. }
                if is_listing(call_id) => {}
            Told::ToolCall {
                name, arguments, ..
            } => self.note("tool: ", &format!("{} {}", shown(&name), value(&arguments))),
            Told::ToolUpdate {
                output,
                is_error,
                error,
                ..
            } => self.note(
                "      ",
                &outcome(output.as_ref(), is_error, error.as_ref()),
            ),
            Told::Plan { entries } => self.note("plan: ", &steps(&entries).join("\n")),
            Told::PermissionRequest { title, .. } => {
                self.note("asks: ", &title);
                self.note("hint: ", "skillrun runs approvals shows what is waited for");
            }
            Told::Error { message } => self.note("error: ", &message),
            Told::Complete {
                stop_reason,
                error,
                undone,
                usage,
            } => {
                self.is_over = true;
                self.ended = Some(json!({
                    "prompt_generation": event.prompt_generation,
                    "stop_reason": stop_reason,
                    "error": error,
                    "undone": undone,
                    "usage": usage,
                }));
            }
            _ => {}
        }
        Ok(())
    }

    /// Says how the turn ended.
    fn finish(self, ended: &Value) -> anyhow::Result<Exit> {
        let stop: TurnStop = ended
            .get("stop_reason")
            .and_then(|stop| serde_json::from_value(stop.clone()).ok())
            .unwrap_or(TurnStop::Error);
        if self.printer.json() {
            let mut document = ended.clone();
            if let Some(document) = document.as_object_mut() {
                document.insert("text".to_owned(), json!(self.answer));
            }
            self.printer.value(&document)?;
            return Ok(exit_of(stop));
        }
        if !self.answer.is_empty() && !self.answer.ends_with('\n') {
            self.printer.piece("\n")?;
        }
        match ended.get("error").and_then(Value::as_str) {
            Some(error) => self.note("error: ", error),
            None if stop != TurnStop::EndTurn => {
                self.note("", &format!("ended: {}", stop.as_str()))
            }
            None => {}
        }
        Ok(exit_of(stop))
    }
}
