//! A home with a tool server that counts its effects and a stand-in for a model, and runs in it that are
//! killed and resumed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Home, Ran, Running, eventually};
use crate::wit::triage::Model;

/// When in a call the tool server kills the process that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    After,
}

/// Runs that can be killed.
pub(super) struct Killable {
    pub(super) home: Home,
    model: Model,
    /// The skill that runs.
    skill: String,
    /// More of `config.toml`.
    more: String,
}

impl Killable {
    /// In a home in which the skill is installed already.
    pub(super) fn of(home: Home, skill: &str, more: &str) -> Self {
        let killable = Self {
            home,
            model: Model::start(),
            skill: skill.to_owned(),
            more: more.to_owned(),
        };
        File::create(killable.effects_file()).unwrap();
        killable.configure(None);
        killable
    }

    /// Writes config.toml; with a moment, the tool server kills whoever starts it in that call of it.
    pub(super) fn configure(&self, moment: Option<(Moment, usize)>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = vec![
            json!(root.join("target/toolchains/python/bin/python")),
            json!("-I"),
            json!(root.join("tests/all/resume/counting.py")),
            json!(self.effects_file()),
        ];
        if let Some((moment, number)) = moment {
            let moment = match moment {
                Moment::Before => "before",
                Moment::After => "after",
            };
            command.extend([json!(moment), json!(number.to_string())]);
        }
        let (command, url) = (json!(command), self.model.url());
        let more = &self.more;
        self.home.configure(&format!(
            r#"
[capabilities]
grant = ["tool:tickets__*", "llm:local/*", "approval"]
[mcp_servers.tickets]
command = {command}
[model_providers.local]
api = "openai"
url = "{url}"
prices."small" = {{ input = 1.0, output = 10.0 }}
[model_aliases]
default = "local/small"
{more}
"#
        ));
    }

    fn effects_file(&self) -> PathBuf {
        self.home.path().join("effects")
    }

    /// How often each effect happened, by tool and arguments, once no tool server is left that could have
    /// one more.
    pub(super) fn effects(&self) -> BTreeMap<String, usize> {
        let file = File::open(self.effects_file()).unwrap();
        eventually("the end of the tool servers", || file.try_lock().ok());
        let mut effects = BTreeMap::new();
        for effect in self.effects_in_order() {
            *effects.entry(effect).or_default() += 1;
        }
        effects
    }

    /// The effects so far, the oldest first.
    pub(super) fn effects_in_order(&self) -> Vec<String> {
        let text = fs::read_to_string(self.effects_file()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs the skill to its end, or to where the tool server kills it.
    pub(super) fn run(&self, run_id: &str, input: &Value) -> Ran {
        self.start(run_id, input).end()
    }

    pub(super) fn start(&self, run_id: &str, input: &Value) -> Running {
        let (skill, input) = (self.skill.as_str(), input.to_string());
        let words = [
            "run", skill, "--json", "--run-id", run_id, "--input", &input,
        ];
        self.home.start(&words)
    }

    /// Makes it so that the run was killed after so many lines of its ledger, with these effects.
    pub(super) fn cut(&self, run_id: &str, ledger: &[&str], effects: &[&str]) {
        let runs = self.home.path().join("runs");
        fs::remove_dir_all(&runs).unwrap();
        DirBuilder::new().mode(0o700).create(&runs).unwrap();
        let whole = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect();
        let (ledger, effects): (String, String) = (whole(ledger), whole(effects));
        fs::write(self.home.ledger(run_id), ledger).unwrap();
        fs::write(self.effects_file(), effects).unwrap();
    }

    /// Goes on with a run.
    pub(super) fn resume(&self, run_id: &str, more: &[&str]) -> Ran {
        let resume = ["runs", "resume", run_id, "--json"];
        self.home.skillrun(&[&resume[..], more].concat())
    }

    /// Goes on with a run until it ends, and makes calls again where nobody knows. Whether that was so.
    #[track_caller]
    pub(super) fn resume_to_the_end(&self, run_id: &str) -> (Value, bool) {
        let ran = self.resume(run_id, &[]);
        if ran.exit == Some(0) {
            return (ran.json(), false);
        }
        assert_eq!(ran.json()["code"], "ambiguous_call", "{ran:?}");
        let ran = self.resume(run_id, &["--retry-ambiguous"]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        (ran.json(), true)
    }

    /// The code and the status of the run's newest end.
    pub(super) fn end(&self, run_id: &str) -> (Value, Value) {
        let ends = self.home.events_of(run_id, "run_completed");
        let payload = &ends.last().unwrap()["payload"];
        (payload["status"].clone(), payload["code"].clone())
    }

    #[track_caller]
    pub(super) fn verifies(&self, run_id: &str) {
        let verified = self.home.skillrun(&["runs", "verify", run_id]);
        assert_eq!(verified.exit, Some(0), "{verified:?}");
    }
}
