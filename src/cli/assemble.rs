//! From configuration to the parts that commands work with.

use std::sync::Arc;

use super::exit::Refused;
use super::printer::Printer;
use crate::assembly::{AssemblyError, Builder, Providers, Skillrun};
use crate::clock::Clock;
use crate::config::{Admission, Config};
use crate::ledger::{Store, StoreError, StoreOptions};
use crate::registry::Registry;
use crate::runner::{Caller, EngineError, HttpOptions, SkillExecutor, SkillExecutorOptions};
use crate::telemetry::chain;
use crate::tools::HostTool;
use crate::trace_context::TraceContext;

/// Instances that one command needs at once. A pool of this size costs nothing to make.
const INSTANCES_MAX: usize = 16;

pub(crate) fn store(config: &Config, clock: &Clock) -> Result<Store, StoreError> {
    Store::open(StoreOptions {
        runs_dir: config.runs_dir(),
        durability: config.durability,
        clock: clock.clone(),
    })
}

/// What one command admits: as many runs as there are instances for.
pub(crate) fn admission(config: &Config) -> Admission {
    let at_once_max = 1;
    Admission {
        at_once_max,
        nested_max: config.runs.nested_max.min(INSTANCES_MAX - at_once_max),
        ..config.runs
    }
}

/// Who asks for what a command does: whoever set the variables TRACEPARENT and TRACESTATE, if they are set.
pub(crate) fn caller(printer: Printer) -> Caller {
    let Some(parent) = std::env::var_os("TRACEPARENT").filter(|parent| !parent.is_empty()) else {
        return Caller::new();
    };
    let state = std::env::var("TRACESTATE").ok();
    let trace = parent
        .to_str()
        .and_then(|parent| TraceContext::parse(parent, state.as_deref()).ok());
    if trace.is_none() {
        printer.note("warning: the variable TRACEPARENT is no traceparent, and does not count");
    }
    Caller::new().with_trace(trace)
}

/// Says which skills cannot be run, before somebody asks for one. That there are none at all is most often another
/// home than the one that was meant.
#[cfg(any(feature = "server", feature = "mcp"))]
pub(crate) fn tell_of_skills(host: &Skillrun, printer: Printer) {
    let registry = host.skills().current();
    for refused in registry.refused() {
        tracing::warn!(error = chain(refused), "a skill cannot be used");
    }
    if registry.skills().next().is_none() {
        let home = &host.config().home;
        printer.note(&format!("no skills that can be run in {}", home.display()));
    }
}

/// Everything outside that the operator configured.
pub(crate) fn outside(config: &Config, store: &Store, clock: &Clock) -> anyhow::Result<Providers> {
    let mut outside = Providers::from_config(config, store, clock).map_err(refused)?;
    for tool in host_tools(config) {
        outside.tools = outside.tools.with_host_tool(tool)?;
    }
    Ok(outside)
}

/// The parts that commands work with which go on for long, not yet put together.
pub(crate) fn builder(config: Config) -> Builder {
    let tools = host_tools(&config);
    let builder = Skillrun::builder(config);
    tools.into_iter().fold(builder, Builder::host_tool)
}

/// The tools of this program's own. A run that was begun by any command can be taken up by any other.
#[cfg(feature = "mcp")]
fn host_tools(config: &Config) -> Vec<Arc<dyn HostTool>> {
    crate::mcp::client_tools(config.mcp.input_timeout())
}

#[cfg(not(feature = "mcp"))]
fn host_tools(_config: &Config) -> Vec<Arc<dyn HostTool>> {
    Vec::new()
}

/// How a run makes requests.
pub(crate) fn http(config: &Config, store: &Store) -> anyhow::Result<HttpOptions> {
    Providers::http(config, store).map_err(refused)
}

/// What the exit code is chosen by: the error of the part that failed.
pub(crate) fn refused(error: AssemblyError) -> anyhow::Error {
    match error {
        AssemblyError::Config(error) => error.into(),
        AssemblyError::Store(error) => error.into(),
        AssemblyError::Registry(error) => error.into(),
        AssemblyError::Engine(error) => error.into(),
        AssemblyError::Secret { .. } => Refused::usage(chain(&error)).into(),
        AssemblyError::Watch(_) | AssemblyError::Tool(_) | AssemblyError::Over => error.into(),
    }
}

/// What carries runs out.
pub(crate) fn executor(
    registry: Registry,
    config: &Config,
    clock: &Clock,
    outside: Providers,
) -> Result<SkillExecutor, EngineError> {
    SkillExecutor::new(SkillExecutorOptions {
        instances_max: INSTANCES_MAX,
        http: outside.http,
        models: outside.models,
        tools: outside.tools,
        ..SkillExecutorOptions::from_config(config, registry, clock.clone())
    })
}
