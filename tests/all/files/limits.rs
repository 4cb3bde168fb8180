//! How much a guest may hold open, and how much it may write.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};

use super::{Place, Ran};

fn open(name: &str) -> Value {
    json!({ "call": "open", "dir": "/rw", "path": "mine", "flags": "rw", "name": name })
}

#[track_caller]
fn assert_reached(ran: &Ran, limit: &str) {
    assert_eq!(ran.document["code"], "host_call_limit", "{}", ran.document);
    let error = ran.document["error"].as_str().unwrap();
    assert!(error.contains(limit), "{error}");
    let hint = ran.document["hint"].as_str().unwrap();
    assert!(hint.contains("config.toml"), "{hint}");
}

/// The two folders count, and so does a stream whose file was let go of.
#[test]
fn open_files_are_bounded() {
    let place = Place::new();
    place.home.configure("[limits]\nopen_files = 8");
    let opens = |count: usize| (0..count).map(|n| open(&n.to_string())).collect::<Vec<_>>();
    let ran = place.run(&json!(opens(6)));
    assert_eq!(ran.document["code"], "ok", "{}", ran.document);
    assert_reached(&place.run(&json!(opens(7))), "open_files limit of 8");

    let again = json!([{ "call": "repeat", "times": 100, "calls": [
        open("a"),
        { "call": "read_stream", "file": "a" },
        { "call": "close", "name": "a" },
        { "call": "list", "dir": "/rw" },
        { "call": "folders" },
    ] }]);
    let ran = place.run(&again);
    assert_eq!(ran.document["code"], "ok", "{}", ran.document);

    let streams = json!([{ "call": "repeat", "times": 100, "calls": [
        open("a"),
        { "call": "keep_stream", "file": "a" },
        { "call": "close", "name": "a" },
    ] }]);
    assert_reached(&place.run(&streams), "open_files limit of 8");
}

/// What was too much is not written at all.
#[test]
fn bytes_written_to_files_are_bounded() {
    let place = Place::new();
    place.home.configure("[limits]\nfile_write_bytes = 100_000");
    let far = 1_u64 << 40;
    for (calls, bytes_max) in [
        (
            json!([{ "call": "write_stream", "file": "a", "offset": 0, "bytes": 1_000_000 }]),
            100_000,
        ),
        (
            json!([{ "call": "write", "file": "a", "offset": 0, "text": "x".repeat(100_001) }]),
            7,
        ),
        (json!([{ "call": "set_size", "file": "a", "size": far }]), 7),
        (
            json!([{ "call": "write", "file": "a", "offset": far, "text": "x" }]),
            7,
        ),
        (
            json!([{ "call": "write_stream", "file": "a", "offset": far, "bytes": 1 }]),
            7,
        ),
        // A stream that goes on behind the end of a file that was cut makes the hole anew.
        (
            json!([{ "call": "write_cut_write", "file": "a", "bytes": 60_000 }]),
            0,
        ),
        (
            json!([{ "call": "repeat", "times": 60, "calls": [
            { "call": "write", "file": "a", "offset": 0, "text": "x".repeat(2_000) },
        ] }]),
            2_000,
        ),
        (
            json!([{ "call": "repeat", "times": 500, "calls": [
            { "call": "mkdir", "dir": "/rw", "path": "d" },
            { "call": "rmdir", "dir": "/rw", "path": "d" },
        ] }]),
            7,
        ),
    ] {
        fs::write(place.path("rw/mine"), "rw/mine").unwrap();
        let calls: Vec<Value> = [open("a")]
            .into_iter()
            .chain(calls.as_array().unwrap().clone())
            .collect();
        assert_reached(
            &place.run(&json!(calls)),
            "file_write_bytes limit of 100000",
        );
        let bytes = fs::metadata(place.path("rw/mine")).unwrap().len();
        assert!(bytes <= bytes_max, "{bytes}: {calls:?}");
    }
}

/// A folder is listed in pages, whatever is in it.
#[test]
fn a_large_folder_is_listed_whole() {
    let place = Place::new();
    for number in 0..3_000 {
        fs::write(place.path(&format!("rw/sub/{number}")), "").unwrap();
    }
    let strange = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(place.path("rw/sub").join(strange), "").unwrap();
    let ran = place.run(&json!([
        { "call": "open", "dir": "/rw", "path": "sub", "flags": "rd", "name": "s" },
        { "call": "list", "dir": "s" },
        { "call": "list", "dir": "/ro" },
    ]));
    assert_eq!(ran.answers[1..], [json!([3_000, 1]), json!([5, 0])]);
}
