//! Many executions, one after the other: nothing is left of them.

use std::fs;

use skillrun::runtime::{LaunchSpec, WorkspaceRef};

use super::rig::{Kind, Rig, Settings, in_time};
use crate::harness::eventually;

/// Executions before anything is counted: pools, threads and caches are what they stay by then.
const WARM: usize = 50;
const CYCLES: usize = 1_000;
/// Bytes that memory may differ by: allocators keep pages, and other tests of this process take some.
const MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Descriptors of files in this home; others belong to other tests.
fn descriptors(rig: &Rig) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets
        .filter(|target| target.starts_with(rig.home.path()))
        .count()
}

/// C47, the second half.
async fn cycle(rig: &Rig, times: usize) {
    for _ in 0..times {
        let spec = LaunchSpec {
            workspace: WorkspaceRef {
                is_ephemeral: true,
                ..WorkspaceRef::default()
            },
            ..rig.spec()
        };
        let launched = in_time(rig.runtime().launch(spec)).await.unwrap();
        in_time(rig.runtime().stop(&launched.id.to_string(), "enough"))
            .await
            .unwrap();
    }
}

async fn leave_nothing(kind: Kind) {
    let settings = Settings {
        retention: std::time::Duration::ZERO,
        ..Settings::default()
    };
    let rig = Rig::with(kind, settings);
    cycle(&rig, WARM).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let (tasks_before, descriptors_before) = (tasks(), descriptors(&rig));
    let memory_before = resident_bytes();
    cycle(&rig, CYCLES).await;
    eventually("the ends of tasks", || {
        (tasks() <= tasks_before).then_some(())
    });
    eventually("the return of descriptors", || {
        (descriptors(&rig) <= descriptors_before).then_some(())
    });
    let grown = resident_bytes().saturating_sub(memory_before);
    assert!(grown <= MEMORY_BYTES_MAX, "{grown} bytes more");
    let workspaces = fs::read_dir(rig.home.path().join("workspaces")).unwrap();
    assert_eq!(workspaces.count(), 0);
    assert_eq!(rig.home.run_ids().len(), WARM + CYCLES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_executions_leave_nothing_in_this_process() {
    leave_nothing(Kind::InProcess).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_executions_leave_nothing_in_the_runtime() {
    leave_nothing(Kind::Fake).await;
}
