//! What a recorder takes, refuses and stores.

use super::*;

#[tokio::test]
async fn an_event_that_cannot_happen_is_refused_and_the_run_goes_on() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let again = store.create(run_id.clone(), RunStarted::default()).await;
    assert!(matches!(again, Err(StoreError::Exists { .. })));
    for (origin, event) in [
        (Origin::Host, RunStarted::default().into()),
        (Origin::Host, ToolResult::default().into()),
        (Origin::Guest, end(RunStatus::Ok, OutcomeCode::Ok)),
        (Origin::Guest, skillrun::ledger::Denied::default().into()),
    ] {
        let refused = recorder.record(origin, &event);
        assert!(matches!(refused, Err(RecordError::Illegal(_))), "{event:?}");
    }
    let unknown = Event::Unknown {
        kind: "hologram".to_owned(),
        payload: Json::default(),
    };
    let refused = recorder.record(Origin::Host, &unknown);
    assert!(matches!(refused, Err(RecordError::NotWritable { .. })));
    assert_eq!(
        recorder.record(Origin::Guest, &log("goes on")).unwrap().seq,
        2
    );
}

#[tokio::test]
async fn after_its_end_a_run_takes_no_event_unless_it_can_be_resumed() {
    let (_dir, store) = relaxed();
    for (status, code) in [
        (RunStatus::Ok, OutcomeCode::Ok),
        (RunStatus::Error, OutcomeCode::Trap),
        (RunStatus::Cancelled, OutcomeCode::Cancelled),
    ] {
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        recorder.record(Origin::Host, &end(status, code)).unwrap();
        for event in [log("late"), RunResumed::default().into()] {
            let refused = recorder.record(Origin::Host, &event);
            assert!(matches!(refused, Err(RecordError::Ended { .. })));
        }
        let refused = store.recover(&run_id).await;
        assert!(matches!(refused, Err(StoreError::Ended { .. })));
        let summary = store.summary(&run_id).unwrap();
        assert_eq!(
            (summary.state, summary.code),
            (RunState::Ended(status), Some(code))
        );
    }

    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    recorder
        .record(
            Origin::Host,
            &end(RunStatus::Interrupted, OutcomeCode::Interrupted),
        )
        .unwrap();
    assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
    let resumed = store.recover(&run_id).await.unwrap();
    let refused = resumed.record(Origin::Guest, &log("too early"));
    assert!(matches!(
        refused,
        Err(RecordError::Illegal(IllegalTransition::Ended { .. }))
    ));
    resumed
        .record(Origin::Host, &RunResumed::default().into())
        .unwrap();
    assert_eq!(store.summary(&run_id).unwrap().state, RunState::Running);
    resumed
        .record(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
        .unwrap();
    assert_eq!(
        store
            .verify(&run_id, Some(resumed.head()))
            .unwrap()
            .verdict(),
        Verdict::Ok
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_many_callers_are_numbered_in_the_order_of_the_file() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let recorder = recorder.clone();
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0..20 {
                        let message = format!("{task}-{n}");
                        let appended = if n % 4 == 0 {
                            recorder.record_durable(Origin::Guest, &log(&message)).await
                        } else {
                            recorder.record(Origin::Guest, &log(&message))
                        };
                        acknowledged.push((appended.unwrap().seq, message));
                    }
                    acknowledged
                })
            })
            .collect();
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.extend(task.await.unwrap());
        }
        acknowledged.sort();
        recorder
            .record_durable(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
            .await
            .unwrap();
        let page = store.read(&run_id, 2, acknowledged.len()).unwrap();
        let read: Vec<(u64, String)> = page
            .records()
            .map(|record| match record.event() {
                Event::Log(log) => (record.seq, log.message.as_str().to_owned()),
                event => panic!("{event:?}"),
            })
            .collect();
        assert_eq!(read, acknowledged);
        assert_eq!(
            store
                .verify(&run_id, Some(recorder.head()))
                .unwrap()
                .verdict(),
            Verdict::Ok
        );
    }
}

#[tokio::test]
async fn an_abandoned_durable_record_still_becomes_part_of_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Sync);
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    {
        let event = log("abandoned");
        let mut future = std::pin::pin!(recorder.record_durable(Origin::Guest, &event));
        let _pending =
            std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await;
    }
    let appended = recorder
        .record_durable(Origin::Guest, &log("after"))
        .await
        .unwrap();
    assert_eq!(appended.seq, 3);
    drop(recorder);
    assert_eq!(store.recover(&run_id).await.unwrap().head().seq, 3);
}

