//! That the index never says anything that the ledgers do not.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;
use skillrun::ledger::{Cursor, Summary};

use super::*;

const INDEX: &str = "index.db";

/// A folder with runs in every state, ten of each.
async fn populated() -> (TempDir, Store) {
    let (dir, store) = relaxed();
    let endings = [
        None,
        Some((RunStatus::Ok, OutcomeCode::Ok)),
        Some((RunStatus::Error, OutcomeCode::Trap)),
        Some((RunStatus::Interrupted, OutcomeCode::Interrupted)),
    ];
    let mut parent = None;
    for n in 0..40 {
        let run_id = RunId::generate();
        let started = RunStarted {
            skill: format!("skill-{}", n % 3),
            parent_run_id: parent.take_if(|_| n % 2 == 0),
            ..RunStarted::default()
        };
        let (recorder, _) = store.create(run_id.clone(), started).await.unwrap();
        if let Some((status, code)) = endings[n % 4] {
            recorder.record(Origin::Host, &end(status, code)).unwrap();
        }
        parent = Some(run_id);
    }
    (dir, store)
}

/// What a list tells of a run.
fn told(run: &Summary) -> (String, &'static str, Option<String>, u64) {
    let state = run.state.as_str();
    (
        run.run_id.to_string(),
        state,
        run.skill.clone(),
        run.head.seq,
    )
}

/// What the ledgers say, without an index.
fn truth(dir: &Path, query: &RunQuery) -> Vec<(String, &'static str, Option<String>, u64)> {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let listing = open(copy.path(), Durability::Relaxed).list(query).unwrap();
    listing.runs.iter().map(told).collect()
}

fn queries(store: &Store) -> Vec<RunQuery> {
    let all = RunQuery::newest(10_000);
    let child = store.list(&all).unwrap().runs;
    let parent_run_id = child.iter().find_map(|run| run.parent_run_id.clone());
    assert!(parent_run_id.is_some());
    let states = [
        RunState::Running,
        RunState::Corrupt,
        RunState::Ended(RunStatus::Ok),
        RunState::Ended(RunStatus::Interrupted),
    ];
    let mut queries: Vec<RunQuery> = states
        .map(|state| RunQuery {
            state: Some(state),
            ..all.clone()
        })
        .into();
    queries.push(RunQuery {
        skill: Some("skill-1".to_owned()),
        state: Some(RunState::Ended(RunStatus::Error)),
        ..all.clone()
    });
    queries.push(RunQuery {
        parent_run_id,
        ..all.clone()
    });
    queries.push(RunQuery {
        since: Some(Timestamp::from_unix_micros(i64::MAX)),
        ..all.clone()
    });
    queries.push(all);
    queries
}

fn assert_true(dir: &Path, store: &Store, queries: &[RunQuery], what: &str) {
    for query in queries {
        let listing = store.list(query).unwrap();
        let shown: Vec<_> = listing.runs.iter().map(told).collect();
        assert_eq!(shown, truth(dir, query), "{what}: {query:?}");
    }
}

#[tokio::test]
async fn c26_a_list_equals_the_files_whatever_became_of_the_index() {
    let (dir, store) = populated().await;
    let queries = queries(&store);
    let index = dir.path().join(INDEX);
    assert_true(dir.path(), &store, &queries, "new");
    let whole = fs::read(&index).unwrap();

    fs::remove_file(&index).unwrap();
    assert_true(dir.path(), &store, &queries, "deleted");
    for (what, content) in [
        ("empty", Vec::new()),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("not a database", b"something else entirely".to_vec()),
        ("zeros", vec![0; whole.len()]),
    ] {
        fs::write(&index, content).unwrap();
        assert_true(dir.path(), &store, &queries, what);
    }
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_true(dir.path(), &store, &queries, "a folder in its place");
    fs::remove_dir(&index).unwrap();
    assert_true(dir.path(), &store, &queries, "possible again");
    assert!(index.is_file());
}

