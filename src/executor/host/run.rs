use crate::executor::bindings::skillrun::skill::run::Host;
use crate::executor::state::HostState;

impl Host for HostState {
    fn id(&mut self) -> wasmtime::Result<String> {
        Ok(self.record.host().facts().run_id.clone())
    }

    fn parent_id(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(self.record.host().facts().parent_run_id.clone())
    }

    fn skill_name(&mut self) -> wasmtime::Result<String> {
        Ok(self.record.host().facts().skill_name.clone())
    }

    fn skill_body(&mut self) -> wasmtime::Result<String> {
        Ok(self.record.host().facts().skill_body.to_string())
    }

    fn remaining_ms(&mut self) -> wasmtime::Result<u32> {
        let left = self.record.host().now().left;
        Ok(u32::try_from(left.as_millis()).unwrap_or(u32::MAX))
    }

    fn attempt(&mut self) -> wasmtime::Result<u32> {
        Ok(self.record.host().attempt())
    }
}
