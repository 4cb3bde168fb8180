use futures_util::StreamExt as _;

use crate::executor::bindings::skillrun::skill::handoff::{Call, Host, HostError};
use crate::executor::state::HostState;

impl Host for HostState {
    async fn invoke(
        &mut self,
        skill: String,
        input: String,
    ) -> wasmtime::Result<Result<String, HostError>> {
        self.take_host_calls(1)?;
        let result = self
            .record
            .host()
            .provided()
            .call_skill(&skill, &input)
            .await;
        self.answered(result)
    }

    async fn invoke_all(
        &mut self,
        calls: Vec<Call>,
        parallel_max: u32,
    ) -> wasmtime::Result<Vec<Result<String, HostError>>> {
        self.take_host_calls(calls.len())?;
        let host = self.record.host().provided();
        let mut begun = Vec::new();
        for call in &calls {
            begun.push(host.call_skill(&call.skill, &call.input));
        }
        let results: Vec<_> = futures_util::stream::iter(begun)
            .buffered(self.parallel_calls(parallel_max))
            .collect()
            .await;
        let results = results.into_iter();
        results.map(|result| self.answered(result)).collect()
    }
}