#[tokio::test]
async fn large_values_are_stored_beside_the_ledger_and_come_back_whole() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let run_id = RunId::generate();
        let recorder = start(&store, &run_id).await;
        let output = Json::string(&"ü".repeat(100_000));
        let (text, hostile) = ("ß\n".repeat(50_000), r#"{"blob":"0000","bytes":1}"#);
        let arguments = Json::parse(hostile).unwrap();
        let call_id = "call_1".to_owned();
        let events: [Event; 3] = [
            ToolCall {
                call_id: call_id.clone(),
                arguments,
                ..ToolCall::default()
            }
            .into(),
            ToolResult {
                call_id,
                output: Some(output),
                ..ToolResult::default()
            }
            .into(),
            log(&text),
        ];
        for event in &events {
            recorder.record(Origin::Host, event).unwrap();
        }
        let last = end(RunStatus::Ok, OutcomeCode::Ok);
        recorder.record_durable(Origin::Host, &last).await.unwrap();
        let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
        assert!(content.lines().all(|line| line.len() < 4096));
        let page = store.read(&run_id, 2, 3).unwrap();
        let stored: Vec<Event> = page.records().map(|record| record.event()).collect();
        assert_ne!(stored, events);
        let again = recorder.record(Origin::Host, &stored[2]);
        assert!(matches!(again, Err(RecordError::NotWritable { .. })));
        let whole: Vec<Event> = stored
            .into_iter()
            .map(|event| store.whole(&run_id, event).unwrap())
            .collect();
        assert_eq!(whole, events);

        let report = store.verify(&run_id, None).unwrap();
        assert_eq!((report.verdict(), report.blobs), (Verdict::Ok, 3));
        let blob = dir
            .path()
            .join(format!("{run_id}.blobs"))
            .join(Digest::of(text.as_bytes()).to_string());
        fs::write(&blob, text.replacen('ß', "ẞ", 1)).unwrap();
        let corruption = store.verify(&run_id, None).unwrap().corruption.unwrap();
        assert_eq!(corruption.line, 4);
        let missing = || {
            let report = store.verify(&run_id, None).unwrap();
            (report.verdict(), report.blobs_missing)
        };
        // A part of it is what a power cut may leave of a value that was promised to nobody yet.
        fs::write(&blob, &text[..9]).unwrap();
        assert_eq!(missing(), (Verdict::BlobsMissing, 1));
        fs::remove_file(&blob).unwrap();
        assert_eq!(missing(), (Verdict::BlobsMissing, 1));
    }
}

#[tokio::test]
async fn a_value_that_is_kept_out_is_in_no_file_of_the_run() {
    let (dir, store) = relaxed();
    let secret = "correct horse \"battery\" staple";
    store.redact("passphrase", secret).unwrap();
    let input = Json::from_serialize(&serde_json::json!({ "phrase": secret })).unwrap();
    let started = RunStarted {
        input,
        ..RunStarted::default()
    };
    let (recorder, _) = store.create(RunId::generate(), started).await.unwrap();
    let large = format!("{}{secret}", "x".repeat(100_000));
    for event in [log(secret), log(&large)] {
        recorder.record(Origin::Guest, &event).unwrap();
    }
    let call = ToolCall {
        call_id: format!("call {secret}"),
        ..ToolCall::default()
    };
    let result = ToolResult {
        call_id: call.call_id.clone(),
        ..ToolResult::default()
    };
    recorder.record(Origin::Host, &call.into()).unwrap();
    recorder.record(Origin::Host, &result.into()).unwrap();
    recorder
        .record(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
        .unwrap();
    let run_id = recorder.run_id();
    assert_eq!(store.verify(run_id, None).unwrap().verdict(), Verdict::Ok);
    let mut exported = Vec::new();
    store.export(run_id, &mut exported).unwrap();
    let mut texts = vec![String::from_utf8(exported).unwrap()];
    texts.push(fs::read_to_string(store.path_of(run_id)).unwrap());
    for blob in fs::read_dir(dir.path().join(format!("{run_id}.blobs"))).unwrap() {
        texts.push(fs::read_to_string(blob.unwrap().path()).unwrap());
    }
    assert_eq!(texts.len(), 3);
    for text in texts {
        assert!(text.contains("[redacted:passphrase]"));
        assert!(!text.contains("battery"));
    }
}
