//! `skillrun agent events`.

use super::event::AgentEvent;
use super::recorded;
use crate::cli::args::EventsArgs;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::runtime::{Event, EventKind, Runtime as _, RuntimeError};

/// Columns of the word for an event.
const NAME_COLUMNS: usize = 20;

/// They are read from the ledger, whoever carries the execution out.
pub(super) async fn events(
    args: EventsArgs,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let runtime = recorded::runtime(config)?;
    let from = args.after.map(|after| after.saturating_add(1));
    let events = runtime.subscribe_events(&args.id.to_string(), from).await;
    let mut events = match events {
        Err(RuntimeError::NotFound { .. }) => {
            let refused = Refused::not_found(format!("there is no execution {}", args.id));
            let hint = "skillrun agent list shows the executions there are";
            return Err(refused.with_hint(hint).into());
        }
        events => events?,
    };
    let mut lines = Lines {
        printer,
        start: None,
    };
    loop {
        let event = match args.follow {
            true => events.next().await?,
            false => events.next_recorded()?,
        };
        match event {
            Some(event) => lines.print(&event)?,
            None => return Ok(Exit::Ok),
        }
    }
}

/// Prints events, one a line.
struct Lines {
    printer: Printer,
    start: Option<Timestamp>,
}

impl Lines {
    fn print(&mut self, event: &Event) -> anyhow::Result<()> {
        if matches!(event.kind, EventKind::Lagged { .. }) {
            return Ok(());
        }
        if self.printer.json() {
            return self.printer.value(event);
        }
        let start = *self.start.get_or_insert(event.time);
        let micros = event.time.unix_micros() - start.unix_micros();
        let told = AgentEvent::of(event)?.told;
        let (name, text) = (told.name(), told.described());
        let millis = micros.max(0) / 1_000;
        let line = format!(
            "{:>5} {:>6}.{:03}s  #{:<3} {name:<NAME_COLUMNS$}  {text}",
            event.seq,
            millis / 1_000,
            millis % 1_000,
            event.prompt_generation,
        );
        self.printer.line(line.trim_end())
    }
}
