//! What is neither a file nor a folder: a guest gets none of it, and waits for none of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::Place;

fn make(path: &Path, kind: FileType, device: u64) -> bool {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).is_ok()
}

fn open(path: &str, flags: &str) -> Value {
    json!({ "call": "open", "dir": "/rw", "path": path, "flags": flags })
}

/// A pipe that nobody writes to would hold a thread of the host for ever, and a device does what it likes.
#[test]
fn pipes_sockets_and_devices_are_not_opened() {
    let place = Place::new();
    assert!(make(&place.path("rw/pipe"), FileType::Fifo, 0));
    symlink("pipe", place.path("rw/to-pipe")).unwrap();
    let _listening = UnixListener::bind(place.path("rw/socket")).unwrap();
    // Only root can make one, and not everywhere. This is the device that takes everything.
    let mut names = vec!["pipe", "to-pipe", "socket"];
    if make(
        &place.path("rw/device"),
        FileType::CharacterDevice,
        rustix::fs::makedev(1, 3),
    ) {
        names.push("device");
    }
    let calls: Vec<Value> = names
        .iter()
        .flat_map(|name| ["fr", "fw", "frw", "fc", "frt"].map(|flags| open(name, flags)))
        .collect();
    let ran = place.run(&json!(calls));
    assert_eq!(ran.answers.len(), calls.len(), "{}", ran.document);
    assert!(
        ran.answers.iter().all(|answer| answer == "!not-permitted"),
        "{:?}",
        ran.answers
    );
    assert_eq!(ran.denied.len(), calls.len());
    for denied in &ran.denied {
        assert_eq!(denied["rule"], "neither a file nor a folder");
    }
    // They can be seen, as everything that is there.
    let seen = place.run(&json!([{ "call": "list", "dir": "/rw" }]));
    assert_eq!(seen.answers[0], json!([5 + names.len(), 0]));
}

/// The pipe takes the place of a file between two calls.
#[test]
fn a_pipe_that_takes_the_place_of_a_file_is_not_waited_for() {
    let place = Place::new();
    let (file, pipe) = (place.path("file"), place.path("pipe"));
    let target = place.path("rw/target");
    let done = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::write(&file, "file").unwrap();
                fs::rename(&file, &target).unwrap();
                assert!(make(&pipe, FileType::Fifo, 0));
                fs::rename(&pipe, &target).unwrap();
            }
        });
        let ran = place.run(&json!([
            { "call": "repeat", "times": 5_000, "calls": [open("target", "fr")] },
            { "call": "repeat", "times": 5_000, "calls": [open("target", "fw")] },
        ]));
        done.store(true, Ordering::Relaxed);
        ran
    });
    assert_eq!(ran.document["code"], "ok", "{}", ran.document);
    let answers = ran.answers[0].as_array().unwrap();
    assert!(answers.contains(&json!("ok")) && answers.contains(&json!("!not-permitted")));
}
