//! Executions of agents as the runner has them: what goes in, what comes out, and what stands on record.

mod agent;
mod cancelled;
mod chat;
mod taken_up;
mod turns;
