use crate::capability::Capability;
use crate::executor::bindings::skillrun::skill::handoff::{Call, Host, HostError};
use crate::executor::state::HostState;

impl Host for HostState {
    fn invoke(
        &mut self,
        skill: String,
        _input: String,
    ) -> wasmtime::Result<Result<String, HostError>> {
        let refused = self.refuse(
            &format!("skill:{skill}"),
            &skill,
            |capability| matches!(capability, Capability::Skill { name } if name.as_str() == skill),
        )?;
        Ok(Err(refused))
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
