//! A folder of skills that changes while somebody uses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::limits::LimitError;
use skillrun::outcome::OutcomeCode;
use skillrun::registry::{self, Registry, SkillSet, Watcher};
use skillrun::runner::{
    Caller, Executor, ExecutorError, JsonObject, RunContext, RunProfile, Runner, RunnerOptions,
    SkillExecutor, SkillExecutorOptions, StartOptions, Terms, ToolCallResult,
};
use skillrun_test_artifacts::GREET;

use super::SkillsDir;
use crate::executor::PATIENT;
use crate::harness::Home;

/// How long a change may take to be seen before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until what is published is as wanted.
async fn until(skills: &SkillSet, what: &str, is_so: impl Fn(&SkillSet) -> bool) {
    let mut skills = skills.clone();
    let seen = tokio::time::timeout(PATIENCE, async {
        while !is_so(&skills) {
            assert!(skills.changed().await, "the watcher is gone");
        }
    });
    seen.await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

fn has(name: &'static str) -> impl Fn(&SkillSet) -> bool {
    move |skills| skills.current().get(name).is_some()
}

fn body_is(name: &'static str, body: &'static str) -> impl Fn(&SkillSet) -> bool {
    move |skills| {
        let skill = skills.current().get(name);
        skill.is_some_and(|skill| &*skill.body == body)
    }
}

fn write_body(folder: &Path, name: &str, body: &str) {
    let text = format!("---\nname: {name}\ndescription: d\n---\n{body}");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

#[tokio::test]
async fn skills_that_come_change_and_go_are_seen() {
    let home = tempfile::tempdir().unwrap();
    let skills_dir = home.path().join("skills");
    let watcher = Watcher::start(&skills_dir, Clock::system()).unwrap();
    let skills = watcher.skills();
    assert_eq!(skills.current().skills().len(), 0);

    let dir = SkillsDir::at(&skills_dir);
    let folder = dir.prompt("greet");
    until(&skills, "a new skill", has("greet")).await;
    let old = skills.current();
    write_body(&folder, "greet", "Changed.\n");
    until(&skills, "a change", body_is("greet", "Changed.\n")).await;
    assert_eq!(&*old.get("greet").unwrap().body, "Do greet.\n");

    // A schema in a folder of its own.
    fs::create_dir(folder.join("schemas")).unwrap();
    fs::write(folder.join("schemas/in.json"), "{}").unwrap();
    fs::write(
        folder.join("skill.toml"),
        "schemas.input = 'schemas/in.json'",
    )
    .unwrap();
    let schema = |skills: &SkillSet| {
        let skill = skills.current().get("greet")?;
        skill
            .manifest
            .input_schema
            .as_ref()
            .map(|schema| schema["title"].clone())
    };
    until(&skills, "a schema", |skills| schema(skills).is_some()).await;
    fs::write(folder.join("schemas/in.json"), "{\"title\":\"t\"}").unwrap();
    until(&skills, "a changed schema", |s| {
        schema(s).is_some_and(|t| t == "t")
    })
    .await;

    let name = "greet".parse().unwrap();
    registry::set_enabled(&skills_dir, &name, false).unwrap();
    until(&skills, "a disabled skill", |skills| {
        skills.current().get_disabled("greet").is_some()
    })
    .await;
    registry::remove(&skills_dir, &name).unwrap();
    until(&skills, "a removal", |skills| {
        skills.current().get_disabled("greet").is_none()
    })
    .await;

    // The folder as a whole goes and comes again.
    fs::remove_dir_all(&skills_dir).unwrap();
    let dir = SkillsDir::at(&skills_dir);
    let folder = dir.prompt("second");
    until(&skills, "a skill in a new folder", has("second")).await;
    write_body(&folder, "second", "Changed.\n");
    until(&skills, "a change in it", body_is("second", "Changed.\n")).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_loaded_leaves_the_last_snapshot_and_is_reported() {
    let dir = SkillsDir::new();
    dir.prompt("greet");
    let watcher = Watcher::start(dir.path(), Clock::system()).unwrap();
    let skills = watcher.skills();
    let state = dir.path().join(".state.json");
    fs::write(&state, "{").unwrap();
    until(&skills, "a problem", |skills| skills.problem().is_some()).await;
    assert!(skills.current().get("greet").is_some());
    let problem = skills.problem().unwrap().to_string();
    assert!(problem.contains("damaged state"), "{problem}");
    dir.prompt("other");
    fs::remove_file(&state).unwrap();
    until(&skills, "the other skill", has("other")).await;
    assert!(skills.problem().is_none());
    fs::write(&state, "{").unwrap();
    let refused = Watcher::start(dir.path(), Clock::system());
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_skill_that_was_pinned_and_changes_is_withdrawn_until_it_is_accepted() {
    let dir = SkillsDir::new();
    let folder = dir.prompt("greet");
    let watcher = Watcher::start(dir.path(), Clock::system()).unwrap();
    let skills = watcher.skills();
    let skill = skills.current().get("greet").unwrap();
    assert_eq!(skill.is_pinned(), Some(false));
    skill.pin_on_first_use().unwrap();
    assert_eq!(skill.is_pinned(), Some(true));
    until(&skills, "the pin", |skills| {
        let skill = skills.current().get("greet");
        skill.is_some_and(|skill| skill.is_pinned() == Some(true))
    })
    .await;
    write_body(&folder, "greet", "Changed.\n");
    until(&skills, "the refusal", |skills| {
        let registry = skills.current();
        registry
            .refusal("greet")
            .is_some_and(|error| error.change().is_some())
    })
    .await;
    assert!(skills.current().get("greet").is_none());
    registry::accept(dir.path(), &"greet".parse().unwrap()).unwrap();
    until(&skills, "what was accepted", body_is("greet", "Changed.\n")).await;
}

#[test]
fn skills_of_one_registry_stay_as_they_are() {
    let skills = SkillSet::from(Registry::default());
    assert_eq!(skills.current().skills().len(), 0);
    assert!(skills.problem().is_none());
}

/// Lets a skill be replaced after a run of it is on record and before it is called.
struct Replacing {
    inner: SkillExecutor,
    skills: SkillSet,
    skill_folder: PathBuf,
}

#[async_trait]
impl Executor for Replacing {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        if arguments.as_str().contains("replace") {
            fs::remove_dir_all(&self.skill_folder).unwrap();
            until(&self.skills, "a removal", |skills| {
                skills.current().get("greet").is_none()
            })
            .await;
        }
        self.inner.call_tool(cx, name, arguments).await
    }

    fn profile(&self, name: &str, terms: &Terms) -> Result<RunProfile, LimitError> {
        self.inner.profile(name, terms)
    }
}

#[tokio::test]
async fn a_run_that_has_begun_keeps_the_skill_it_began_with() {
    let home = Home::new(&[GREET]);
    let skills_dir = home.path().join("skills");
    let watcher = Watcher::start(&skills_dir, Clock::system()).unwrap();
    let inner = SkillExecutor::new(SkillExecutorOptions {
        loading: PATIENT,
        instances_max: 4,
        ..SkillExecutorOptions::new(watcher.skills(), Clock::system())
    })
    .unwrap();
    let runner = Runner::new(RunnerOptions {
        store: Store::open(StoreOptions {
            runs_dir: home.path().join("runs"),
            durability: Durability::Relaxed,
            clock: Clock::system(),
        })
        .unwrap(),
        executor: Arc::new(Replacing {
            inner,
            skills: watcher.skills(),
            skill_folder: home.skill("greet"),
        }),
        admission: Admission::default(),
        clock: Clock::system(),
    });
    let run = |name: &str| {
        let input = JsonObject::parse(format!(r#"{{"name":"{name}"}}"#)).unwrap();
        runner.run(Caller::new(), StartOptions::new("greet", input))
    };
    for name in ["warm", "replace"] {
        let outcome = run(name).await.unwrap();
        assert_eq!(outcome.code, OutcomeCode::Ok);
        assert!(outcome.result.output().as_str().contains(name));
    }
    let error = run("late").await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::NotFound, "{error}");
}
