//! `skillrun runs replay` and `skillrun test --from-run`: runs that are done again from their records alone.

mod prefixes;
mod tampered;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun_test_artifacts::{FETCH, GREET, Guest, HANDOFF, NOTES, PROBE, TRIAGE};
use tempfile::TempDir;

use crate::harness::{Home, Ran};
use crate::http::server::{Server, ok};
use crate::wit::triage::{Model, configure, triage};

/// A record of `triage` with servers that are gone, and where what they did can be counted.
struct Recorded {
    home: Home,
    run_id: String,
    /// The record as an export has it.
    export: PathBuf,
    folder: TempDir,
}

impl Recorded {
    fn triage() -> Self {
        let model = Model::start();
        let home = Home::new(&[TRIAGE]);
        configure(&home, "triage", &model);
        let ticket = json!({ "id": "T-1", "text": "Checkout is down" });
        let (ran, run_id) = triage(&home, "triage", &ticket, Some("approve"));
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        Self::of(home, run_id)
    }

    fn of(home: Home, run_id: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let export = folder.path().join("export.jsonl");
        let arguments = ["runs", "export", &run_id, "-o", export.to_str().unwrap()];
        let exported = home.skillrun(&arguments);
        assert_eq!(exported.exit, Some(0), "{exported:?}");
        Self {
            home,
            run_id,
            export,
            folder,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.export).unwrap()
    }

    /// Another file with this text.
    fn file(&self, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join("other.jsonl");
        fs::write(&path, text).unwrap();
        path
    }
}

#[track_caller]
fn replayed(home: &Home, record: &str, more: &[&str]) -> (Value, Option<i32>) {
    let ran = home.skillrun(&[&["runs", "replay", record, "--json"], more].concat());
    (ran.json(), ran.exit)
}

#[track_caller]
fn assert_same(home: &Home, record: &str) -> Value {
    let ran = home.skillrun(&["runs", "replay", record, "--json"]);
    let document = ran.json();
    assert_eq!(
        (&document["verdict"], ran.exit),
        (&json!("same"), Some(0)),
        "{ran:?}"
    );
    document
}

fn str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn it_is_the_same_with_the_servers_gone_and_on_another_machine() {
    let recorded = Recorded::triage();
    let (home, run_id) = (&recorded.home, &recorded.run_id);
    let before = fs::read(home.ledger(run_id)).unwrap();
    let written = fs::read(home.path().join("tickets.jsonl")).unwrap();

    // The tool server would leave a trace if it were started, and the model is gone.
    let trace = home.path().join("started");
    let config = fs::read_to_string(home.path().join("config.toml")).unwrap();
    let command = format!("command = [\"touch\", {:?}]", str(&trace));
    let lines = config
        .lines()
        .map(|line| match line.starts_with("command =") {
            true => command.as_str(),
            false => line,
        });
    home.configure(&lines.collect::<Vec<_>>().join("\n"));
    let document = assert_same(home, run_id);
    assert_eq!(document["output"]["applied"], true);
    assert_eq!(document["code"], "ok");
    assert!(!trace.exists(), "no tool server is started");

    // A key that is not there stops every run, and no replay.
    home.configure("[model_providers.local]\napi = \"openai\"\nurl = \"http://127.0.0.1:1\"\nkey_file = \"gone\"\n");
    assert_same(home, run_id);
    assert_eq!(fs::read(home.ledger(run_id)).unwrap(), before);
    assert_eq!(
        fs::read(home.path().join("tickets.jsonl")).unwrap(),
        written
    );
    assert_eq!(home.run_ids(), [run_id.as_str()], "no run is recorded");

    let other = Home::new(&[TRIAGE]);
    assert_same(&other, str(&recorded.export));
    assert!(other.run_ids().is_empty());
    let shown = other.skillrun(&["runs", "replay", str(&recorded.export)]);
    assert_eq!(shown.stdout, format!("{run_id}: same, 20 events\n"));
}

