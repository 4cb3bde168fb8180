//! Things of which there is exactly one, each in its place.

use super::assert_clean;
use super::paths::{self, NamedPath};
use super::tree::{RustFile, rust_files};

/// A thing that only certain files of `src/` may do.
struct Singleton {
    what: &'static str,
    is_use: fn(&NamedPath) -> bool,
    /// Files, or folders with a `/` at the end, where it may stand.
    places: &'static [&'static str],
    /// How often it may stand there; `None` for any number of times.
    count: Option<usize>,
}

const SINGLETONS: &[Singleton] = &[
    // Whoever would make a second one has to name the type, or call `new` beside the first.
    Singleton {
        what: "wasmtime's Config is named",
        is_use: |path| path.contains(&["wasmtime", "Config"]),
        places: &["src/executor/"],
        count: Some(1),
    },
    Singleton {
        what: "wasmtime's Config is made",
        is_use: |path| path.contains(&["Config", "new"]),
        places: &["src/executor/"],
        count: Some(1),
    },
    Singleton {
        what: "bindings are generated",
        is_use: |path| path.calls("bindgen"),
        places: &["src/executor/bindings.rs"],
        // One for each world.
        count: Some(2),
    },
    Singleton {
        what: "the time is read",
        is_use: |path| path.contains(&["SystemTime", "now"]) || path.contains(&["Instant", "now"]),
        places: &["src/clock.rs"],
        count: None,
    },
    Singleton {
        what: "standard output is written",
        is_use: |path| {
            path.contains(&["io", "stdout"])
                || ["println", "print", "dbg"]
                    .iter()
                    .any(|name| path.calls(name))
        },
        // A worker's standard output is a pipe that frames go through.
        places: &[
            "src/cli/printer.rs",
            "src/cli/commands/mcp.rs",
            "src/cli/commands/worker.rs",
        ],
        count: None,
    },
    Singleton {
        what: "standard error is written",
        is_use: |path| {
            path.contains(&["io", "stderr"])
                || ["eprintln", "eprint"].iter().any(|name| path.calls(name))
        },
        // Log lines go there too, but `telemetry` only says so to the subscriber.
        places: &["src/cli/printer.rs", "src/telemetry.rs"],
        count: None,
    },
    Singleton {
        what: "an HTTP status is chosen",
        is_use: |path| path.segments.iter().any(|name| name == "StatusCode"),
        // What a request over HTTP is answered, the MCP transport says too.
        places: &["src/api/", "src/mcp/http.rs"],
        count: None,
    },
];

fn check(files: &[RustFile], singleton: &Singleton) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut found = 0;
    for file in files.iter().filter(|file| file.path.starts_with("src/")) {
        let lines: Vec<usize> = paths::of(file)
            .iter()
            .filter(|path| (singleton.is_use)(path))
            .map(|path| path.line)
            .collect();
        found += lines.len();
        let is_in_place = singleton.places.iter().any(|place| {
            file.path == *place || place.ends_with('/') && file.path.starts_with(place)
        });
        if !is_in_place {
            let place = singleton.places.join(" or ");
            complaints.extend(lines.iter().map(|line| {
                format!(
                    "{}:{line}: {} here, not only in {place}",
                    file.path, singleton.what
                )
            }));
        }
    }
    if let Some(count) = singleton.count.filter(|count| *count != found) {
        complaints.push(format!(
            "{} {found} times instead of {count}",
            singleton.what
        ));
    }
    complaints
}

/// Ways to open a file for writing.
const OPENERS: &[[&str; 2]] = &[
    ["OpenOptions", "new"],
    ["File", "create"],
    ["File", "create_new"],
    ["File", "options"],
    ["fs", "open"],
    ["fs", "openat"],
];

/// Ledger files are opened for writing in one file of `src/ledger`, so that one writer owns each.
fn check_ledger_opener(files: &[RustFile]) -> Vec<String> {
    let opens = |path: &NamedPath| OPENERS.iter().any(|names| path.contains(names));
    let openers: Vec<&str> = files
        .iter()
        .filter(|file| file.top_module() == Some("ledger") && paths::of(file).iter().any(opens))
        .map(|file| file.path.as_str())
        .collect();
    match openers.as_slice() {
        [_] => Vec::new(),
        others => vec![format!(
            "ledger files are opened for writing in {others:?}, not in one file"
        )],
    }
}

#[test]
fn every_singleton_is_alone_and_in_its_place() {
    let files = rust_files().unwrap();
    for singleton in SINGLETONS {
        assert_clean(&check(&files, singleton));
    }
    assert_clean(&check_ledger_opener(&files));
}

#[test]
fn a_second_one_is_seen() {
    for (what, path, text) in [
        (
            "wasmtime's Config is named",
            "src/executor/a.rs",
            "fn f() { wasmtime::Config::default(); wasmtime::Config::new(); }",
        ),
        (
            "wasmtime's Config is made",
            "src/executor/a.rs",
            "fn f() { Config::new(); wasmtime::Config::new(); }",
        ),
        (
            "wasmtime's Config is made",
            "src/executor/a.rs",
            "fn f() {}",
        ),
        (
            "bindings are generated",
            "src/executor/bindings.rs",
            "bindgen!({}); bindgen!({}); wasmtime::component::bindgen!({});",
        ),
        (
            "the time is read",
            "src/ledger/a.rs",
            "fn f() { std::time::SystemTime::now(); }",
        ),
        (
            "the time is read",
            "src/ledger/a.rs",
            "fn f() { vec![Instant::now()]; }",
        ),
        (
            "standard output is written",
            "src/runner/a.rs",
            "fn f() { println!(); }",
        ),
        (
            "standard output is written",
            "src/cli/a.rs",
            "use std::io::{self, stdout};",
        ),
        (
            "standard error is written",
            "src/cli/a.rs",
            "fn f() { writeln!(io::stderr(), \"x\"); }",
        ),
        (
            "an HTTP status is chosen",
            "src/runner/a.rs",
            "use http::StatusCode;",
        ),
    ] {
        let file = RustFile::parse(path, text).unwrap();
        let singleton = SINGLETONS
            .iter()
            .find(|singleton| singleton.what == what)
            .unwrap();
        assert_eq!(check(&[file], singleton).len(), 1, "{what}: {text}");
    }
}

#[test]
fn a_second_opener_of_ledger_files_is_seen() {
    let open = "use std::fs::OpenOptions; fn f() { OpenOptions::new(); }";
    let one = RustFile::parse("src/ledger/a.rs", open).unwrap();
    let other = RustFile::parse("src/ledger/b.rs", "fn f() { fs::File::create(1); }").unwrap();
    let elsewhere = RustFile::parse("src/cli/c.rs", open).unwrap();
    assert_clean(&check_ledger_opener(&[one, elsewhere]));
    let one = RustFile::parse("src/ledger/a.rs", open).unwrap();
    assert_eq!(check_ledger_opener(&[one, other]).len(), 1);
}
