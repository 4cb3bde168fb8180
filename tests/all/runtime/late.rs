//! What only a backend can do that is none: be late, fail, and come back at the wrong moment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillrun::call::TurnStop;
use skillrun::runtime::{
    Backend, BackendError, BackendHealth, CreateRequest, Created, ExecutionFilter, LaunchSpec,
    NoModeTools, Runtime as _, RuntimeError, RuntimeOptions, WasmRuntime, WorkspaceRef,
};

use super::rig::{Kind, Rig, in_time};

/// C45
#[tokio::test]
async fn what_comes_late_of_an_earlier_turn_is_dropped_whole() {
    let rig = Rig::new(Kind::Fake);
    let id = rig.ready().await;
    let first = rig.begin(&id, "permission a").await;
    in_time(rig.runtime().cancel_turn(&id))
        .await
        .unwrap()
        .unwrap();
    in_time(first).await.unwrap().unwrap();
    let second = rig.turn(&id, "late 1\necho b").await;
    assert_eq!(
        (second.generation, second.stop_reason),
        (2, TurnStop::EndTurn)
    );
    rig.stop(&id).await;
}

/// A backend that does nothing but fail.
struct Broken;

#[async_trait]
impl Backend for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    async fn health(&self) -> BackendHealth {
        BackendHealth::Unhealthy("it is broken".to_owned())
    }

    async fn create(&self, _request: CreateRequest) -> Result<Created, BackendError> {
        Err(self.unavailable())
    }

    async fn recover(&self) -> Result<(), BackendError> {
        Err(self.unavailable())
    }

    fn interrupt(&self) {}
}

impl Broken {
    fn unavailable(&self) -> BackendError {
        BackendError::Unavailable {
            name: self.name().to_owned(),
            reason: "it is broken".to_owned(),
        }
    }
}

#[tokio::test]
async fn a_backend_that_fails_hides_no_other_and_leaves_nothing() {
    let rig = Rig::new(Kind::Fake);
    let runtime = WasmRuntime::new(RuntimeOptions {
        runner: rig.host.runner().clone(),
        backends: vec![
            Arc::new(Broken),
            Arc::new(super::fake::Fake::new(rig.host.store().clone())),
        ],
        default_backend: "broken".to_owned(),
        mode_tools: Arc::new(NoModeTools),
        workspaces_dir: rig.home.path().join("workspaces"),
        workspaces: Vec::new(),
        executions_max: 1,
        grace: Duration::from_millis(10),
        retention: Duration::ZERO,
    });
    let left = rig
        .home
        .path()
        .join("workspaces/exec_0190a0a0a0a07000800000000000abcd_1");
    std::fs::create_dir_all(&left).unwrap();
    let recovered = runtime.recover().await;
    let outcomes: Vec<_> = recovered
        .iter()
        .map(|one| (one.name.as_str(), one.outcome.is_ok()))
        .collect();
    assert_eq!(outcomes, [("broken", false), ("fake", true)]);
    assert!(!left.exists());
    // With room for one only: what failed takes none.
    for _ in 0..3 {
        let spec = LaunchSpec {
            workspace: WorkspaceRef {
                is_ephemeral: true,
                ..WorkspaceRef::default()
            },
            ..rig.spec()
        };
        let failed = in_time(runtime.launch(spec)).await;
        assert!(
            matches!(failed, Err(RuntimeError::Launch { .. })),
            "{failed:?}"
        );
    }
    let workspaces = rig.home.path().join("workspaces");
    crate::harness::eventually("the removal of folders", || {
        (std::fs::read_dir(&workspaces).unwrap().count() == 0).then_some(())
    });
    let listed = runtime
        .list_executions(ExecutionFilter::default())
        .await
        .unwrap();
    assert_eq!(listed.executions, []);
    let spec = LaunchSpec {
        executor_id: "fake".to_owned(),
        ..rig.spec()
    };
    let launched = in_time(runtime.launch(spec.clone())).await.unwrap();
    let full = in_time(runtime.launch(spec)).await;
    assert!(
        matches!(full, Err(RuntimeError::Full { executions_max: 1 })),
        "{full:?}"
    );
    in_time(runtime.stop(&launched.id.to_string(), ""))
        .await
        .unwrap();
}
