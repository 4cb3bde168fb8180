//! What becomes of a ledger whose writer was stopped at the wrong moment.

use super::*;

#[tokio::test]
async fn c21_a_ledger_cut_at_any_byte_is_taken_up_after_its_last_whole_line() {
    let golden = GOLDEN.as_bytes();
    let first = GOLDEN.find('\n').unwrap() + 1;
    let run_id = id(GOLDEN_ID);
    for cut in 0..golden.len() {
        let (dir, store) = relaxed();
        put(&dir, &golden[..cut]);
        let recovered = store.recover(&run_id).await;
        let kept = golden[..cut]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        if cut < first {
            assert!(
                matches!(recovered, Err(StoreError::NeverStarted { .. })),
                "{cut}"
            );
            assert_eq!(fs::read(store.path_of(&run_id)).unwrap(), &golden[..cut]);
            continue;
        }
        let recorder = recovered.unwrap();
        let torn: Vec<Vec<u8>> = torn_files(dir.path())
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect();
        let told: Vec<Digest> = reports(&store, &run_id)
            .into_iter()
            .map(|report| report.sha256)
            .collect();
        if kept == cut {
            assert!(torn.is_empty() && told.is_empty(), "{cut}");
        } else {
            assert_eq!(torn, [&golden[kept..cut]], "{cut}");
            assert_eq!(told, [Digest::of(&torn[0])], "{cut}");
        }
        recorder.record(Origin::Guest, &log("goes on")).unwrap();
        let content = fs::read(store.path_of(&run_id)).unwrap();
        assert_eq!(content[..kept], golden[..kept]);
        let report = store.verify(&run_id, Some(recorder.head())).unwrap();
        assert_eq!(report.verdict(), Verdict::Running, "{cut}");
    }
}

#[tokio::test]
async fn a_run_that_never_began_can_begin_under_its_id_and_what_is_torn_is_kept() {
    let golden = GOLDEN.as_bytes();
    let first = GOLDEN.find('\n').unwrap() + 1;
    let run_id = id(GOLDEN_ID);
    for cut in [0, 1, first / 2, first - 1] {
        let (dir, store) = relaxed();
        put(&dir, &golden[..cut]);
        let begun = store.create(run_id.clone(), RunStarted::default()).await;
        let (recorder, _) = begun.unwrap();
        let torn = torn_files(dir.path());
        let told = reports(&store, &run_id);
        assert_eq!(
            (torn.len(), told.len()),
            (usize::from(cut > 0), usize::from(cut > 0)),
            "{cut}"
        );
        if let (Some(torn), Some(told)) = (torn.first(), told.first()) {
            let kept = fs::read(torn).unwrap();
            assert_eq!(kept, &golden[..cut]);
            assert_eq!(told.sha256, Digest::of(&kept));
        }
        let report = store.verify(&run_id, Some(recorder.head())).unwrap();
        assert_eq!(report.verdict(), Verdict::Running, "{cut}");
    }
}

#[tokio::test]
async fn what_began_or_once_had_events_is_not_begun_again() {
    let run_id = id(GOLDEN_ID);
    let first = GOLDEN.find('\n').unwrap() + 1;
    let (dir, store) = relaxed();
    put(&dir, &GOLDEN.as_bytes()[..first]);
    let again = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(again, Err(StoreError::Exists { .. })));
    // The index has seen the lines that are gone then.
    put(&dir, GOLDEN.as_bytes());
    store.list(&RunQuery::newest(1)).unwrap();
    put(&dir, b"");
    let again = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(again, Err(StoreError::Exists { .. })));
}

#[tokio::test]
async fn c21_recovery_can_be_killed_between_any_two_steps() {
    let lines = golden_lines();
    let good = format!("{}\n{}\n", lines[0], lines[1]);
    let half = &lines[2][..40];
    let torn = format!("{GOLDEN_ID}.torn-1");
    // The copy is half written; it is whole and the ledger not cut; it is cut and nothing reported.
    for (copy, content) in [
        (
            Some((format!("{GOLDEN_ID}.torn-new"), &half[..20])),
            format!("{good}{half}"),
        ),
        (Some((torn.clone(), half)), format!("{good}{half}")),
        (Some((torn.clone(), half)), good.clone()),
        (None, format!("{good}{half}")),
    ] {
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, content.as_bytes());
        if let Some((name, bytes)) = copy {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        for _ in 0..2 {
            drop(store.recover(&run_id).await.unwrap());
            assert_eq!(torn_files(dir.path()), [dir.path().join(&torn)]);
            let told = reports(&store, &run_id);
            assert_eq!(told.len(), 1);
            assert_eq!(
                (told[0].file.as_str(), told[0].sha256),
                (&*torn, Digest::of(half.as_bytes()))
            );
            assert_eq!(
                store.verify(&run_id, None).unwrap().verdict(),
                Verdict::Running
            );
        }
        // A second accident gets a copy of its own.
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(store.path_of(&run_id))
            .unwrap();
        file.write_all(half.as_bytes()).unwrap();
        drop(store.recover(&run_id).await.unwrap());
        assert_eq!(torn_files(dir.path()).len(), 2);
        assert_eq!(reports(&store, &run_id).len(), 2);
    }
}