#[tokio::test]
async fn c26_an_index_from_earlier_is_brought_up_to_date() {
    let (dir, store) = populated().await;
    let queries = queries(&store);
    let index = dir.path().join(INDEX);
    store.update_index().unwrap();
    let (old, mtime) = (
        fs::read(&index).unwrap(),
        fs::metadata(&index).unwrap().modified().unwrap(),
    );
    // A run ends, one is resumed, one is taken away, one comes, one is damaged.
    let runs = store.list(&RunQuery::newest(10_000)).unwrap().runs;
    let in_state = |state| {
        let run = runs.iter().find(|run| run.state == state);
        run.unwrap().run_id.clone()
    };
    let recorder = store.recover(&in_state(RunState::Running)).await.unwrap();
    let done = end(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &done).unwrap();
    let interrupted = in_state(RunState::Ended(RunStatus::Interrupted));
    let recorder = store.recover(&interrupted).await.unwrap();
    let resumed = RunResumed::default().into();
    recorder.record(Origin::Host, &resumed).unwrap();
    let failed = in_state(RunState::Ended(RunStatus::Error));
    fs::remove_file(store.path_of(&failed)).unwrap();
    start(&store, &RunId::generate()).await;
    let mut goes_on = runs.iter().filter(|run| run.state == RunState::Running);
    let damaged = goes_on.nth(1).unwrap();
    fs::write(store.path_of(&damaged.run_id), "damaged\n").unwrap();
    assert_true(dir.path(), &store, &queries, "changed files");
    // The same, met by the index as it was before: put back in place, and with its old time.
    for keep_time in [false, true] {
        fs::write(&index, &old).unwrap();
        if keep_time {
            let file = fs::File::options().write(true).open(&index).unwrap();
            file.set_modified(mtime).unwrap();
        }
        assert_true(dir.path(), &store, &queries, "put back");
    }
    // A run that ended for good is not looked at again until it is to be shown.
    let ended = in_state(RunState::Ended(RunStatus::Ok));
    fs::write(store.path_of(&ended), "damaged\n").unwrap();
    store.list(&RunQuery::newest(10_000)).unwrap();
    assert_true(dir.path(), &store, &queries, "changed files");
}

#[tokio::test]
async fn a_changed_byte_in_the_index_is_found_by_its_time() {
    let (dir, store) = populated().await;
    let queries = queries(&store);
    let index = dir.path().join(INDEX);
    let size = fs::read(&index).unwrap().len();
    for at in (0..size).step_by(size / 40) {
        let mut bytes = fs::read(&index).unwrap();
        bytes[at] ^= 0x15;
        fs::write(&index, bytes).unwrap();
        assert_true(dir.path(), &store, &queries[..1], &format!("byte {at}"));
    }
}

#[tokio::test]
async fn nothing_is_written_when_nothing_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        runs_dir: dir.path().to_owned(),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    };
    let store = Store::open(options).unwrap();
    let recorder = start(&store, &RunId::generate()).await;
    let done = end(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &done).unwrap();
    let state = || {
        store.update_index().unwrap();
        let metadata = fs::metadata(dir.path().join(INDEX)).unwrap();
        (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
    };
    // The folder has to rest for a moment before its time of change tells anything.
    let mut last = state();
    let settles = (0..100_000).any(|_| {
        let now = state();
        std::mem::replace(&mut last, now) == now
    });
    assert!(settles);
}

#[tokio::test]
async fn c29_an_end_that_was_cut_off_is_found_by_the_index() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), durability);
        let head = write_golden(&store).await;
        let run_id = id(GOLDEN_ID);
        store.update_index().unwrap();
        let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
        let lines: Vec<&str> = content.lines().collect();
        let whole_lines = |count: usize| lines[..count].join("\n") + "\n";
        // It was a whole run once; now it looks like one that goes on.
        fs::write(store.path_of(&run_id), whole_lines(4)).unwrap();
        let expected = Damage::Head {
            seq: head.seq,
            sha256: head.sha256,
        };
        for _ in 0..2 {
            let report = store.verify(&run_id, None).unwrap();
            let corruption = report.corruption.unwrap();
            assert_eq!((corruption.line, corruption.damage), (5, expected.clone()));
            let listed = store.list(&RunQuery::newest(1)).unwrap().runs;
            assert_eq!(listed[0].state, RunState::Corrupt);
            assert_eq!(
                listed[0].corruption.as_ref().map(|found| &found.damage),
                Some(&expected)
            );
        }
        fs::write(store.path_of(&run_id), content).unwrap();
        assert_eq!(store.verify(&run_id, None).unwrap().verdict(), Verdict::Ok);
        let listed = store.list(&RunQuery::newest(1)).unwrap().runs;
        assert_eq!(listed[0].state, RunState::Ended(RunStatus::Ok));
    }
}

/// The damage of a ledger that has no line `head`.
fn lost(head: Head) -> Damage {
    let Head { seq, sha256 } = head;
    Damage::Head { seq, sha256 }
}

/// Cuts the last line off the ledger, and puts `tail` in its place.
fn cut_last_line(store: &Store, run_id: &RunId, tail: &[u8]) -> Vec<u8> {
    let mut content = fs::read(store.path_of(run_id)).unwrap();
    content.pop();
    let last = content.iter().rposition(|byte| *byte == b'\n').unwrap();
    content.truncate(last + 1);
    content.extend_from_slice(tail);
    fs::write(store.path_of(run_id), &content).unwrap();
    content
}

