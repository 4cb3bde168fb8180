use crate::executor::bindings::skillrun::skill::handoff::{Call, Host, HostError};
use crate::executor::state::HostState;

impl Host for HostState {
    fn invoke(
        &mut self,
        skill: String,
        _input: String,
    ) -> wasmtime::Result<Result<String, HostError>> {
        let capability = self.refuse(&format!("skill:{skill}"), &skill)?;
        Ok(Err(HostError::Denied(capability)))
    }

    fn invoke_all(
        &mut self,
        calls: Vec<Call>,
        _parallel_max: u32,
    ) -> wasmtime::Result<Vec<Result<String, HostError>>> {
        let mut results = Vec::new();
        for call in calls {
            results.push(self.invoke(call.skill, call.input)?);
        }
        Ok(results)
    }
}
