//! A home that is wrong: its configuration, its folders, a disk without room.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Refusal, run_id};
use crate::harness::{Home, Ran, Running};

#[test]
fn a_wrong_configuration_stops_every_command_with_its_place() {
    let home = Home::new(&[GREET]);
    for (toml, says) in [
        ("[limit]\nfuel = 7", ["line 1", "`limit`"]),
        ("[limits]\nfuel = \"7\"", ["line 2", "expected i64"]),
        ("[limits]\nfuel = ", ["line 2", "fuel ="]),
        ("[limits]\nfuell = 7", ["config.toml", "\"fuell\""]),
        ("[limits]\nfuel = 0", ["fuel = 0", "expected 1 to"]),
        ("[limits]\nwall_time_ms = -5", ["wall_time_ms = -5", "1 to"]),
        ("[runs]\nat_once_max = 0", ["runs.at_once_max = 0", "1 to"]),
        ("[runs]\nat_once = 1", ["line 2", "`at_once`"]),
        ("[ledger]\ndurability = \"no\"", ["line 2", "durability"]),
        ("nonsense", ["line 1", "nonsense"]),
    ] {
        home.configure(toml);
        for arguments in [
            &["run", "greet"][..],
            &["runs", "list"],
            &["skills", "list"],
        ] {
            let says = [
                "invalid configuration in /",
                "config.toml",
                says[0],
                says[1],
            ];
            Refusal::usage(arguments).says(&says).check(&home);
        }
    }
    assert!(!home.path().join("runs").exists());
}

#[test]
fn a_configuration_that_cannot_be_read_is_not_passed_over() {
    let home = Home::new(&[GREET]);
    let config = home.path().join("config.toml");
    fs::create_dir(&config).unwrap();
    Refusal::usage(&["run", "greet"])
        .says(&["cannot read /", "config.toml", "not a regular file"])
        .check(&home);
    fs::remove_dir(&config).unwrap();
    fs::write(&config, b"# \xff").unwrap();
    Refusal::usage(&["run", "greet"])
        .says(&["cannot read /", "UTF-8"])
        .check(&home);
    fs::write(&config, vec![b'#'; 2 * 1024 * 1024]).unwrap();
    Refusal::usage(&["run", "greet"])
        .says(&["config.toml is too large", "at most 1048576"])
        .check(&home);
}

#[test]
fn a_file_where_the_runs_should_go_is_named_and_nothing_runs() {
    let home = Home::new(&[GREET]);
    let runs = home.path().join("runs");
    fs::write(&runs, "a file").unwrap();
    for arguments in [&["run", "greet"][..], &["runs", "list"]] {
        Refusal::new(arguments, 1, "internal")
            .says(&["runs", "Not a directory"])
            .check(&home);
    }
    assert_eq!(fs::read_to_string(&runs).unwrap(), "a file");
}

/// A run that writes far more than there is room for.
fn flood(run_id: &str) -> Vec<String> {
    let verb = json!({ "verb": "log_flood", "lines": 1_000, "text": "x".repeat(200) }).to_string();
    [
        "run", "probe", "--json", "--run-id", run_id, "--input", &verb,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// What has to be true of a run for which the room ended: it is said, every whole line is in order,
/// and nothing is glued to the half one.
#[track_caller]
fn assert_ended_for_want_of_room(home: &Home, run_id: &str, ran: &Ran) {
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let document = super::one_document(ran);
    assert_eq!(document["code"], "internal", "{document}");
    let error = document["error"].as_str().unwrap();
    assert!(error.contains("ledger unavailable"), "{error}");
    assert!(document["hint"].as_str().unwrap().contains("has room"));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);

    let ledger = fs::read(home.ledger(run_id)).unwrap();
    let whole = ledger.iter().filter(|byte| **byte == b'\n').count();
    assert!(whole > 10, "{whole}");
    let lines = ledger.split_inclusive(|byte| *byte == b'\n');
    for (line, seq) in lines.take(whole).zip(1_u64..) {
        let event: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(event["seq"], seq);
    }
    let verified = home.skillrun(&["--json", "runs", "verify", run_id]);
    let report = verified.json();
    assert_eq!(report["head"]["seq"], whole, "{report}");
    assert_eq!(report["line"], Value::Null, "{report}");
    let verdict = report["verdict"].as_str().unwrap();
    assert!(["torn", "running"].contains(&verdict), "{report}");
}

#[test]
fn a_file_that_may_not_grow_ends_the_run() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let mut limited = Command::new("bash");
    // The signal would end the process; without it the write fails, as on a full disk.
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_skillrun"))
        .args(flood(&id))
        .env("SKILLRUN_HOME", home.path())
        .stdin(Stdio::null());
    let ran = Running::of(&mut limited).end();
    assert_ended_for_want_of_room(&home, &id, &ran);
    let (document, exit) = home.run_json("probe", &json!({ "verb": "noop" }));
    assert_eq!(exit, 0, "{document}");
}

/// A file system of 64 KiB, where the machine lets us mount one.
struct TinyDisk<'a>(&'a Path);

impl<'a> TinyDisk<'a> {
    fn mount(folder: &'a Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], folder).then(|| Self(folder))
    }

    fn grow(&self) {
        assert!(mount(&["-o", "remount,size=1m"], self.0));
    }
}

fn mount(options: &[&str], folder: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(options).arg(folder).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_run_and_refuses_the_next_until_there_is_room() {
    let home = Home::new(&[PROBE]);
    let runs = home.path().join("runs");
    let Some(disk) = TinyDisk::mount(&runs) else {
        // Only the superuser can mount; the limit on a file's size is tried in the test above.
        return;
    };
    let id = run_id(1);
    let arguments = flood(&id);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = home.skillrun(&arguments);
    assert_ended_for_want_of_room(&home, &id, &ran);
    let ledger = fs::read(home.ledger(&id)).unwrap();

    let ran = home.skillrun(&["run", "probe", "--json", "--input", r#"{"verb":"noop"}"#]);
    let document = super::one_document(&ran);
    assert_eq!((ran.exit, &document["code"]), (Some(1), &json!("internal")));
    assert!(
        document["error"]
            .as_str()
            .unwrap()
            .contains("No space left"),
        "{document}"
    );
    assert_eq!(home.run_ids(), std::slice::from_ref(&id));

    disk.grow();
    let (document, exit) = home.run_json("probe", &json!({ "verb": "noop" }));
    assert_eq!(exit, 0, "{document}");
    assert_eq!(fs::read(home.ledger(&id)).unwrap(), ledger);
}

/// A file without an end, or one that somebody would have to write first, is no configuration.
#[test]
fn a_configuration_that_never_ends_is_refused_at_once() {
    let home = Home::new(&[]);
    let config = home.path().join("config.toml");
    std::os::unix::fs::symlink("/dev/zero", &config).unwrap();
    let check = Refusal::usage(&["config", "show"]).says(&["config.toml", "not a regular file"]);
    check.check(&home);
    fs::remove_file(&config).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &config,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    check.check(&home);
}