#[tokio::test]
async fn c29_a_ledger_that_lost_its_end_is_not_given_another_one() {
    // Cut at the end of a line, within one, and as a power cut leaves it.
    for tail in [&b""[..], b"{\"half", b"\0\0\n\0\0"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), Durability::Relaxed);
        let head = write_golden(&store).await;
        let run_id = id(GOLDEN_ID);
        store.update_index().unwrap();
        let content = cut_last_line(&store, &run_id, tail);
        for _ in 0..2 {
            // A run that ended is met as damaged only after it was shown as that.
            let listed = store.list(&RunQuery::newest(1)).unwrap().runs;
            assert_eq!(listed[0].state, RunState::Corrupt);
            store.close_abandoned().await.unwrap();
            assert_eq!(fs::read(store.path_of(&run_id)).unwrap(), content);
            assert!(torn_files(dir.path()).is_empty());
            let report = store.verify(&run_id, None).unwrap();
            assert_eq!(report.corruption.unwrap().damage, lost(head));
        }
    }
}

#[tokio::test]
async fn c29_an_end_that_was_written_after_a_cut_does_not_cover_it_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Relaxed);
    let head = write_golden(&store).await;
    let run_id = id(GOLDEN_ID);
    store.update_index().unwrap();
    cut_last_line(&store, &run_id, b"");
    // Whoever knows of the line takes nothing up that has lost it.
    let refused = store.recover(&run_id).await.err().unwrap();
    assert!(
        matches!(refused, StoreError::Corrupt { ref corruption, .. } if corruption.damage == lost(head)),
        "{refused}"
    );
    // Somebody without the index does.
    let index = dir.path().join("index.db");
    let kept = dir.path().join("kept");
    fs::rename(&index, &kept).unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    fs::rename(&kept, &index).unwrap();
    recorder.record(Origin::Guest, &log("instead")).unwrap();
    let done = end(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &done).unwrap();
    assert!(recorder.head().seq > head.seq);
    for _ in 0..2 {
        store.update_index().unwrap();
        let listed = store.list(&RunQuery::newest(1)).unwrap().runs;
        let found = listed[0].corruption.as_ref();
        assert_eq!(found.map(|found| &found.damage), Some(&lost(head)));
        let report = store.verify(&run_id, None).unwrap();
        assert_eq!(report.corruption.unwrap().damage, lost(head));
    }
}

#[tokio::test]
async fn c29_the_later_end_of_a_resumed_run_is_noted_in_place_of_the_earlier() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Durability::Relaxed);
    let run_id = RunId::generate();
    drop(start(&store, &run_id).await);
    store.close_abandoned().await.unwrap();
    store.update_index().unwrap();
    let recorder = store.recover(&run_id).await.unwrap();
    let resumed = RunResumed::default().into();
    recorder.record(Origin::Host, &resumed).unwrap();
    let done = end(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &done).unwrap();
    let head = recorder.head();
    drop(recorder);
    let listed = store.list(&RunQuery::newest(1)).unwrap().runs;
    assert_eq!(listed[0].state, RunState::Ended(RunStatus::Ok));
    cut_last_line(&store, &run_id, b"");
    let report = store.verify(&run_id, None).unwrap();
    assert_eq!(report.corruption.unwrap().damage, lost(head));
}

#[tokio::test]
async fn what_the_index_noted_outlives_a_failure_that_passes() {
    let (dir, store) = relaxed();
    let head = write_golden(&store).await;
    let run_id = id(GOLDEN_ID);
    store.update_index().unwrap();
    let index = dir.path().join(INDEX);
    let metadata = fs::metadata(&index).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
    let lines: Vec<&str> = content.lines().collect();
    fs::write(store.path_of(&run_id), lines[..4].join("\n") + "\n").unwrap();
    // With a folder in the place of its journal, the database can neither be read nor be written.
    let journal = dir.path().join("index.db-journal");
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    assert_eq!(store.list(&RunQuery::newest(1)).unwrap().runs.len(), 1);
    store.verify(&run_id, None).unwrap();
    assert_eq!(fs::metadata(&index).unwrap().ino(), metadata.ino());
    fs::remove_dir(&journal).unwrap();
    let report = store.verify(&run_id, None).unwrap();
    let expected = Damage::Head {
        seq: head.seq,
        sha256: head.sha256,
    };
    assert_eq!(report.corruption.unwrap().damage, expected);
}

#[tokio::test]
async fn verify_leaves_an_index_alone_that_was_touched() {
    let (dir, store) = relaxed();
    write_golden(&store).await;
    store.update_index().unwrap();
    let index = dir.path().join(INDEX);
    let mut bytes = fs::read(&index).unwrap();
    bytes[100] ^= 0x15;
    fs::write(&index, &bytes).unwrap();
    store.verify(&id(GOLDEN_ID), None).unwrap();
    assert_eq!(fs::read(&index).unwrap(), bytes);
    fs::remove_file(&index).unwrap();
    store.verify(&id(GOLDEN_ID), None).unwrap();
    assert!(!index.exists());
}

