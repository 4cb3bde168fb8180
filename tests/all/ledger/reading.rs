//! What readers are shown, of ledgers of today and of the original system.

use super::*;

#[tokio::test]
async fn the_golden_ledger_is_written_and_read_as_ever() {
    let (dir, store) = relaxed();
    let head = write_golden(&store).await;
    let run_id = id(GOLDEN_ID);
    let written = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert_eq!(written, GOLDEN);
    assert_eq!(head, golden_head());
    let events: Vec<(Origin, Event)> = store
        .read(&run_id, 2, 5)
        .unwrap()
        .records()
        .map(|record| (record.origin, record.event()))
        .collect();
    assert_eq!(events, golden_middle());
    let report = verify_file(&store.path_of(&run_id), Some(head)).unwrap();
    assert_eq!(
        (report.verdict(), report.head, report.open),
        (Verdict::Ok, head, 0)
    );

    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.path_of(&run_id)), 0o600);
    let made = open(&dir.path().join("new/runs"), Durability::Sync);
    assert_eq!(mode(made.path_of(&run_id).parent().unwrap()), 0o700);
}

#[tokio::test]
async fn c51_a_ledger_of_the_original_system_is_read_and_never_written() {
    let (dir, store) = relaxed();
    let run_id = id(ORIGINAL_ID);
    let path = store.path_of(&run_id);
    fs::write(&path, ORIGINAL).unwrap();
    let newer = start(&store, &RunId::generate()).await;
    let listing = store.list(&RunQuery::newest(10)).unwrap();
    let ids: Vec<&RunId> = listing.runs.iter().map(|summary| &summary.run_id).collect();
    // Both began in the same microsecond, so their ids decide.
    assert_eq!(ids, [&run_id, newer.run_id()]);
    let summary = &listing.runs[0];
    assert_eq!(summary.state, RunState::Ended(RunStatus::Error));
    assert_eq!(
        (summary.skill.as_deref(), summary.is_chained),
        (Some("triage"), false)
    );
    assert_eq!(
        summary.error.as_deref(),
        Some("skill rejected: not approved")
    );
    let page = store.read(&run_id, 1, 100).unwrap();
    assert_eq!(page.records().count(), 14);
    let known = page
        .records()
        .all(|record| !matches!(record.event(), Event::Unknown { .. }));
    assert!(known);
    let report = store.verify(&run_id, None).unwrap();
    assert_eq!(
        (report.verdict(), report.head.seq, report.open),
        (Verdict::Unchained, 14, 0)
    );
    assert!(matches!(
        store.recover(&run_id).await,
        Err(StoreError::ReadOnly { .. })
    ));
    let created = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(created, Err(StoreError::ReadOnly { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), ORIGINAL);
    assert!(torn_files(dir.path()).is_empty());

    // Pairing and numbering are checked all the same, and a chain that was taken off is not excused.
    let lines: Vec<&str> = ORIGINAL.lines().collect();
    let without_call = [&lines[..2], &lines[3..]].concat().join("\n") + "\n";
    fs::write(&path, without_call).unwrap();
    assert_eq!(
        store
            .verify(&run_id, None)
            .unwrap()
            .corruption
            .unwrap()
            .line,
        3
    );
    put(&dir, ORIGINAL.replace(ORIGINAL_ID, GOLDEN_ID).as_bytes());
    let corruption = store
        .verify(&id(GOLDEN_ID), None)
        .unwrap()
        .corruption
        .unwrap();
    assert_eq!((corruption.line, corruption.damage), (1, Damage::Unchained));
}

#[tokio::test]
async fn c52_an_input_is_kept_as_it_was_spelled_on_one_line() {
    let spelled = concat!(
        r#"{"a":1e400,"b":0.10,"c":123456789012345678901234567890,"a":2,"#,
        r#""d":"\u2028\ud800\/","#,
        "\"e\":\"\u{2028}\"}"
    );
    let came = spelled.replace(',', ",\r\n\t");
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let started = RunStarted {
        skill: "echo".to_owned(),
        input: Json::from_slice(came.as_bytes()).unwrap(),
        input_digest: Some(Digest::of(came.as_bytes()).to_string()),
        ..RunStarted::default()
    };
    store.create(run_id.clone(), started.clone()).await.unwrap();
    let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert!(content.ends_with('\n') && content.matches('\n').count() == 1);
    assert!(content.contains(spelled));
    let page = store.read(&run_id, 1, 1).unwrap();
    let durability = Some(Durability::Relaxed);
    let expected = RunStarted {
        durability,
        ..started
    };
    assert_eq!(page.records().next().unwrap().event(), expected.into());
}

#[tokio::test]
async fn a_list_shows_the_newest_runs_and_whatever_is_wrong_with_them() {
    let (dir, store) = relaxed();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let run_id = RunId::generate();
        start(&store, &run_id).await;
        ids.insert(0, run_id);
    }
    fs::write(store.path_of(&ids[0]), "").unwrap();
    fs::write(
        store.path_of(&ids[1]),
        fs::read(store.path_of(&ids[2])).unwrap(),
    )
    .unwrap();
    fs::write(dir.path().join("notes.jsonl"), "{}").unwrap();
    fs::create_dir(
        dir.path()
            .join(format!("{}.jsonl", "run_00000000000070008000000000000000")),
    )
    .unwrap();
    let listing = store.list(&RunQuery::newest(4)).unwrap();
    let shown: Vec<(&RunId, RunState)> = listing
        .runs
        .iter()
        .map(|summary| (&summary.run_id, summary.state))
        .collect();
    let expected: Vec<(&RunId, RunState)> = ids[..4]
        .iter()
        .zip([
            RunState::Corrupt,
            RunState::Corrupt,
            RunState::Running,
            RunState::Running,
        ])
        .collect();
    assert_eq!(shown, expected);
    assert!(listing.next.is_some());
    assert_eq!(listing.foreign, ["notes.jsonl"]);
    let all = store.list(&RunQuery::newest(100)).unwrap();
    assert_eq!((all.runs.len(), all.next), (6, None));
    assert_eq!(all.runs[5].state, RunState::Corrupt);
    let unknown = RunId::generate();
    assert!(matches!(
        store.summary(&unknown),
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.recover(&unknown).await,
        Err(StoreError::NotFound { .. })
    ));
}

#[tokio::test]
async fn pages_join_without_gap_or_repeat_and_a_follower_sees_what_is_added() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    for n in 2..=10 {
        recorder
            .record(Origin::Guest, &log(&n.to_string()))
            .unwrap();
    }
    let mut page = store.read(&run_id, 3, 3).unwrap();
    let mut seqs: Vec<u64> = page.records().map(|record| record.seq).collect();
    while let Some(next) = page.next {
        page = store.follow(&run_id, next).unwrap().page(3).unwrap();
        seqs.extend(page.records().map(|record| record.seq));
    }
    assert_eq!(seqs, (3..=10).collect::<Vec<u64>>());
    let mut follower = store.follow(&run_id, Position::default()).unwrap();
    follower.skip_to(11).unwrap();
    assert!(follower.next_entry().unwrap().is_none());
    recorder.record(Origin::Guest, &log("new")).unwrap();
    assert!(
        matches!(follower.next_entry().unwrap(), Some(Entry::Record(record)) if record.seq == 11)
    );
    assert!(follower.next_entry().unwrap().is_none());
}