#[tokio::test]
async fn c21_nul_bytes_and_garbage_at_the_end_are_set_aside() {
    let lines = golden_lines();
    let good = format!("{}\n{}\n", lines[0], lines[1]);
    let nuls = vec![0_u8; 5000];
    let lines_of_garbage = b"\x00\xff\n{\"v\":1}\n[]\n{\"half".to_vec();
    for tail in [nuls, lines_of_garbage, b"\n".to_vec(), b"\n\n\n".to_vec()] {
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, &[good.as_bytes(), &tail].concat());
        let report = store.verify(&run_id, None).unwrap();
        assert_eq!(report.verdict(), Verdict::Torn);
        assert_eq!(
            report.torn.map(|torn| torn.bytes),
            u64::try_from(tail.len()).ok()
        );
        drop(store.recover(&run_id).await.unwrap());
        assert_eq!(fs::read(&torn_files(dir.path())[0]).unwrap(), tail);
        assert_eq!(
            store.verify(&run_id, None).unwrap().verdict(),
            Verdict::Running
        );
    }
}

#[tokio::test]
async fn c21_a_torn_end_after_an_interruption_does_not_hinder_the_resumption() {
    let (dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    recorder
        .record(
            Origin::Host,
            &end(RunStatus::Suspended, OutcomeCode::Interrupted),
        )
        .unwrap();
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(store.path_of(&run_id))
        .unwrap();
    file.write_all(b"{\"v\":1,\"run_id").unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    assert_eq!(
        recorder.state().phase(),
        Phase::Paused(RunStatus::Suspended)
    );
    recorder
        .record(Origin::Host, &RunResumed::default().into())
        .unwrap();
    assert_eq!(
        (torn_files(dir.path()).len(), reports(&store, &run_id).len()),
        (1, 1)
    );
}

#[tokio::test]
async fn c22_a_last_line_of_another_version_is_kept_and_counted() {
    let lines = golden_lines();
    let start = format!("{}\n", lines[0]);
    let prev = Digest::of(lines[0].as_bytes());
    for strange in [
        r#""v":1,"type":"hologram","source":"host","payload":{"angle":1e400}"#,
        r#""v":7,"type":"log","source":"guest","color":"red","payload":{"text":"x"}"#,
        r#""v":1,"type":"tool_call","source":"host","payload":{"name":"x"}"#,
    ] {
        let strange = format!(
            r#"{{{strange},"run_id":"{GOLDEN_ID}","seq":2,"time":"2026-05-13T17:02:16Z","prev":"{prev}"}}"#
        );
        let (dir, store) = relaxed();
        let run_id = id(GOLDEN_ID);
        put(&dir, format!("{start}{strange}\n").as_bytes());
        let recorder = store.recover(&run_id).await.unwrap();
        assert_eq!(recorder.record(Origin::Host, &log("next")).unwrap().seq, 3);
        let page = store.read(&run_id, 2, 1).unwrap();
        let kept: Vec<&str> = page.records().map(|record| &*record.line).collect();
        assert_eq!(kept, [strange.as_str()]);
        assert_eq!(
            store.verify(&run_id, None).unwrap().verdict(),
            Verdict::Running
        );
    }
}

#[tokio::test]
async fn c24_a_run_whose_id_was_answered_is_found_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Sync);
    let mut answered = Vec::new();
    for _ in 0..30 {
        let (mut child, mut answers) = spawn_child("create", dir.path());
        answered.push(id(&next_answer(&mut answers)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let listed = store.list(&RunQuery::newest(usize::MAX)).unwrap();
    for run_id in answered {
        assert!(listed.runs.iter().any(|summary| summary.run_id == run_id));
        let recorder = store.recover(&run_id).await.unwrap();
        recorder
            .record_durable(
                Origin::Host,
                &end(RunStatus::Interrupted, OutcomeCode::Interrupted),
            )
            .await
            .unwrap();
        assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
    }
}

#[tokio::test]
async fn c27_a_second_writer_is_refused_and_told_which_process_is_the_first() {
    let (dir, store) = relaxed();
    let (mut child, mut answers) = spawn_child("create", dir.path());
    let run_id = id(&next_answer(&mut answers));
    let refused = store.recover(&run_id).await;
    assert!(matches!(refused, Err(StoreError::Locked { pid, .. }) if pid == Some(child.id())));
    assert_eq!(store.summary(&run_id).unwrap().writer_pid, Some(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.summary(&run_id).unwrap().writer_pid, None);
    let recorder = store.recover(&run_id).await.unwrap();
    assert!(matches!(
        store.recover(&run_id).await,
        Err(StoreError::Locked { .. })
    ));
    drop(recorder);
    assert!(store.recover(&run_id).await.is_ok());
}

/// The limit on the size of files makes the kernel write the first part of a line, as a full disk
/// does.
#[tokio::test]
async fn a_short_write_is_the_end_of_the_recorder_and_loses_nothing_acknowledged() {
    let (dir, store) = relaxed();
    let (mut child, mut answers) = spawn_child("fill", dir.path());
    let run_id = id(&next_answer(&mut answers));
    let acknowledged: u64 = next_answer(&mut answers).parse().unwrap();
    assert!(child.wait().unwrap().success());
    let report = store.verify(&run_id, None).unwrap();
    assert_eq!(
        (report.verdict(), report.head.seq),
        (Verdict::Torn, acknowledged)
    );
    let recorder = store.recover(&run_id).await.unwrap();
    assert_eq!(
        recorder
            .record(Origin::Guest, &log("room again"))
            .unwrap()
            .seq,
        acknowledged + 2
    );
    assert_eq!(
        store.verify(&run_id, None).unwrap().verdict(),
        Verdict::Running
    );
}
