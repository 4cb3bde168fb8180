use crate::capability::Capability;
use crate::executor::bindings::skillrun::skill::approval::{Decision, Host, HostError, Question};
use crate::executor::state::HostState;

impl Host for HostState {
    fn request(&mut self, question: Question) -> wasmtime::Result<Result<Decision, HostError>> {
        let refused = self.refuse("approval", &question.prompt, |capability| {
            matches!(capability, Capability::Approval)
        })?;
        Ok(Err(refused))
    }
}
