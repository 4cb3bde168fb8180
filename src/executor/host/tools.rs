use crate::capability::{Capability, tool_matches};
use crate::executor::bindings::skillrun::skill::tools::{Answer, Call, Host, HostError, Tool};
use crate::executor::state::HostState;

impl Host for HostState {
    fn available(&mut self) -> wasmtime::Result<Vec<Tool>> {
        Ok(Vec::new())
    }

    fn invoke(
        &mut self,
        name: String,
        _arguments: String,
    ) -> wasmtime::Result<Result<Answer, HostError>> {
        let refused = self.refuse(&format!("tool:{name}"), &name, |capability| {
            matches!(capability, Capability::Tool { pattern } if tool_matches(pattern, &name))
        })?;
        Ok(Err(refused))
    }

    fn invoke_all(
        &mut self,
        calls: Vec<Call>,
        _parallel_max: u32,
    ) -> wasmtime::Result<Vec<Result<Answer, HostError>>> {
        let mut answers = Vec::new();
        for call in calls {
            answers.push(self.invoke(call.name, call.arguments)?);
        }
        Ok(answers)
    }
}
