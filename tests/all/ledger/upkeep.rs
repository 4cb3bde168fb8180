//! Runs that are closed after their process, removed, and copied.

use std::time::Duration;

use skillrun::ledger::{ExportError, PruneReport, Retention};

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("index."))
        .collect();
    names.sort();
    names
}

/// A run with a blob and a torn file, ended so.
async fn littered(store: &Store, status: RunStatus, code: OutcomeCode) -> RunId {
    let run_id = RunId::generate();
    let recorder = start(store, &run_id).await;
    let large = log(&"x".repeat(100_000));
    recorder.record(Origin::Guest, &large).unwrap();
    drop(recorder);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(store.path_of(&run_id))
        .unwrap();
    file.write_all(b"{\"half").unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    recorder.record(Origin::Host, &end(status, code)).unwrap();
    run_id
}

#[tokio::test]
async fn c25_after_a_start_no_run_goes_on_that_nobody_carries_out() {
    let (dir, store) = relaxed();
    let mut abandoned = Vec::new();
    for n in 0..20 {
        let run_id = RunId::generate();
        drop(start(&store, &run_id).await);
        if n % 3 == 0 {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(store.path_of(&run_id))
                .unwrap();
            let tail: &[u8] = if n % 2 == 0 {
                b"{\"half"
            } else {
                b"\0\0\n\0\0"
            };
            file.write_all(tail).unwrap();
        }
        abandoned.push(run_id);
    }
    let live = start(&store, &RunId::generate()).await;
    let damaged = &abandoned[1];
    let content = fs::read_to_string(store.path_of(damaged)).unwrap();
    let twice = format!("{content}{content}");
    fs::write(store.path_of(damaged), &twice).unwrap();
    let closed = store.close_abandoned().await.unwrap();
    assert_eq!(closed.len(), abandoned.len());
    for run in closed {
        if run.run_id == *damaged {
            assert!(matches!(run.closed, Err(StoreError::Corrupt { .. })));
            assert_eq!(fs::read_to_string(store.path_of(damaged)).unwrap(), twice);
            continue;
        }
        let head = run.closed.unwrap();
        let report = store.verify(&run.run_id, Some(head)).unwrap();
        assert_eq!(
            (report.verdict(), report.phase),
            (Verdict::Ok, Phase::Paused(RunStatus::Interrupted))
        );
        assert_eq!(
            store.summary(&run.run_id).unwrap().code,
            Some(OutcomeCode::Interrupted)
        );
    }
    assert_eq!(torn_files(dir.path()).len(), 7);
    let goes_on = RunQuery {
        state: Some(RunState::Running),
        ..RunQuery::newest(100)
    };
    let running: Vec<RunId> = store
        .list(&goes_on)
        .unwrap()
        .runs
        .into_iter()
        .map(|run| run.run_id)
        .filter(|run_id| run_id != damaged)
        .collect();
    assert_eq!(running, [live.run_id().clone()]);
    live.record(Origin::Host, &log("undisturbed")).unwrap();
    let again = store.close_abandoned().await.unwrap();
    assert_eq!(again.len(), 1, "only the damaged one is met again");
}

