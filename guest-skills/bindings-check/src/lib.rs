//! The smallest agent: it says back what it is told. It is built by a test and run by none; what
//! counts is that the world `agent` can be implemented in Rust as the package states it.

mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agent",
    });
}

use bindings::exports::skillrun::skill::session_handler::{
    Context, Descriptor, Guest, SkillError, StopReason,
};
use bindings::skillrun::skill::{session, types};

struct Echo;

impl Guest for Echo {
    fn describe() -> Descriptor {
        Descriptor {
            name: "bindings-check".to_owned(),
            version: "0.1.0".to_owned(),
            description: "Says back what it is told".to_owned(),
            input_schema: String::new(),
            output_schema: String::new(),
        }
    }

    fn start(context: Context) -> Result<(), SkillError> {
        let updates = [session::PlanEntry {
            description: format!("answer in session {}", context.session_id),
            status: session::PlanStatus::InProgress,
            priority: 0,
        }];
        session::emit(&session::Update::Plan(updates.into())).map_err(failed)
    }

    fn prompt(text: String) -> Result<StopReason, SkillError> {
        session::emit(&session::Update::MessageChunk(text)).map_err(failed)?;
        Ok(StopReason::EndTurn)
    }

    fn finish() {}
}

fn failed(error: types::HostError) -> SkillError {
    SkillError {
        message: error.to_string(),
        code: String::new(),
        details: "null".to_owned(),
    }
}

bindings::export!(Echo with_types_in bindings);
