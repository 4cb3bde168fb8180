//! A file that may be anything, read as a ledger in every way there is.
//!
//! No reader may panic, and they have to agree: what verifies as in order can be listed, followed and
//! exported to its end, and what recovery takes up verifies afterwards.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Entry, Position, Recorded, RunQuery, RunState, Store, StoreOptions, Verdict, record_file,
};
use tempfile::TempDir;
use tokio_runtime::block_on;

const RUN_ID: &str = "run_019e2236ae01700080000000000000a1";

fuzz_target!(|bytes: &[u8]| {
    let folder = folder();
    for entry in fs::read_dir(folder).unwrap() {
        let _folder = fs::remove_file(entry.unwrap().path());
    }
    let store = Store::open(StoreOptions {
        runs_dir: folder.to_owned(),
        durability: Durability::Relaxed,
        clock: Clock::manual(Timestamp::from_unix_micros(0)),
    })
    .unwrap();
    let run_id: RunId = RUN_ID.parse().unwrap();
    fs::write(store.path_of(&run_id), bytes).unwrap();

    let report = store.verify(&run_id, None).unwrap();
    let listing = store.list(&RunQuery::newest(10)).unwrap();
    assert_eq!(listing.runs.len(), 1);
    let mut follower = store.follow(&run_id, Position::default()).unwrap();
    let mut events = 0;
    while let Some(entry) = follower.next_entry().unwrap() {
        if let Entry::Record(record) = entry {
            events += 1;
            let _known = record.event();
        }
    }
    let is_in_order = matches!(report.verdict(), Verdict::Ok | Verdict::Running);
    if is_in_order && report.head.seq > 0 {
        assert_eq!(events, report.head.seq);
        assert_ne!(listing.runs[0].state, RunState::Corrupt);
        assert!(store.export(&run_id, &mut std::io::sink()).is_ok());
        read(&store.recorded(&run_id).unwrap());
    }
    // The same bytes as a file that may be an export.
    match record_file(&store.path_of(&run_id)) {
        Ok(recorded) => read(&recorded),
        Err(_) => assert!(!is_in_order || report.head.seq == 0),
    }
    let closed = block_on(store.close_abandoned()).unwrap();
    if closed.iter().any(|run| run.closed.is_ok()) {
        let verdict = store.verify(&run_id, None).unwrap().verdict();
        assert!(
            matches!(verdict, Verdict::Ok | Verdict::BlobsMissing),
            "{verdict}"
        );
    }
});

/// Reads whatever a replay may ask for.
fn read(recorded: &Recorded) {
    let _known = (recorded.started(), recorded.completed());
    let calls = recorded.calls().map(|(_, call)| call);
    let places = calls.flat_map(|call| {
        let ends = [call.call, call.result, call.denied].into_iter().flatten();
        ends.chain(call.pieces.iter().copied())
    });
    for place in places.chain(recorded.steps().iter().copied()) {
        let recalled = recorded.read(place).unwrap();
        assert_eq!(recalled.seq, place.seq);
        let _shown = recalled.shown();
        let _whole = recorded.whole(recalled);
    }
}

/// One folder for all inputs, in memory where there is such a place.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let memory = Path::new("/dev/shm");
    let made = FOLDER.get_or_init(|| {
        let made = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        made.unwrap()
    });
    made.path()
}

mod tokio_runtime {
    use std::sync::OnceLock;

    use tokio::runtime::Runtime;

    pub(super) fn block_on<F: Future>(future: F) -> F::Output {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME
            .get_or_init(|| Runtime::new().unwrap())
            .block_on(future)
    }
}
