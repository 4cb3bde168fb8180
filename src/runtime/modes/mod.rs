//! The tools that agents have in each mode, beside those of servers and of the embedding host.
//!
//! | mode | for | tools |
//! |---|---|---|
//! | `task` | work that is divided up | [`TASK_TOOLS`] |
//! | `config` | looking after skills and limits | [`CONFIG_TOOLS`] |
//! | `office` | plans, documents and decisions | [`OFFICE_TOOLS`] |
//!
//! A mode offers, the policy allows: of these an agent may call what its manifest asks for and the operator granted,
//! by `tool:` and the name, as of any other tool. What else it takes, such as `skill:` for a run, it has to have too.
//! An answer is one text with JSON in it; one that is an error has a stable word under `error`, see [`RefusalCode`].
//!
//! Whatever a tool must not do twice is on record before it is done, so that a call which was cut off goes on where
//! it was.

mod agents;
mod children;
mod conversation;
mod documents;
mod documents_folder;
mod settings;
mod settings_host;
mod skill;
mod tool;

pub use self::children::{
    ANSWER_BYTES_MAX, Child, ChildSpec, ChildStopped, ChildTurn, Children, RuntimeChildren,
};
pub use self::documents_folder::{DOCUMENT_BYTES_MAX, DOCUMENTS_MAX};
pub use self::settings::{Settings, SettingsRequest};
pub use self::settings_host::{Host, HostSettings};
pub use self::tool::{Refusal, RefusalCode};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::tool::ModeTool;
use super::mode::{Mode, ModeTools};
use crate::id::ExecutionId;
use crate::runner::ToolSurface;
use crate::tools::{ToolNameError, Toolbox};

/// The names of the tools of the mode `task`.
pub const TASK_TOOLS: [&str; 7] = [
    "skillrun__ask_user",
    "skillrun__launch_agent",
    "skillrun__list_agents",
    "skillrun__prompt_agent",
    "skillrun__run_skill",
    "skillrun__stop_agent",
    "skillrun__update_plan",
];

/// The names of the tools of the mode `config`.
pub const CONFIG_TOOLS: [&str; 7] = [
    "skillrun__disable_skill",
    "skillrun__enable_skill",
    "skillrun__get_limits",
    "skillrun__inspect_skill",
    "skillrun__list_skills",
    "skillrun__reload_skills",
    "skillrun__set_limit",
];

/// The names of the tools of the mode `office`.
pub const OFFICE_TOOLS: [&str; 6] = [
    "skillrun__ask_user",
    "skillrun__list_documents",
    "skillrun__read_document",
    "skillrun__record_decision",
    "skillrun__update_plan",
    "skillrun__write_document",
];

/// What the tools of modes work on.
#[derive(Clone)]
pub struct ModeParts {
    /// The executions that agents launch.
    pub children: Arc<dyn Children>,
    /// Skills and limits.
    pub settings: Arc<dyn Settings>,
    /// Where the documents of executions are kept, each in a folder of its own.
    pub documents_dir: PathBuf,
}

impl ModeParts {
    /// Those of this process. `host` may come into being later than the parts.
    pub fn of_host(host: Arc<dyn Host>, documents_dir: PathBuf) -> Self {
        Self {
            children: Arc::new(RuntimeChildren::new(Arc::clone(&host))),
            settings: Arc::new(HostSettings::new(host)),
            documents_dir,
        }
    }
}

/// The tools of every mode, the same for all executions: which one it is, a tool learns from its call.
pub struct ModeToolset {
    task: Toolbox,
    config: Toolbox,
    office: Toolbox,
}

impl ModeToolset {
    /// Makes them.
    ///
    /// # Errors
    /// A tool cannot be offered.
    pub fn new(parts: &ModeParts) -> Result<Self, ToolNameError> {
        Ok(Self {
            task: toolbox(task_tools(&parts.children))?,
            config: toolbox(settings::tools(&parts.settings))?,
            office: toolbox(office_tools(&parts.documents_dir))?,
        })
    }
}

fn toolbox(tools: Vec<ModeTool>) -> Result<Toolbox, ToolNameError> {
    let add = |toolbox: Toolbox, tool| toolbox.with_host_tool(Arc::new(tool));
    tools.into_iter().try_fold(Toolbox::new(), add)
}

fn task_tools(children: &Arc<dyn Children>) -> Vec<ModeTool> {
    vec![
        conversation::ask_user(),
        conversation::update_plan(),
        skill::run_skill(),
        agents::launch_agent(children),
        agents::prompt_agent(children),
        agents::stop_agent(children),
        agents::list_agents(children),
    ]
}

fn office_tools(documents_dir: &Path) -> Vec<ModeTool> {
    vec![
        conversation::ask_user(),
        conversation::update_plan(),
        conversation::record_decision(),
        documents::list_documents(documents_dir),
        documents::read_document(documents_dir),
        documents::write_document(documents_dir),
    ]
}

impl ModeTools for ModeToolset {
    fn surface(&self, mode: Mode, _execution: &ExecutionId) -> ToolSurface {
        let tools = match mode {
            Mode::Task => &self.task,
            Mode::Config => &self.config,
            Mode::Office => &self.office,
        };
        ToolSurface {
            mode: mode.as_str().to_owned(),
            tools: tools.clone(),
        }
    }
}
