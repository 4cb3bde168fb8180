use serde::de::IgnoredAny;
use wasmtime::component::Resource;

use crate::call::Usage;
use crate::executor::bindings::skillrun::skill::recorder::{Event, Host, HostNode, RecordError};
use crate::executor::guest_record::{EVENT_BYTES_MAX, EmitError, NAME_BYTES_MAX, Node};
use crate::executor::run_host::{GuestEvent, RecordRefused};
use crate::executor::state::HostState;

impl Host for HostState {
    fn emit(&mut self, event: Event) -> wasmtime::Result<Result<u32, RecordError>> {
        let event = match checked(&event) {
            Ok(event) => event,
            Err(invalid) => return Ok(Err(invalid)),
        };
        if let GuestEvent::LlmCall {
            prompt_tokens,
            output_tokens,
            cost_usd,
            ..
        } = event
        {
            self.record.budget().spend_on_models(&Usage {
                input_tokens: prompt_tokens,
                output_tokens,
                cost_usd,
                ..Usage::default()
            })?;
        }
        match self.record.emit(event) {
            Ok(seq) => Ok(Ok(u32::try_from(seq).unwrap_or(u32::MAX))),
            Err(error) => convert_error(error).map(Err),
        }
    }
}

impl HostNode for HostState {
    fn new(&mut self, name: String) -> wasmtime::Result<Resource<Node>> {
        let node = self.record.enter(&name)?;
        Ok(self.table.push(node)?)
    }

    fn id(&mut self, node: Resource<Node>) -> wasmtime::Result<String> {
        Ok(self.table.get(&node)?.id().to_owned())
    }

    fn end(&mut self, node: Resource<Node>, success: bool) -> wasmtime::Result<()> {
        self.table.get_mut(&node)?.end(success);
        Ok(())
    }

    fn drop(&mut self, node: Resource<Node>) -> wasmtime::Result<()> {
        self.table.delete(node)?.end(false);
        Ok(())
    }
}

/// The event as the host keeps it, once every field that should be JSON has been found to be.
fn checked(event: &Event) -> Result<GuestEvent<'_>, RecordError> {
    Ok(match event {
        Event::ToolCall(call) => GuestEvent::ToolCall {
            call_id: &call.call_id,
            name: &call.name,
            arguments: json("arguments", &call.arguments)?,
        },
        Event::ToolResult(result) => GuestEvent::ToolResult {
            call_id: &result.call_id,
            output: &result.output,
            is_error: result.is_error,
        },
        Event::LlmCall(call) if !call.cost_usd.is_finite() || call.cost_usd < 0.0 => {
            let reason = format!("cost-usd is {}: expected 0 or more", call.cost_usd);
            return Err(RecordError::Invalid(reason));
        }
        Event::LlmCall(call) => GuestEvent::LlmCall {
            model: &call.model,
            provider: &call.provider,
            prompt_tokens: call.prompt_tokens.into(),
            output_tokens: call.output_tokens.into(),
            cost_usd: call.cost_usd,
        },
        Event::StructuredOutput(structured) => GuestEvent::StructuredOutput {
            schema_digest: &structured.schema_digest,
            output: json("output", &structured.output)?,
        },
        Event::Error(message) => GuestEvent::Error { message },
        Event::Custom(custom) => GuestEvent::Custom {
            name: &custom.name,
            payload: json("payload", &custom.payload)?,
        },
    })
}

fn json<'a>(field: &str, text: &'a str) -> Result<&'a str, RecordError> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(IgnoredAny) => Ok(text),
        Err(error) => Err(RecordError::Invalid(format!(
            "{field} is not JSON: {error}"
        ))),
    }
}

/// What the guest is told. A record that cannot be written ends the run instead.
fn convert_error(error: EmitError) -> wasmtime::Result<RecordError> {
    Ok(match error {
        EmitError::NameTooLong => RecordError::Invalid(format!(
            "a name or an id is longer than {NAME_BYTES_MAX} bytes"
        )),
        EmitError::TooLarge => {
            RecordError::TooLarge(u32::try_from(EVENT_BYTES_MAX).unwrap_or(u32::MAX))
        }
        EmitError::Exhausted => RecordError::Exhausted,
        EmitError::Refused(RecordRefused::Invalid { reason }) => RecordError::Invalid(reason),
        EmitError::Refused(RecordRefused::Unavailable) => {
            return Err(RecordRefused::Unavailable.into());
        }
    })
}
