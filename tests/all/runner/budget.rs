//! Runs inside a run draw on its budget, with real guests doing the drawing.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::executor::{Call, Engine, EngineOptions, HttpOptions, Unrecorded};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::limits::{Budget, LimitError, LimitKey, LimitOverrides, Limits, Source};
use skillrun::outcome::OutcomeCode;
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, Executor, ExecutorError, JsonObject, RunContext, RunError, RunProfile, Runner,
    RunnerOptions, SkillExecutor, SkillExecutorOptions, StartOptions, Terms, ToolCallResult,
};
use skillrun_test_artifacts::PROBE;
use tempfile::TempDir;

use crate::executor::PATIENT;

/// Runs the skill `outer` by running `probe` with each of the inputs in turn, until one fails; every
/// other skill is the engine's.
struct Outer {
    skills: SkillExecutor,
    runner: Arc<OnceLock<Runner>>,
    /// What the outer run may use.
    limits: LimitOverrides,
}

#[async_trait]
impl Executor for Outer {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        if name != "outer" {
            return self.skills.call_tool(cx, name, arguments).await;
        }
        let input: Value = serde_json::from_str(arguments.as_str()).unwrap();
        for verb in input["verbs"].as_array().unwrap() {
            let input = JsonObject::parse(verb.to_string()).unwrap();
            let runner = self.runner.get().unwrap();
            let inner = StartOptions::new("probe", input);
            match runner.run(Caller::within(cx), inner).await {
                Ok(_) => {}
                Err(RunError::Failed(failed)) => return Err(failed.error),
                Err(error) => panic!("{error}"),
            }
        }
        Ok(ToolCallResult::text("done"))
    }

    fn profile(&self, name: &str, terms: &Terms) -> Result<RunProfile, LimitError> {
        if name != "outer" {
            return self.skills.profile(name, terms);
        }
        let limits = Limits::default().with(Source::Config, &self.limits)?;
        Ok(RunProfile {
            limits: Arc::new(limits),
            ..RunProfile::default()
        })
    }
}

fn runner(limit: (&str, i64)) -> (Runner, TempDir) {
    runner_of(limit, Admission::default())
}

fn runner_of(limit: (&str, i64), admission: Admission) -> (Runner, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let registry = Registry::of([Skill::from_wasm(PROBE.wasm.as_ref()).unwrap()]);
    let options = SkillExecutorOptions {
        loading: PATIENT,
        instances_max: 4,
        ..SkillExecutorOptions::new(registry, clock.clone())
    };
    let shared = Arc::new(OnceLock::new());
    let runner = Runner::new(RunnerOptions {
        store: Store::open(StoreOptions {
            runs_dir: folder.path().to_owned(),
            durability: Durability::Relaxed,
            clock: clock.clone(),
        })
        .unwrap(),
        executor: Arc::new(Outer {
            skills: SkillExecutor::new(options).unwrap(),
            runner: Arc::clone(&shared),
            limits: LimitOverrides::from([(limit.0.to_owned(), limit.1)]),
        }),
        admission,
        clock,
    });
    shared.set(runner.clone()).ok().unwrap();
    (runner, folder)
}

/// Each of two runs inside keeps within its own limits; together they exceed those of the run above.
#[tokio::test]
async fn what_runs_inside_use_counts_for_the_run_above() {
    for (limit, verb, code) in [
        (
            ("host_calls", 30),
            json!({ "verb": "tool_flood", "calls": 20 }),
            OutcomeCode::HostCallLimit,
        ),
        (
            ("llm_tokens", 1_500),
            json!({ "verb": "report_model", "tokens": 1_000, "cost_usd": 0.0 }),
            OutcomeCode::HostCallLimit,
        ),
        (
            ("llm_cost_microusd", 1_500),
            json!({ "verb": "report_model", "tokens": 1, "cost_usd": 0.001 }),
            OutcomeCode::HostCallLimit,
        ),
        (
            ("fuel", 3_000_000),
            json!({ "verb": "emit_flood", "events": 2_000 }),
            OutcomeCode::FuelLimit,
        ),
        (
            ("cpu_time_ms", 150),
            json!({ "verb": "spin" }),
            OutcomeCode::TimeLimit,
        ),
    ] {
        let (runner, _folder) = runner(limit);
        let verbs = json!({ "verbs": [verb, verb] });
        let input = JsonObject::parse(verbs.to_string()).unwrap();
        let ended = runner
            .run(Caller::new(), StartOptions::new("outer", input))
            .await;
        let Err(RunError::Failed(failed)) = ended else {
            panic!("{limit:?}: {ended:?}");
        };
        assert_eq!(failed.error.code(), code, "{limit:?}: {failed}");
        let message = failed.to_string();
        let expected = format!("{} limit of {} reached (set by config", limit.0, limit.1);
        assert!(message.contains(&expected), "{message}");
        assert!(message.contains("for the run above this one"), "{message}");
    }
}

