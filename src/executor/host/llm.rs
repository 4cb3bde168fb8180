use wasmtime::component::Resource;

use crate::capability::Capability;
use crate::executor::bindings::skillrun::skill::llm::{
    Chunk, Host, HostCompletion, HostError, Request, Response,
};
use crate::executor::state::HostState;

/// An answer that is still coming. Without a grant for any model there is never one.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, inside this crate"
)]
pub enum Completion {}

impl Host for HostState {
    fn generate(&mut self, request: Request) -> wasmtime::Result<Result<Response, HostError>> {
        self.refuse_model(&request.model)
    }

    fn start(
        &mut self,
        request: Request,
    ) -> wasmtime::Result<Result<Resource<Completion>, HostError>> {
        self.refuse_model(&request.model)
    }
}

impl HostState {
    fn refuse_model<T>(&mut self, model: &str) -> wasmtime::Result<Result<T, HostError>> {
        let wanted = format!("llm:{model}");
        let refused = self.refuse(&wanted, model, |capability| {
            matches!(capability, Capability::Llm { .. }) && capability.to_string() == wanted
        })?;
        Ok(Err(refused))
    }
}

impl HostCompletion for HostState {
    fn next(
        &mut self,
        completion: Resource<Completion>,
    ) -> wasmtime::Result<Result<Option<Chunk>, HostError>> {
        match *self.table.get(&completion)? {}
    }

    fn drop(&mut self, completion: Resource<Completion>) -> wasmtime::Result<()> {
        match self.table.delete(completion)? {}
    }
}
