use crate::call;
use crate::executor::bindings::skillrun::skill::approval::{Decision, Host, HostError, Question};
use crate::executor::state::HostState;

impl Host for HostState {
    async fn request(
        &mut self,
        question: Question,
    ) -> wasmtime::Result<Result<Decision, HostError>> {
        self.take_host_calls(1)?;
        let question = call::Question {
            prompt: question.prompt,
            payload: question.payload,
            timeout_ms: question.timeout_ms.map(u64::from),
            needs_answer: false,
        };
        let decision = self.record.host().provided().ask_approval(question).await;
        if decision.as_ref().is_ok_and(|decision| !decision.approved) {
            self.record.note_rejection();
        }
        self.answered(decision.map(|decision| Decision {
            approved: decision.approved,
            reason: decision.reason,
            automatic: decision.automatic,
        }))
    }
}
