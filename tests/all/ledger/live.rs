//! Events as subscribers get them.

use std::collections::BTreeMap;

use skillrun::ledger::{AnyDelivery, Delivery, Record, Subscription};

use super::*;

async fn next_record(subscription: &mut Subscription) -> Option<Record> {
    loop {
        match subscription.next().await.unwrap()? {
            Delivery::Entry(Entry::Record(record)) => return Some(*record),
            Delivery::Entry(Entry::Damaged(corruption)) => panic!("{corruption}"),
            Delivery::Behind { events } => assert!(events > 0),
        }
    }
}

async fn seqs_to_the_end(mut subscription: Subscription) -> Vec<u64> {
    let mut seqs = Vec::new();
    while let Some(record) = next_record(&mut subscription).await {
        seqs.push(record.seq);
    }
    seqs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_and_what_comes_join_without_gap_or_repeat() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let recorder = start(&store, &RunId::generate()).await;
        let run_id = recorder.run_id().clone();
        let last = 400;
        let subscribers: Vec<_> = (0..8)
            .map(|n| {
                let (store, run_id) = (store.clone(), run_id.clone());
                tokio::spawn(async move {
                    for _ in 0..n * 20 {
                        tokio::task::yield_now().await;
                    }
                    let from = 1 + n * 40;
                    (
                        from,
                        seqs_to_the_end(store.subscribe(&run_id, from).unwrap()).await,
                    )
                })
            })
            .collect();
        for seq in 2..last {
            let event = log(&seq.to_string());
            if seq % 50 == 0 {
                let appended = recorder.record_durable(Origin::Guest, &event).await;
                assert_eq!(appended.unwrap().seq, seq);
            } else {
                recorder.record(Origin::Guest, &event).unwrap();
            }
            if seq % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let done = end(RunStatus::Ok, OutcomeCode::Ok);
        recorder.record_durable(Origin::Host, &done).await.unwrap();
        for subscriber in subscribers {
            let (from, seqs) = subscriber.await.unwrap();
            assert_eq!(seqs, (from..=last).collect::<Vec<u64>>());
        }
        // The same after the end, when there is nothing but the file.
        let late = store.subscribe(&run_id, last - 1).unwrap();
        assert_eq!(seqs_to_the_end(late).await, [last - 1, last]);
    }
}

#[tokio::test]
async fn a_subscriber_that_falls_behind_is_told_and_loses_nothing() {
    let (_dir, store) = relaxed();
    let recorder = start(&store, &RunId::generate()).await;
    let mut subscription = store.subscribe(recorder.run_id(), 1).unwrap();
    next_record(&mut subscription).await.unwrap();
    {
        let mut waiting = std::pin::pin!(subscription.next());
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx)));
        assert!(poll.await.is_pending());
    }
    for n in 0..3000 {
        recorder
            .record(Origin::Guest, &log(&n.to_string()))
            .unwrap();
    }
    recorder
        .record(Origin::Host, &end(RunStatus::Ok, OutcomeCode::Ok))
        .unwrap();
    // The writer is done and never waited. While it was there, it would have been told; now that all
    // there is may be read, it simply reads.
    assert_eq!(
        seqs_to_the_end(subscription).await,
        (2..=3002).collect::<Vec<u64>>()
    );

    let recorder = start(&store, &RunId::generate()).await;
    let mut subscription = store.subscribe(recorder.run_id(), 1).unwrap();
    next_record(&mut subscription).await.unwrap();
    {
        let mut waiting = std::pin::pin!(subscription.next());
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx)));
        assert!(poll.await.is_pending());
    }
    for n in 0..2000 {
        recorder
            .record(Origin::Guest, &log(&n.to_string()))
            .unwrap();
    }
    let told = subscription.next().await.unwrap();
    assert!(matches!(told, Some(Delivery::Behind { events: 2000 })));
    for seq in 2..=2001 {
        assert!(matches!(
            subscription.next().await.unwrap(),
            Some(Delivery::Entry(Entry::Record(record))) if record.seq == seq
        ));
    }
}

#[tokio::test]
async fn a_run_of_another_process_is_followed_until_that_is_gone() {
    let (dir, store) = relaxed();
    let (mut child, mut answers) = spawn_child("create", dir.path());
    let run_id = id(&next_answer(&mut answers));
    let mut subscription = store.subscribe(&run_id, 1).unwrap();
    assert_eq!(next_record(&mut subscription).await.unwrap().seq, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(next_record(&mut subscription).await.is_none());
    // What its next writer adds is not missed either.
    let mut subscription = store.subscribe(&run_id, 2).unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    let done = end(RunStatus::Interrupted, OutcomeCode::Interrupted);
    recorder.record_durable(Origin::Host, &done).await.unwrap();
    assert_eq!(next_record(&mut subscription).await.unwrap().seq, 2);
    assert!(next_record(&mut subscription).await.is_none());
}

#[tokio::test]
async fn a_subscriber_to_all_runs_misses_no_event_of_threads_that_record_into_one() {
    let (_dir, store) = relaxed();
    let recorder = start(&store, &RunId::generate()).await;
    let mut all = store.subscribe_all();
    let (threads, events) = (2, 20_000_u64);
    let writers: Vec<_> = (0..threads)
        .map(|_| {
            let recorder = recorder.clone();
            std::thread::spawn(move || {
                for _ in 0..events {
                    recorder.record(Origin::Guest, &log("one of many")).unwrap();
                }
            })
        })
        .collect();
    // An event that was lost is noticed at the next one; were it the last, nothing would come.
    for seq in 2..=threads * events {
        assert!(matches!(
            all.next().await.unwrap(),
            AnyDelivery::Record(record) if record.seq == seq
        ));
    }
    for writer in writers {
        writer.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_to_all_runs_gets_every_event_of_each_in_order() {
    let (_dir, store) = relaxed();
    let mut all = store.subscribe_all();
    let (runs, events) = (40_u64, 30_u64);
    let writers: Vec<_> = (0..runs)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let recorder = start(&store, &RunId::generate()).await;
                for n in 2..events {
                    recorder
                        .record(Origin::Guest, &log(&n.to_string()))
                        .unwrap();
                    tokio::task::yield_now().await;
                }
                let done = end(RunStatus::Ok, OutcomeCode::Ok);
                recorder.record(Origin::Host, &done).unwrap();
            })
        })
        .collect();
    let mut seen: BTreeMap<RunId, Vec<u64>> = BTreeMap::new();
    for _ in 0..runs * events {
        match all.next().await.unwrap() {
            AnyDelivery::Record(record) => {
                seen.entry(record.run_id.clone())
                    .or_default()
                    .push(record.seq);
            }
            AnyDelivery::Lagged => panic!("lagged"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(u64::try_from(seen.len()).unwrap(), runs);
    let in_order: Vec<u64> = (1..=events).collect();
    assert!(seen.values().all(|seqs| *seqs == in_order));
}
