//! A home with the agent of the tests, and a runtime over it.

use std::path::Path;

use anyhow::Result;
use skillrun::Skillrun;
use skillrun::config::{Config, Durability};
use skillrun::registry::{Registry, Skill};
use skillrun::runtime::{LaunchSpec, Runtime as _, WasmRuntime};
use skillrun_test_artifacts::{PROBE, PROBE_AGENT};

pub(crate) struct Place {
    pub(crate) host: Skillrun,
}

impl Place {
    /// With room for so many executions.
    pub(crate) fn new(home: &Path, executions_max: usize) -> Result<Self> {
        let mut config = Config::load(home)?;
        config.durability = Durability::Relaxed;
        config.runtime.executions_max = executions_max;
        let skills = [PROBE_AGENT, PROBE].map(|guest| Skill::from_wasm(guest.wasm.as_ref()));
        let [agent, skill] = skills;
        let host = Skillrun::builder(config)
            .skills(Registry::of([agent?, skill?]))
            .build()?;
        Ok(Self { host })
    }

    pub(crate) fn runtime(&self) -> &WasmRuntime {
        self.host.runtime()
    }

    /// Launches the agent, and gives the id of its execution, when it is ready.
    pub(crate) async fn ready(&self) -> Result<String> {
        let spec = LaunchSpec {
            agent_profile_id: "probe-agent".to_owned(),
            ..LaunchSpec::default()
        };
        let launched = self.runtime().launch(spec).await?;
        let id = launched.id.to_string();
        let mut events = self.runtime().subscribe_events(&id, None).await?;
        while let Some(event) = events.next().await? {
            if matches!(event.kind, skillrun::runtime::EventKind::BootReady) {
                break;
            }
        }
        Ok(id)
    }
}
