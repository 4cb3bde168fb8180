//! Which folders and variables a guest has, and when it is given none.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::ask;
use crate::harness::Home;

const CA: &str = include_str!("../http/tls/ca.pem");

/// A run of the probe with grants.
fn run(home: &Home, grants: &[String], verb: &Value) -> Value {
    let input = verb.to_string();
    let mut arguments = vec!["run", "probe", "--json", "--input", &input];
    for grant in grants {
        arguments.extend(["--grant", grant]);
    }
    home.skillrun(&arguments).json()
}

#[track_caller]
fn assert_refused(document: &Value, says: &str, hint: &str) {
    assert_eq!(document["code"], "load_error", "{document}");
    let error = document["error"].as_str().unwrap();
    assert!(error.contains(says), "{error}");
    let given = document["hint"].as_str().unwrap();
    assert!(given.contains(hint), "{given}");
}

#[test]
fn a_folder_that_cannot_be_opened_stops_the_run() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["fs:rw:*=/x"]);
    let place = tempfile::tempdir().unwrap();
    let (none, file) = (place.path().join("none"), place.path().join("file"));
    fs::write(&file, "").unwrap();
    let noop = json!({ "verb": "noop" });
    for (path, says) in [(&none, "No such file"), (&file, "Not a directory")] {
        let grant = format!("fs:rw:{}=/x", path.display());
        let document = run(&home, std::slice::from_ref(&grant), &noop);
        assert_refused(&document, says, "--grant");
        assert!(document["error"].as_str().unwrap().contains(&grant));
        home.configure(&format!("[skills.probe]\ngrant = [\"{grant}\"]"));
        assert_refused(&run(&home, &[], &noop), says, "skills.<name>.grant");
        home.configure(&format!("[capabilities]\ngrant = [\"{grant}\"]"));
        assert_refused(&run(&home, &[], &noop), says, "capabilities.grant");
        home.configure("");
    }
}

/// A guest must not come near its own record, the grants, or the code of skills.
#[test]
fn nothing_of_skillruns_own_is_given_away() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["fs:rw:*=/x", "fs:ro:*=/y"]);
    let place = tempfile::tempdir().unwrap();
    let own = home.path().canonicalize().unwrap();
    let links = [("home", own.clone()), ("runs", own.join("runs"))];
    for (name, target) in &links {
        symlink(target, place.path().join(name)).unwrap();
    }
    let secret = place.path().join("secrets/token");
    fs::create_dir(place.path().join("secrets")).unwrap();
    fs::write(&secret, "hush-hush").unwrap();
    // Relative paths begin in the home folder.
    for (file, text) in [("keys/token", "hush-hush"), ("certs/ca.pem", CA)] {
        fs::create_dir(own.join(file).parent().unwrap()).unwrap();
        fs::write(own.join(file), text).unwrap();
    }
    let place_of_secret = "url = \"https://example.com/\"\nheader = \"authorization\"";
    home.configure(&format!(
        "[http]\nca_file = \"certs/ca.pem\"\n\
        [secrets.TOKEN]\nfile = \"{}\"\n{place_of_secret}\n\
        [secrets.KEY]\nfile = \"keys/token\"\n{place_of_secret}",
        secret.display()
    ));
    fs::create_dir_all(own.join("cache")).unwrap();
    let noop = json!({ "verb": "noop" });
    for folder in [
        own.parent().unwrap().to_owned(),
        own.clone(),
        own.join("runs"),
        own.join("skills"),
        own.join("skills/probe"),
        own.join("cache"),
        own.join("keys"),
        own.join("certs"),
        place.path().join("home"),
        place.path().join("runs"),
        place.path().join("secrets"),
    ] {
        for (access, guest) in [("rw", "/x"), ("ro", "/y")] {
            let grant = format!("fs:{access}:{}={guest}", folder.display());
            let document = run(&home, &[grant], &noop);
            assert_refused(&document, "it would reach", "skillrun's own");
        }
    }
    // A folder of one's own beside them is one's own.
    fs::create_dir(own.join("data")).unwrap();
    let grant = format!("fs:rw:{}=/x", own.join("data").display());
    assert_eq!(run(&home, &[grant], &noop)["code"], "ok");
}

