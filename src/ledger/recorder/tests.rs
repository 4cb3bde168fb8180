//! What happens when a write or a sync fails.

use std::pin::pin;
use std::task::{Context, Waker};

use tempfile::TempDir;

use super::*;
use crate::ledger::payload::{Log, RunStarted};
use crate::ledger::store::{Store, StoreOptions};

/// A run whose events become durable.
async fn durable_run() -> (TempDir, Store, Recorder) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions {
        runs_dir: dir.path().to_owned(),
        durability: Durability::Sync,
        clock: Clock::system(),
    })
    .unwrap();
    let created = store.create(RunId::generate(), RunStarted::default());
    let (recorder, _) = created.await.unwrap();
    (dir, store, recorder)
}

#[tokio::test]
async fn what_was_written_before_a_failed_write_still_becomes_durable() {
    let (_dir, _store, recorder) = durable_run().await;
    let ledger = &recorder.0.0;
    let event = Event::from(Log::default());
    let mut waiters = [
        Box::pin(recorder.record_durable(Origin::Host, &event)),
        Box::pin(recorder.record_durable(Origin::Host, &event)),
    ];
    {
        let _turn = lock(&ledger.sync_turn);
        let mut context = Context::from_waker(Waker::noop());
        for waiter in &mut waiters {
            assert!(waiter.as_mut().poll(&mut context).is_pending());
        }
        recorder.record(Origin::Host, &event).unwrap();
        ledger.poison("write of an event", io::Error::other("bad disk"));
    }
    let refused = recorder.record(Origin::Host, &event);
    assert!(matches!(refused, Err(RecordError::Poisoned(_))));
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let mut durable = ledger.durable.subscribe();
    durable.wait_for(|durable| *durable == 4).await.unwrap();
}

#[tokio::test]
async fn no_sync_follows_one_that_failed() {
    let (_dir, _store, recorder) = durable_run().await;
    let ledger = &recorder.0.0;
    let event = Event::from(Log::default());
    recorder.record(Origin::Host, &event).unwrap();
    ledger.poison_sync("sync of the file", io::Error::other("bad disk"));
    let file = Arc::clone(lock(&ledger.core).writer.as_ref().unwrap().file());
    let refused = ledger.sync(&file);
    assert!(matches!(refused, Err(RecordError::Poisoned(_))));
    assert_eq!(*ledger.durable.borrow(), 1);
}

#[tokio::test]
async fn a_sync_that_the_runtime_did_not_let_happen_is_made_up_for() {
    let (_dir, _store, recorder) = durable_run().await;
    let ledger = &recorder.0.0;
    let event = Event::from(Log::default());
    recorder.record(Origin::Host, &event).unwrap();
    ledger.sync_is_scheduled.store(true, Ordering::SeqCst);
    let mut waiter = pin!(recorder.record_durable(Origin::Host, &event));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiter.as_mut().poll(&mut context).is_pending());
    let file = Arc::clone(lock(&ledger.core).writer.as_ref().unwrap().file());
    drop(SyncPromise {
        ledger: Arc::clone(ledger),
        file: Some(file),
    });
    waiter.await.unwrap();
    assert!(!ledger.sync_is_scheduled.load(Ordering::SeqCst));
}

#[tokio::test]
async fn nobody_sees_a_sync_point_or_what_follows_it_before_it_is_durable() {
    let (_dir, store, recorder) = durable_run().await;
    let run_id = recorder.run_id().clone();
    let readable = || store.bus().channel(&run_id).unwrap().borrow().seq;
    let event = Event::from(Log::default());
    recorder.record(Origin::Host, &event).unwrap();
    assert_eq!(readable(), 2);
    {
        let mut durable = pin!(recorder.record_durable(Origin::Host, &event));
        {
            let _turn = lock(&recorder.0.0.sync_turn);
            let mut context = Context::from_waker(Waker::noop());
            assert!(durable.as_mut().poll(&mut context).is_pending());
            recorder.record(Origin::Host, &event).unwrap();
            assert_eq!((recorder.head().seq, readable()), (4, 2));
        }
        durable.await.unwrap();
    }
    assert_eq!(readable(), 4);
}
