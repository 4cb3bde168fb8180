//! An agent that does what a test asks for, by the text of each prompt: one verb a line, the rest of the line
//! being its argument. So the host of agents is tried by a real one and not by a mock.

mod provided;
mod system;

use std::hint::black_box;
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun_sdk::agent::{Agent, Context, StopReason, agent};
use skillrun_sdk::http::{Pending, Request};
use skillrun_sdk::session::{self, PlanEntry, PlanStatus};
use skillrun_sdk::{HostError, SkillError, log};

/// Bytes of a MiB.
const MIB_BYTES: usize = 1024 * 1024;

/// What is kept between prompts.
struct ProbeAgent {
    context: Context,
    prompts: u32,
    remembered: Vec<String>,
    allocated: Vec<Vec<u8>>,
    /// A request that was sent, and whose response nobody has waited for yet.
    sent: Option<Pending>,
}

/// What a verb comes to: nothing more to be done in this turn, for a reason, or the next line.
type Done = Result<Option<StopReason>, SkillError>;

#[agent]
impl Agent for ProbeAgent {
    fn start(context: Context) -> Result<Self, SkillError> {
        let (how, argument) = divide(context.text("start").unwrap_or("ok"), ':');
        match how {
            "ok" => {}
            "fail" => return Err(SkillError::new("start failed").with_code("start_failed")),
            "trap" => trap(),
            "exit" => std::process::exit(number(argument, 0)?),
            "spin" => spin(),
            "sleep" => sleep(Duration::from_millis(number(argument, 0)?)),
            _ => return Err(unknown(how)),
        }
        Ok(Self {
            context,
            prompts: 0,
            remembered: Vec::new(),
            allocated: Vec::new(),
            sent: None,
        })
    }

    fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> {
        self.prompts += 1;
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (verb, argument) = divide(line, ' ');
            if let Some(reason) = self.perform(verb, argument)? {
                return Ok(reason);
            }
        }
        Ok(StopReason::EndTurn)
    }

    fn finish(self) {
        let (how, argument) = divide(self.context.text("finish").unwrap_or("ok"), ':');
        match how {
            "spin" => spin(),
            "trap" => trap(),
            "emit" => {
                // Whether the host still takes it is what the test looks at.
                let _taken = session::emit_text(argument);
            }
            _ => {}
        }
    }
}

impl ProbeAgent {
    /// The status of the response to what was posted, in this turn or an earlier one.
    fn posted(&mut self) -> Result<(), SkillError> {
        let text = match self.sent.take().map(Pending::wait) {
            None => "nothing was posted".to_owned(),
            Some(Ok(response)) => response.status.to_string(),
            Some(Err(error)) => format!("error: {error}"),
        };
        Ok(session::emit_text(&text)?)
    }

    fn perform(&mut self, verb: &str, argument: &str) -> Done {
        match verb {
            "remember" => self.remembered.push(argument.to_owned()),
            "recall" => session::emit_text(&self.remembered.join(","))?,
            "count" => session::emit_text(&self.prompts.to_string())?,
            "meta" => session::emit_text(&self.meta().to_string())?,
            "alloc" => {
                let bytes = number::<usize>(argument, 1)?.saturating_mul(MIB_BYTES);
                self.allocated.push(black_box(vec![1; bytes]));
            }
            "tools" => provided::tools()?,
            "tool" => provided::tool(argument)?,
            "tools-many" => provided::tools_many(argument)?,
            "ask" => provided::ask(argument)?,
            "stream" => provided::stream(argument)?,
            "skill" => provided::skill(argument)?,
            "approve" => provided::approve(argument)?,
            "permission" => provided::permission(argument)?,
            "post" => self.sent = Some(Request::post(argument, "x").start()?),
            "posted" => self.posted()?,
            "random" => system::random()?,
            "now" => system::now()?,
            "env" => system::env()?,
            "read" => system::read(argument)?,
            "write" => system::write(argument)?,
            "ls" => system::list(argument)?,
            "log" => log::info(argument),
            "spin" => spin(),
            "trap" => trap(),
            "sleep" => sleep(Duration::from_millis(number(argument, 0)?)),
            "exit" => std::process::exit(number(argument, 0)?),
            "fail" => {
                let (code, message) = divide(argument, ' ');
                return Err(SkillError::new(message).with_code(code));
            }
            "stop" => return stop_reason(argument).map(Some),
            _ => say(verb, argument)?,
        }
        Ok(None)
    }

    fn meta(&self) -> Value {
        json!({
            "session_id": self.context.session_id,
            "workspace": self.context.workspace,
            "mode": self.context.mode,
            "metadata": self.context.metadata,
        })
    }
}

/// The verbs that only tell something.
fn say(verb: &str, argument: &str) -> Result<(), SkillError> {
    match verb {
        "echo" => session::emit_text(argument)?,
        "reason" => session::reasoning(argument)?,
        "window" => {
            let (used, size) = divide(argument, ' ');
            session::context_window(number(used, 0)?, number(size, 0)?)?;
        }
        "plan" => session::plan(&[
            PlanEntry::new("look", PlanStatus::Completed),
            PlanEntry::new("think", PlanStatus::InProgress),
            PlanEntry {
                priority: 2,
                ..PlanEntry::new("act", PlanStatus::Pending)
            },
        ])?,
        "emit-big" => session::emit_text(&"b".repeat(number(argument, 0)?))?,
        "chunks" => {
            let (count, pause_ms) = divide(argument, ' ');
            let (count, pause_ms) = (number::<u64>(count, 0)?, number(pause_ms, 0)?);
            for at in 0..count {
                if at > 0 && pause_ms > 0 {
                    sleep(Duration::from_millis(pause_ms));
                }
                session::emit_text(&format!("{at};"))?;
            }
        }
        _ => return Err(unknown(verb)),
    }
    Ok(())
}

/// Says what came of a call, the host's refusal included. That the turn is being cancelled ends it as well.
fn tell(result: Result<String, HostError>) -> Result<(), SkillError> {
    match result {
        Ok(text) => session::emit_text(&text)?,
        Err(HostError::Cancelled) => {
            // Whether the host still takes it is what the test looks at.
            let _taken = session::emit_text(&refusal(&HostError::Cancelled));
            return Err(HostError::Cancelled.into());
        }
        Err(error) => session::emit_text(&refusal(&error))?,
    }
    Ok(())
}

/// What the host said instead of an answer.
fn refusal(error: &HostError) -> String {
    format!("error: {} {error}", error.kind())
}

/// The first word and the rest; nothing is the rest of one word.
fn divide(text: &str, at: char) -> (&str, &str) {
    text.split_once(at).unwrap_or((text, ""))
}

/// A number; without a text, `default`.
fn number<N: FromStr>(text: &str, default: N) -> Result<N, SkillError> {
    if text.is_empty() {
        return Ok(default);
    }
    let invalid = || SkillError::new(format!("{text:?} is no number")).with_code("invalid_input");
    text.parse().map_err(|_| invalid())
}

fn stop_reason(name: &str) -> Result<StopReason, SkillError> {
    match name {
        "" | "end_turn" => Ok(StopReason::EndTurn),
        "token_limit" => Ok(StopReason::TokenLimit),
        "refusal" => Ok(StopReason::Refusal),
        "cancelled" => Ok(StopReason::Cancelled),
        _ => Err(unknown(name)),
    }
}

fn unknown(word: &str) -> SkillError {
    SkillError::new(format!("{word:?} is nothing that this agent does")).with_code("invalid_input")
}

fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

fn trap() -> ! {
    core::arch::wasm32::unreachable()
}