/// Somebody on the host swaps a folder for a link to what is protected, again and again, while runs begin:
/// a run gets the one or is refused the other.
#[test]
fn a_swap_while_a_run_begins_gives_nothing_away() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["fs:ro:*=/x"]);
    home.configure("# its own");
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (plain, granted, other) = (path("plain"), path("granted"), path("other"));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("config.toml"), "plain").unwrap();
    symlink(&plain, &granted).unwrap();
    symlink(home.path().canonicalize().unwrap(), &other).unwrap();
    let grant = format!("fs:ro:{}=/x", granted.display());
    let read = json!({ "verb": "read_file", "path": "/x/config.toml" });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (from, to) = (&granted, &other);
                renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let seen: Vec<Value> = (0..40)
            .map(|_| run(&home, std::slice::from_ref(&grant), &read))
            .collect();
        done.store(true, Ordering::Relaxed);
        for document in &seen {
            match document["code"].as_str() {
                Some("ok") => assert_eq!(document["output"], "plain", "{document}"),
                _ => assert_refused(document, "it would reach", "skillrun's own"),
            }
        }
        let given = seen.iter().filter(|document| document["code"] == "ok");
        assert!((1..40).contains(&given.count()));
    });
}

#[test]
fn two_folders_at_one_place_are_refused_and_one_inside_another_is_not() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["fs:rw:*=/x", "fs:rw:*=/x/y"]);
    let place = tempfile::tempdir().unwrap();
    let dir = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    };
    let (one, other) = (dir("one"), dir("other"));
    let noop = json!({ "verb": "noop" });
    let both = [format!("fs:ro:{one}=/x"), format!("fs:rw:{other}=/x")];
    let document = run(&home, &both, &noop);
    assert_refused(&document, "two folders are granted for /x", "--grant");

    // The same folder twice: what is granted adds up.
    let twice = [format!("fs:ro:{one}=/x"), format!("fs:rw:{one}=/x")];
    let write = |path: &str| json!({ "verb": "write_file", "path": path, "text": "t" });
    assert_eq!(run(&home, &twice, &write("/x/a"))["code"], "ok");

    // One inside another: the deeper one is what is seen there.
    let nested = [format!("fs:ro:{one}=/x"), format!("fs:rw:{other}=/x/y")];
    assert_eq!(run(&home, &nested, &write("/x/b"))["code"], "denied");
    assert_eq!(run(&home, &nested, &write("/x/y/b"))["code"], "ok");
    assert!(place.path().join("other/b").exists());
    assert!(!place.path().join("one/b").exists());
}

/// Neither arguments, nor standard input, nor the folder that the host works in, nor any variable but
/// those that were asked for and granted.
#[test]
fn nothing_of_the_process_is_seen() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["env:GIVEN", "env:NOT_GRANTED", "env:NOT_SET"]);
    let input = r#"{"verb":"ambient"}"#;
    let arguments = [
        "run",
        "probe",
        "--json",
        "--input",
        input,
        "--grant",
        "env:GIVEN",
        "--grant",
        "env:NOT_ASKED_FOR",
        "--grant",
        "env:NOT_SET",
    ];
    let ran = {
        let mut command = home.command(&arguments);
        for name in ["GIVEN", "NOT_GRANTED", "NOT_ASKED_FOR", "OTHER"] {
            command.env(name, format!("value of {name}"));
        }
        command.stdin(fs::File::open(home.skill("probe").join("SKILL.md")).unwrap());
        let output = command.output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let seen = &ran["output"];
    assert_eq!(seen["env"], json!([["GIVEN", "value of GIVEN"]]));
    assert_eq!(seen["args"], json!([]));
    assert_eq!(seen["cwd"], Value::Null);
    assert_eq!(seen["stdin"], "");
    assert_eq!(seen["root"], json!([]));
}

/// What the kernel shows as files is none: it holds the variables and the memory of this very process.
#[test]
fn folders_of_the_kernel_are_not_given_away() {
    let home = Home::new(&[PROBE]);
    ask(&home, &["fs:ro:*=/p"]);
    for folder in ["/proc/self", "/proc", "/sys"] {
        let grant = format!("fs:ro:{folder}=/p");
        let input = json!({ "verb": "noop" }).to_string();
        let arguments = [
            "run", "probe", "--json", "--grant", &grant, "--input", &input,
        ];
        let document = home.skillrun(&arguments).json();
        assert_eq!(document["code"], "load_error", "{document}");
        let error = document["error"].as_str().unwrap();
        assert!(error.contains("which is no place for files"), "{error}");
    }
}