#[tokio::test]
async fn a_suspended_run_stays_suspended_also_with_a_torn_end() {
    let (dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let suspended = end(RunStatus::Suspended, OutcomeCode::Interrupted);
    recorder.record(Origin::Host, &suspended).unwrap();
    drop(recorder);
    // Such an end makes a list show the ledger as damaged, and those are looked at as well.
    let mut content = fs::read(store.path_of(&run_id)).unwrap();
    content.extend_from_slice(b"\0\0\n\0\0");
    fs::write(store.path_of(&run_id), &content).unwrap();
    for _ in 0..2 {
        assert!(store.close_abandoned().await.unwrap().is_empty());
        assert_eq!(fs::read(store.path_of(&run_id)).unwrap(), content);
        assert!(torn_files(dir.path()).is_empty());
    }
}

#[tokio::test]
async fn two_who_close_at_once_record_one_end() {
    let (_dir, store) = relaxed();
    for _ in 0..50 {
        drop(start(&store, &RunId::generate()).await);
    }
    let (one, other) = tokio::join!(store.close_abandoned(), store.close_abandoned());
    let (one, other) = (one.unwrap(), other.unwrap());
    let closed = one.iter().chain(&other).filter(|run| run.closed.is_ok());
    assert_eq!(closed.count(), 50);
    for run in store.list(&RunQuery::newest(100)).unwrap().runs {
        let content = fs::read_to_string(store.path_of(&run.run_id)).unwrap();
        assert_eq!(content.matches("\"run_completed\"").count(), 1);
    }
}

#[tokio::test]
async fn what_retention_does_not_keep_goes_with_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000));
    let store = Store::open(StoreOptions {
        runs_dir: dir.path().to_owned(),
        durability: Durability::Relaxed,
        clock: clock.clone(),
    })
    .unwrap();
    let hour = Duration::from_secs(3600);
    let mut ids = Vec::new();
    for (status, code) in [
        (RunStatus::Ok, OutcomeCode::Ok),
        (RunStatus::Suspended, OutcomeCode::Interrupted),
        (RunStatus::Interrupted, OutcomeCode::Interrupted),
        (RunStatus::Error, OutcomeCode::Trap),
        (RunStatus::Ok, OutcomeCode::Ok),
    ] {
        ids.push(littered(&store, status, code).await);
        clock.advance(hour);
    }
    let goes_on = start(&store, &RunId::generate()).await;
    let prune = |retention, rehearsal| store.prune(retention, rehearsal).unwrap();
    let of_age = Retention {
        max_age: Some(hour * 7 / 2),
        ..Retention::default()
    };
    let before = names(dir.path());
    assert_eq!(prune(Retention::default(), false).removed, []);
    let rehearsed = prune(of_age, true);
    assert_eq!(names(dir.path()), before);
    assert_eq!(rehearsed.removed, [ids[0].clone()]);
    assert_eq!(prune(of_age, false), rehearsed);
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name.contains(ids[0].as_str())));
    assert_eq!(left.len(), before.len() - 3);

    // The newest three are the one that goes on and the last two; a suspended one waits for somebody.
    let of_number = Retention {
        max_runs: Some(3),
        ..Retention::default()
    };
    let PruneReport { removed, kept, .. } = prune(of_number, false);
    assert_eq!((removed, kept), (vec![ids[2].clone()], 4));
    let sizes = prune(Retention::default(), true).kept_bytes;
    let of_size = Retention {
        max_bytes: Some(sizes / 2),
        ..Retention::default()
    };
    assert_eq!(prune(of_size, false).removed, [ids[3].clone()]);
    let listed = store.list(&RunQuery::newest(10)).unwrap();
    let left: Vec<&RunId> = listed.runs.iter().map(|run| &run.run_id).collect();
    assert_eq!(left, [goes_on.run_id(), &ids[4], &ids[1]]);
    let refused = store.summary(&ids[0]);
    assert!(matches!(refused, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_removal_that_was_cut_off_anywhere_is_finished() {
    let everything = Retention {
        max_runs: Some(0),
        ..Retention::default()
    };
    // The names that the cut-off removal has not come to.
    for left in 0..=3 {
        let (dir, store) = relaxed();
        let run_id = littered(&store, RunStatus::Ok, OutcomeCode::Ok).await;
        let pruned = dir.path().join(format!("{run_id}.pruned"));
        fs::rename(store.path_of(&run_id), &pruned).unwrap();
        let blobs = dir.path().join(format!("{run_id}.blobs"));
        if left < 3 {
            fs::remove_file(&torn_files(dir.path())[0]).unwrap();
        }
        if left < 2 {
            for blob in fs::read_dir(&blobs).unwrap() {
                fs::remove_file(blob.unwrap().path()).unwrap();
            }
        }
        if left < 1 {
            fs::remove_dir(&blobs).unwrap();
        }
        assert!(store.list(&RunQuery::newest(10)).unwrap().runs.is_empty());
        if left % 2 == 0 {
            store.prune(everything, false).unwrap();
        } else {
            store.close_abandoned().await.unwrap();
        }
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
    // A run of the same id that came since keeps what is its own.
    let (dir, store) = relaxed();
    let run_id = littered(&store, RunStatus::Ok, OutcomeCode::Ok).await;
    let pruned = dir.path().join(format!("{run_id}.pruned"));
    fs::copy(store.path_of(&run_id), &pruned).unwrap();
    store.close_abandoned().await.unwrap();
    assert!(!pruned.exists());
    assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
}

#[tokio::test]
async fn an_export_is_one_file_with_every_value_in_its_place() {
    let (dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let text = "ß\n\"\u{1b}".repeat(50_000);
    let output = Json::parse(&format!("[{}]", vec!["1e400"; 20_000].join(","))).unwrap();
    recorder.record(Origin::Guest, &log(&text)).unwrap();
    let done = RunCompleted {
        output: Some(output.clone()),
        ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
    };
    recorder.record(Origin::Host, &done.into()).unwrap();
    let mut out = Vec::new();
    assert_eq!(store.export(&run_id, &mut out).unwrap(), 3);
    let exported = String::from_utf8(out).unwrap();
    let ledger = fs::read_to_string(store.path_of(&run_id)).unwrap();
    let (exported, ledger): (Vec<&str>, Vec<&str>) =
        (exported.lines().collect(), ledger.lines().collect());
    assert_eq!(exported[0], ledger[0]);
    assert!(exported[2].contains(output.as_str()));
    let parsed: serde_json::Value = serde_json::from_str(exported[1]).unwrap();
    assert_eq!(parsed["payload"]["message"], text.as_str());
    let stored: serde_json::Value = serde_json::from_str(ledger[1]).unwrap();
    assert_eq!(parsed["prev"], stored["prev"]);

    fs::remove_dir_all(dir.path().join(format!("{run_id}.blobs"))).unwrap();
    let missing = store.export(&run_id, &mut Vec::new());
    assert!(matches!(
        missing,
        Err(ExportError::Store(StoreError::Blob { .. }))
    ));
    put(&dir, b"damaged\n");
    let damaged = store.export(&id(GOLDEN_ID), &mut Vec::new());
    assert!(matches!(damaged, Err(ExportError::Damaged { .. })));
}

#[tokio::test]
async fn a_file_that_cannot_be_removed_stops_nothing_else() {
    let (dir, store) = relaxed();
    let mut retired = Vec::new();
    for _ in 0..3 {
        let run_id = littered(&store, RunStatus::Ok, OutcomeCode::Ok).await;
        let pruned = dir.path().join(format!("{run_id}.pruned"));
        fs::rename(store.path_of(&run_id), pruned).unwrap();
        retired.push(run_id);
    }
    // A folder is no blob, and is not removed as one.
    for run_id in &retired[..2] {
        fs::create_dir(dir.path().join(format!("{run_id}.blobs/stray"))).unwrap();
    }
    let abandoned = RunId::generate();
    drop(start(&store, &abandoned).await);
    let closed = store.close_abandoned().await.unwrap();
    assert!(matches!(&closed[..], [run] if run.run_id == abandoned && run.closed.is_ok()));
    let left = names(dir.path());
    let has = |run_id: &RunId| left.iter().any(|name| name.contains(run_id.as_str()));
    assert_eq!(
        retired.iter().map(has).collect::<Vec<_>>(),
        [true, true, false]
    );
    // Whoever asked for the removal is told, and can finish it later.
    let refused = store.prune(Retention::default(), false);
    assert!(matches!(refused, Err(StoreError::Io { .. })));
    for run_id in &retired[..2] {
        fs::remove_dir(dir.path().join(format!("{run_id}.blobs/stray"))).unwrap();
    }
    store.prune(Retention::default(), false).unwrap();
    assert_eq!(names(dir.path()), [format!("{abandoned}.jsonl")]);
}

#[tokio::test]
async fn two_who_finish_a_removal_at_once_both_succeed() {
    for _ in 0..20 {
        let (dir, store) = relaxed();
        for _ in 0..10 {
            let run_id = littered(&store, RunStatus::Ok, OutcomeCode::Ok).await;
            let pruned = dir.path().join(format!("{run_id}.pruned"));
            fs::rename(store.path_of(&run_id), pruned).unwrap();
        }
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    barrier.wait();
                    store.prune(Retention::default(), false).unwrap();
                });
            }
        });
        assert!(names(dir.path()).is_empty());
    }
}