/// Walks the list page by page, letting something happen before each page.
fn walk(store: &Store, query: &RunQuery, mut meanwhile: impl FnMut(Option<&Cursor>)) -> Vec<RunId> {
    let mut query = query.clone();
    let mut seen = Vec::new();
    loop {
        meanwhile(query.after.as_ref());
        let listing = store.list(&query).unwrap();
        assert!(listing.runs.len() <= query.limit);
        seen.extend(listing.runs.into_iter().map(|run| run.run_id));
        match listing.next {
            None => return seen,
            Some(next) => query.after = Some(next.to_string().parse().unwrap()),
        }
    }
}

#[tokio::test]
async fn a_page_that_a_run_is_missing_from_is_not_the_last() {
    let (dir, store) = relaxed();
    for _ in 0..60 {
        start(&store, &RunId::generate()).await;
    }
    let query = RunQuery {
        state: Some(RunState::Ended(RunStatus::Ok)),
        ..RunQuery::newest(50)
    };
    let mut runs = store.list(&RunQuery::newest(60)).unwrap().runs;
    for run in &runs {
        let recorder = store.recover(&run.run_id).await.unwrap();
        let done = end(RunStatus::Ok, OutcomeCode::Ok);
        recorder.record(Origin::Host, &done).unwrap();
    }
    // With a folder that has rested, the names are not compared again; a name that goes then is what
    // a run is that goes while a list is made.
    let rested = fs::File::open(dir.path()).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    rested.set_modified(time).unwrap();
    store.update_index().unwrap();
    rested.set_modified(time).unwrap();
    store.update_index().unwrap();
    fs::remove_file(store.path_of(&runs.remove(7).run_id)).unwrap();
    rested.set_modified(time).unwrap();
    let first = store.list(&query).unwrap();
    let second = RunQuery {
        after: first.next,
        ..query
    };
    let second = store.list(&second).unwrap();
    assert!(second.next.is_none());
    let seen: Vec<&RunId> = [&first.runs, &second.runs]
        .into_iter()
        .flatten()
        .map(|run| &run.run_id)
        .collect();
    assert_eq!(seen, runs.iter().map(|run| &run.run_id).collect::<Vec<_>>());
}

#[tokio::test]
async fn c35_pages_of_runs_of_one_moment_join_while_runs_come_and_go() {
    let (_dir, store) = populated().await;
    let template = fs::read_to_string(store.path_of(&{
        let recorder = start(&store, &RunId::generate()).await;
        recorder.run_id().clone()
    }))
    .unwrap();
    let known: RunId = template[17..53].parse().unwrap();
    for _ in 0..150 {
        let run_id = RunId::generate();
        let line = template.replace(known.as_str(), run_id.as_str());
        fs::write(store.path_of(&run_id), line).unwrap();
    }
    for query in queries(&store) {
        let before = walk(&store, &query, |_| {});
        let small = RunQuery { limit: 7, ..query };
        assert_eq!(walk(&store, &small, |_| {}), before);
        // The run that a cursor names goes, and one comes.
        let mut gone = BTreeSet::new();
        let seen = walk(&store, &small, |after| {
            if let Some(after) = after
                && gone.len() < 5
            {
                let run_id = id(&after.to_string()[16..]);
                let _gone = fs::remove_file(store.path_of(&run_id));
                gone.insert(run_id);
            }
            let run_id = RunId::generate();
            let line = template.replace(known.as_str(), run_id.as_str());
            fs::write(store.path_of(&run_id), line).unwrap();
        });
        let distinct: BTreeSet<&RunId> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
        assert!(before.iter().all(|run_id| distinct.contains(run_id)));
    }
}

#[tokio::test]
async fn c35_ten_thousand_runs_of_one_moment_are_each_listed_once() {
    const RUNS: usize = 10_000;
    let (_dir, store) = relaxed();
    let recorder = start(&store, &RunId::generate()).await;
    let done = end(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &done).unwrap();
    let first = recorder.run_id().clone();
    let template = fs::read_to_string(store.path_of(&first)).unwrap();
    let mut expected = BTreeSet::from([first.clone()]);
    while expected.len() < RUNS {
        let run_id = RunId::generate();
        let text = template.replace(first.as_str(), run_id.as_str());
        fs::write(store.path_of(&run_id), text).unwrap();
        expected.insert(run_id);
    }
    let seen = walk(&store, &RunQuery::newest(7), |_| {});
    assert_eq!(seen.len(), RUNS);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
}

proptest! {
    #[test]
    fn no_text_makes_a_cursor_panic(text in ".{0,80}") {
        if let Ok(cursor) = text.parse::<Cursor>() {
            prop_assert_eq!(cursor.to_string(), text);
        }
    }
}
