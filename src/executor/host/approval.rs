use crate::executor::bindings::skillrun::skill::approval::{Decision, Host, HostError, Question};
use crate::executor::state::HostState;

impl Host for HostState {
    fn request(&mut self, question: Question) -> wasmtime::Result<Result<Decision, HostError>> {
        let capability = self.refuse("approval", &question.prompt)?;
        Ok(Err(HostError::Denied(capability)))
    }
}