/// Runs that go on at the same time share what is left: together they execute no more than one might.
#[test]
fn runs_inside_share_their_fuel_also_at_once() {
    let runtime = skillrun::runner::runtime_builder()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let limits = LimitOverrides::from([("fuel".to_owned(), 100_000_000)]);
        let outer = Limits::default().with(Source::Config, &limits).unwrap();
        let outer = Arc::new(Budget::new(Arc::new(outer), None));
        let engine = Engine::new(EngineOptions {
            instances_max: 4,
            limits: Limits::default(),
            loading: PATIENT,
            cache_dir: None,
            http: HttpOptions::default(),
            clock: Clock::system(),
        });
        let bytes = std::fs::read(PROBE.wasm).unwrap();
        let program = engine.unwrap().load("probe", || Ok(bytes)).await.unwrap();
        let spin = || {
            program.call(Call {
                host: Arc::new(Unrecorded::default()),
                policy: Arc::default(),
                protected: Arc::default(),
                budget: Arc::new(Budget::new(Arc::default(), Some(Arc::clone(&outer)))),
                seed: [7; 32],
                environment: Arc::default(),
                operation: None,
                input: r#"{"verb":"log_flood","lines":1000000000,"text":"x"}"#.to_owned(),
                record_only: false,
                workspace_dir: None,
            })
        };
        let (first, second) = tokio::join!(spin(), spin());
        for ended in [first, second] {
            assert_eq!(ended.unwrap_err().code, OutcomeCode::FuelLimit);
        }
        // Each may go on until its next tick.
        let used = outer.used(LimitKey::Fuel);
        assert!(used < 160_000_000, "{used}");
    });
}

/// Case C6: two hundred runs at once wait their turn within a bounded queue; one more is refused. When they
/// are cancelled, those that go on in mid-call and those that wait, every place is free again.
#[test]
fn c6_two_hundred_runs_at_once_are_queued_and_cancelled() {
    let runtime = skillrun::runner::runtime_builder()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let bounds = Admission {
            at_once_max: 4,
            nested_max: 64,
            queue_max: 196,
        };
        let (runner, _folder) = runner_of(("fuel", 1_000_000_000), bounds);
        let start = async |verb: Value| {
            let input = JsonObject::parse(verb.to_string()).unwrap();
            runner
                .start(Caller::new(), StartOptions::new("probe", input))
                .await
        };
        let sleep = json!({ "verb": "sleep", "ms": 3_600_000 });
        let mut runs = Vec::new();
        for _ in 0..200 {
            runs.push(start(sleep.clone()).await.unwrap());
        }
        let refused = start(sleep).await.unwrap_err();
        assert!(matches!(refused, RunError::Busy { .. }), "{refused}");
        for run in &runs {
            run.handle.cancel();
        }
        for run in runs {
            let ended = run.handle.wait().await;
            assert!(
                matches!(ended, Err(RunError::Cancelled { .. })),
                "{ended:?}"
            );
        }
        let next = start(json!({ "verb": "noop" })).await.unwrap();
        assert_eq!(next.handle.wait().await.unwrap().code, OutcomeCode::Ok);
    });
}

/// What is refused to a guest instead of ending it is refused for the run above as well.
#[tokio::test]
async fn events_of_runs_inside_count_for_the_run_above() {
    let (runner, _folder) = runner(("guest_events", 30));
    let verb = json!({ "verb": "emit_flood", "events": 20 });
    let input = JsonObject::parse(json!({ "verbs": [verb, verb] }).to_string()).unwrap();
    let outer = runner
        .run(Caller::new(), StartOptions::new("outer", input))
        .await
        .unwrap();
    let listing = runner.store().list(&skillrun::ledger::RunQuery {
        parent_run_id: Some(outer.run_id),
        limit: 10,
        ..skillrun::ledger::RunQuery::default()
    });
    let mut written: Vec<u64> = Vec::new();
    for run in listing.unwrap().runs {
        let page = runner.store().read(&run.run_id, 1, 100).unwrap();
        let events = page
            .records()
            .filter(|record| record.line.contains("\"custom\""));
        written.push(u64::try_from(events.count()).unwrap());
    }
    written.sort_unstable();
    assert_eq!(written, [10, 20]);
}