/// Neither a ledger nor the state of the skills is changed: a skill that was never run is not accepted by this.
#[test]
fn a_replay_accepts_no_skill() {
    let home = Home::new(&[GREET]);
    let (document, _) = home.run_json("greet", &json!({ "name": "Ada" }));
    let run_id = document["run_id"].as_str().unwrap();
    let state = |home: &Home| {
        let pinned = home.skillrun(&["skills", "pin", "greet", "--json"]);
        pinned.stdout
    };
    let other = Home::new(&[GREET]);
    let before = state(&other);
    assert_same(&other, str(&home.ledger(run_id)));
    assert_eq!(state(&other), before);
    assert_ne!(state(&home), before, "a run does accept it");
}

#[test]
fn another_component_is_refused_with_both_digests_or_compared_by_a_test() {
    let recorded = Recorded::triage();
    for (from, to, event) in [
        // Another name of a step, other arguments, another question.
        ("find-similar", "find-similir", "node_enter"),
        ("query", "qwery", "tool_call"),
        ("to high priority?", "to this priority?", "approval_request"),
    ] {
        let changed = Changed::new(&recorded.home, &TRIAGE, from, to);
        let arguments = ["--skill", str(&changed.skill)];
        let (refused, exit) = replayed(&recorded.home, &recorded.run_id, &arguments);
        assert_eq!((exit, &refused["code"]), (Some(1), &json!("diverged")));
        let error = refused["error"].as_str().unwrap();
        for digest in [changed.digest(), digest_of(TRIAGE.wasm.as_ref())] {
            assert!(error.contains(&digest), "{error}");
        }

        for record in [&recorded.run_id, str(&recorded.export)] {
            let (verdicts, exit) = changed.test(&recorded.home, &[record]);
            assert_eq!(exit, Some(1));
            let verdict = &verdicts[0];
            assert_eq!(verdict["passed"], false, "{verdict}");
            let problems: Vec<&str> = verdict["problems"]
                .as_array()
                .unwrap()
                .iter()
                .map(|problem| problem.as_str().unwrap())
                .collect();
            let on_record = problems
                .iter()
                .find(|problem| problem.starts_with("on record: "));
            let now = problems.iter().find(|problem| problem.starts_with("now: "));
            let (on_record, now) = (on_record.unwrap(), now.unwrap());
            assert!(
                on_record.contains(event) && on_record.contains(from),
                "{verdict}"
            );
            assert!(now.contains(event) && now.contains(to), "{verdict}");
        }
    }

    // A change that nobody sees is none.
    let changed = Changed::new(
        &recorded.home,
        &TRIAGE,
        "cannot search for",
        "could not seek in",
    );
    let (verdicts, exit) = changed.test(&recorded.home, &[&recorded.run_id, str(&recorded.export)]);
    assert_eq!((exit, verdicts.len()), (Some(0), 2), "{verdicts:?}");
    assert_eq!(
        (&verdicts[0]["passed"], &verdicts[0]["code"]),
        (&json!(true), &json!("ok"))
    );
}

/// A project with a skill that was built from other sources than an installed one.
struct Changed {
    project: TempDir,
    skill: PathBuf,
}

