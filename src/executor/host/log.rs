use crate::executor::bindings::skillrun::skill::log::{Host, Level};
use crate::executor::run_host::{LogLevel, LogOrigin};
use crate::executor::state::HostState;

impl Host for HostState {
    fn write(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            Level::Trace => LogLevel::Trace,
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.record
            .log(level, LogOrigin::Interface, &message, &fields)?;
        Ok(())
    }
}
