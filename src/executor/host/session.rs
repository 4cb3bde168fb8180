use crate::call;
use crate::executor::bindings::agent::skillrun::skill::session::{
    Host, HostError, PermissionOption, PlanStatus, Update,
};
use crate::executor::guest_record::{EVENT_BYTES_MAX, EmitError, NAME_BYTES_MAX};
use crate::executor::run_host::RecordRefused;
use crate::executor::state::HostState;

impl Host for HostState {
    async fn emit(&mut self, update: Update) -> wasmtime::Result<Result<(), HostError>> {
        match self.record.tell(&converted(update)) {
            Ok(()) => Ok(Ok(())),
            Err(error) => refused(error).map(Err),
        }
    }

    async fn request_permission(
        &mut self,
        title: String,
        options: Vec<PermissionOption>,
        details: String,
    ) -> wasmtime::Result<Result<String, HostError>> {
        self.take_host_calls(1)?;
        let options = options.into_iter();
        let request = call::PermissionRequest {
            title,
            options: options
                .map(|option| call::PermissionOption {
                    id: option.id,
                    label: option.label,
                })
                .collect(),
            details,
        };
        let chosen = self.record.host().provided().ask_permission(request).await;
        self.answered(chosen)
    }
}

fn converted(update: Update) -> call::SessionUpdate {
    match update {
        Update::MessageChunk(text) => call::SessionUpdate::MessageChunk { text },
        Update::Reasoning(text) => call::SessionUpdate::Reasoning { text },
        Update::Plan(entries) => {
            let entries = entries.into_iter().map(|entry| call::PlanEntry {
                description: entry.description,
                status: match entry.status {
                    PlanStatus::Pending => call::PlanStatus::Pending,
                    PlanStatus::InProgress => call::PlanStatus::InProgress,
                    PlanStatus::Completed => call::PlanStatus::Completed,
                    PlanStatus::Failed => call::PlanStatus::Failed,
                },
                priority: entry.priority,
            });
            call::SessionUpdate::Plan {
                entries: entries.collect(),
            }
        }
        Update::ContextWindow((used, size)) => call::SessionUpdate::ContextWindow { used, size },
    }
}

/// What the guest is told of an update that was not told. What it cannot handle ends the execution.
fn refused(error: EmitError) -> wasmtime::Result<HostError> {
    Ok(match error {
        EmitError::TooLarge => {
            HostError::Invalid(format!("update: expected at most {EVENT_BYTES_MAX} bytes"))
        }
        EmitError::NameTooLong => HostError::Invalid(format!(
            "a name in the update: expected at most {NAME_BYTES_MAX} bytes"
        )),
        EmitError::Exhausted => {
            HostError::Exhausted("this execution may write no more events".to_owned())
        }
        EmitError::Refused(RecordRefused::Invalid { reason }) => HostError::Invalid(reason),
        EmitError::Refused(refused @ RecordRefused::Unavailable) => return Err(refused.into()),
    })
}