impl Changed {
    /// As if a text in the sources had been another one of the same length.
    fn new(home: &Home, guest: &Guest, from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len());
        let project = tempfile::tempdir().unwrap();
        let skill = project.path().join("dist").join(guest.name);
        fs::create_dir_all(&skill).unwrap();
        let installed = home.skill(guest.name);
        for file in ["SKILL.md", "skill.toml"] {
            fs::copy(installed.join(file), skill.join(file)).unwrap();
        }
        fs::copy(installed.join("SKILL.md"), project.path().join("SKILL.md")).unwrap();
        let mut wasm = fs::read(guest.wasm).unwrap();
        let places: Vec<usize> = (0..wasm.len() - from.len())
            .filter(|&at| wasm[at..].starts_with(from.as_bytes()))
            .collect();
        assert!(!places.is_empty(), "{from}");
        for at in places {
            wasm[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        fs::write(skill.join("skill.wasm"), wasm).unwrap();
        Self { project, skill }
    }

    fn digest(&self) -> String {
        digest_of(&self.skill.join("skill.wasm"))
    }

    /// The verdicts without the total.
    fn test(&self, home: &Home, records: &[&str]) -> (Vec<Value>, Option<i32>) {
        let mut arguments = vec!["test", "--json", "--no-build", str(self.project.path())];
        for record in records {
            arguments.extend(["--from-run", record]);
        }
        let ran = home.skillrun(&arguments);
        let lines = ran.stdout.lines();
        let mut lines: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let total = lines.pop().unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(total["cases"], records.len(), "{ran:?}");
        (lines, ran.exit)
    }
}

fn digest_of(path: &Path) -> String {
    skillrun::ledger::Digest::of(&fs::read(path).unwrap()).to_string()
}

#[test]
fn runs_inside_have_records_of_their_own() {
    let home = Home::new(&[GREET, HANDOFF]);
    home.configure("[skills.handoff]\ngrant = [\"skill:greet\"]\n");
    for parallel in [false, true] {
        let steps =
            ["Ada", "Bob"].map(|name| json!({ "skill": "greet", "input": { "name": name } }));
        let input = json!({ "steps": steps, "parallel": parallel });
        let (document, _) = home.run_json("handoff", &input);
        let run_id = document["run_id"].as_str().unwrap();
        let other = Home::new(&[HANDOFF]);
        let ledger = home.ledger(run_id);
        let replayed = assert_same(&other, str(&ledger));
        assert_eq!(replayed["runs_inside"], 2);
        let shown = other.skillrun(&["runs", "replay", str(&ledger)]);
        assert!(
            shown
                .stderr
                .contains("runs inside it: 2; each has a record of its own"),
            "{shown:?}"
        );
        let inside = home
            .skillrun(&["runs", "list", "--parent", run_id, "--json"])
            .json();
        let child = inside["runs"][0]["run_id"].as_str().unwrap();
        assert_same(&home, child);
    }
}

/// A folder is there again only if it is given, and is only read whatever the run could do.
#[test]
fn folders_are_given_again_and_only_to_read() {
    let home = Home::new(&[NOTES]);
    let notes = tempfile::tempdir().unwrap();
    fs::write(notes.path().join("a.txt"), "one\n").unwrap();
    home.configure(&format!(
        "[skills.notes]\ngrant = [\"fs:rw:{}=/notes\"]\n",
        str(notes.path())
    ));
    let (document, exit) = home.run_json("notes", &json!({ "do": "list" }));
    assert_eq!(exit, 0, "{document}");
    let run_id = document["run_id"].as_str().unwrap();

    let (document, exit) = replayed(&home, run_id, &[]);
    assert_eq!(
        (exit, &document["verdict"]),
        (Some(1), &json!("diverged")),
        "{document}"
    );
    let missing = document["folders_missing"][0].as_str().unwrap();
    assert_eq!(missing, format!("fs:rw:{}=/notes", str(notes.path())));

    // It may be in another place by now.
    let moved = tempfile::tempdir().unwrap();
    fs::copy(notes.path().join("a.txt"), moved.path().join("a.txt")).unwrap();
    for folder in [notes.path(), moved.path()] {
        let grant = format!("fs:rw:{}=/notes", str(folder));
        let (document, exit) = replayed(&home, run_id, &["--grant", &grant]);
        assert_eq!(
            (exit, &document["verdict"]),
            (Some(0), &json!("same")),
            "{document}"
        );
    }
    // What the run did not have, it does not get.
    let grant = format!("fs:ro:{}=/other", str(notes.path()));
    let (document, _) = replayed(&home, run_id, &["--grant", &grant]);
    assert_eq!(document["verdict"], "diverged");
    let refused = home.skillrun(&["runs", "replay", run_id, "--grant", "tool:*"]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");

    let note = json!({ "do": "add", "title": "b", "text": "two" });
    let (document, exit) = home.run_json("notes", &note);
    assert_eq!(exit, 0, "{document}");
    let wrote = document["run_id"].as_str().unwrap();
    fs::remove_file(notes.path().join("b.txt")).unwrap();
    let grant = format!("fs:rw:{}=/notes", str(notes.path()));
    let (document, _) = replayed(&home, wrote, &["--grant", &grant]);
    assert_eq!(document["verdict"], "diverged", "{document}");
    assert!(
        !notes.path().join("b.txt").exists(),
        "nothing is ever written"
    );
}

#[test]
fn random_numbers_clocks_and_variables_are_those_on_record() {
    let home = Home::new(&[PROBE]);
    let list = json!(["env:SKILLRUN_REPLAY"]);
    home.write_manifest("probe", &format!("[capabilities]\nrequest = {list}\n"));
    home.configure(&format!("[skills.probe]\ngrant = {list}\n"));
    for verb in [json!({ "verb": "ambient" }), json!({ "verb": "about" })] {
        let input = verb.to_string();
        let mut command = home.command(&["run", "probe", "--json", "--input", &input]);
        let ran = Ran::of(command.env("SKILLRUN_REPLAY", "then").output().unwrap());
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        let then = ran.json();
        let document = assert_same(&home, then["run_id"].as_str().unwrap());
        assert_eq!(document["output"], then["output"]);
    }
}

/// A request that got a secret is found again where there is none, and nothing is sent.
#[test]
fn a_request_with_a_secret_is_answered_without_one() {
    let server = Server::answering(ok("hello"));
    let home = Home::new(&[FETCH]);
    let key = home.path().join("key");
    fs::write(&key, "hunter2-hunter2-hunter2").unwrap();
    let list = json!([server.net("/#GET"), "secret:api"]);
    home.write_manifest(
        "fetch",
        &format!("[component]\nworld = \"0.1\"\n[capabilities]\nrequest = {list}\n"),
    );
    home.configure(&format!(
        "[skills.fetch]\ngrant = {list}\n[secrets.api]\nfile = {key:?}\nurl = \"{}\"\nheader = \"Authorization\"\n",
        server.url("/")
    ));
    let (document, exit) = home.run_json("fetch", &json!({ "url": server.url("/a") }));
    assert_eq!(exit, 0, "{document}");
    let run_id = document["run_id"].as_str().unwrap();
    assert!(server.seen()[0].header("authorization").is_some());
    let other = Home::new(&[FETCH]);
    let again = assert_same(&other, str(&home.ledger(run_id)));
    assert_eq!(again["output"], json!({ "status": 200, "text": "hello" }));
    fs::remove_file(key).unwrap();
    assert_same(&home, run_id);
    assert_eq!(server.seen().len(), 1, "nothing is sent");
}

#[test]
fn timers_are_not_waited_for() {
    let home = Home::new(&[PROBE]);
    let steps = json!([{ "step": "timer", "ms": 10_000 }, { "step": "poll" }, { "step": "look" }]);
    let begun = Clock::system().stopwatch();
    let (document, exit) = home.run_json("probe", &json!({ "verb": "time", "do": steps }));
    assert_eq!(exit, 0, "{document}");
    let lived = begun.elapsed();
    let begun = Clock::system().stopwatch();
    let again = assert_same(&home, document["run_id"].as_str().unwrap());
    assert_eq!(again["output"], document["output"]);
    // Which took as long as the timer, and what a process takes on this machine now.
    let replayed = begun.elapsed();
    assert!(
        replayed < lived,
        "{replayed:?}: expected less than {lived:?}"
    );
}

#[test]
fn a_run_that_failed_fails_again() {
    let home = Home::new(&[PROBE]);
    for verb in [
        json!({ "verb": "fail", "message": "no", "code": "odd" }),
        json!({ "verb": "trap" }),
        json!({ "verb": "panic", "message": "no" }),
        json!({ "verb": "nodes", "names": ["a", "b"] }),
        json!({ "verb": "alloc" }),
        json!({ "verb": "tool", "name": "a__b" }),
        json!({ "verb": "model", "name": "local/small" }),
        json!({ "verb": "no such verb" }),
        json!({ "verb": "log_flood", "lines": 20_000, "text": "x".repeat(100) }),
    ] {
        let (document, _) = home.run_json("probe", &verb);
        let replayed = assert_same(&home, document["run_id"].as_str().unwrap());
        assert_eq!(replayed["code"], document["code"], "{verb}");
    }
}

#[test]
fn a_run_that_was_out_of_time_is_the_same_as_far_as_the_record_goes() {
    let home = Home::new(&[PROBE]);
    let input = json!({ "verb": "spin" }).to_string();
    let arguments = [
        "run",
        "probe",
        "--json",
        "--timeout",
        "100ms",
        "--input",
        &input,
    ];
    let ran = home.skillrun(&arguments);
    assert_eq!(ran.exit, Some(4), "{ran:?}");
    let (document, exit) = replayed(&home, ran.json()["run_id"].as_str().unwrap(), &[]);
    assert_eq!(exit, Some(0), "{document}");
    assert_ne!(document["verdict"], "diverged", "{document}");
}
