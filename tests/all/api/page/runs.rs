//! Runs in the page: started, watched, answered, looked at again.

use serde_json::{Value, json};
use skillrun::ledger::Digest;
use skillrun::ledger::RunStatus;
use skillrun::runner::runtime_builder;

use super::super::streams::{begin, complete, log, store_of};
use super::*;
use crate::harness::{Reserved, eventually};

#[test]
fn a_run_is_started_by_form_watched_and_approved() {
    let home = home();
    let daemon = Daemon::start(&home);
    Script::start("approve.mjs", &daemon, &[]).run(|asked| {
        let (what, run_id) = asked.split_once(' ').unwrap();
        let path = format!("/api/agent/runs/{run_id}/approve");
        match what {
            "ask" => return started(&daemon, "/api/agent/runs", &question(run_id)),
            "hurry" => {
                let mut question = question(run_id);
                question["input"]["calls"][0]["timeout_ms"] = json!(HURRY_MS);
                return started(&daemon, "/api/agent/runs", &question);
            }
            // Somebody else is first.
            "answer" => {
                let decision = json!({ "decision": "reject", "reason": "there is no paper" });
                let answer = daemon.post(&path, &decision);
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            other => panic!("{other}"),
        }
        String::new()
    });
    let runs = daemon.get("/api/agent/runs").json();
    let approved = runs["runs"].as_array().unwrap().last().unwrap();
    let approved = approved["run_id"].as_str().unwrap();
    let answers = home.events_of(approved, "approval_response");
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["payload"]["approved"], true);
    assert_eq!(answers[0]["payload"]["reason"], "they are due");
    assert_eq!(answers[0]["payload"]["source"], "web");
    let started = &home.events_of(approved, "run_started")[0]["payload"];
    let question =
        json!({ "call": "ask", "prompt": "Send 3 letters?", "payload": "{\"letters\": 3}" });
    let input = json!({ "verb": "calls", "calls": [question] });
    assert_eq!(started["input"], input, "{started}");
}

/// Milliseconds until nobody has to answer any more: somebody has begun to write by then.
const HURRY_MS: u64 = 6_000;

/// A run of `probe` that asks a person.
fn question(prompt: &str) -> Value {
    let call = json!({ "call": "ask", "prompt": prompt, "payload": "{}" });
    json!({ "skill_name": "probe", "input": { "verb": "calls", "calls": [call] } })
}

fn started(client: &Client, path: &str, body: &Value) -> String {
    let answer = client.post(path, body).json();
    answer["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn the_list_is_a_tree_filtered_and_live() {
    let home = home();
    home.configure("[capabilities]\ngrant = [\"approval\", \"skill:greet\"]\n[runs]\non_restart = \"interrupt\"\n");
    home.write_manifest(
        "probe",
        "[capabilities]\nrequest = [\"approval\", \"skill:greet\"]\n",
    );
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let mut daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
    let client = Client::new(reserved.address);
    let greet = json!({ "call": "skill", "skill": "greet", "input": "{\"name\":\"Ada\"}" });
    let calls = json!({ "skill_name": "probe", "input": { "verb": "calls", "calls": [greet] } });
    let parent = started(&client, "/api/agent/runs?wait=true", &calls);
    let trap = json!({ "skill_name": "probe", "input": { "verb": "trap" } });
    let failed = started(&client, "/api/agent/runs?wait=true", &trap);
    let below = client
        .get(&format!("/api/agent/runs?parent={parent}"))
        .json();
    let child = below["runs"][0]["run_id"].as_str().unwrap();
    Script::start("list.mjs", &client, &[&parent, child, &failed]).run(|asked| {
        match asked.split_once(' ').unwrap_or((asked, "")) {
            ("begin", _) => return started(&client, "/api/agent/runs", &question("Go on?")),
            ("answer", run_id) => {
                let path = format!("/api/agent/runs/{run_id}/approve");
                let answer = client.post(&path, &json!({ "decision": "approve" }));
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            ("stop", _) => daemon = None,
            ("start", _) => daemon = Some(Daemon::of(&home, &mut home.command(&serve))),
            other => panic!("{other:?}"),
        }
        String::new()
    });
    drop(daemon);
}

#[test]
fn a_run_is_whole_over_a_reload_and_a_restart() {
    let home = home();
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let mut daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "watched");
    log(&recorder, "before");
    let client = Client::new(reserved.address);
    let run_id = recorder.run_id().to_string();
    eventually("a run that is listed", || {
        (client.get(&format!("/api/agent/runs/{run_id}")).status == 200).then_some(())
    });
    Script::start("cut_run.mjs", &client, &[&run_id]).run(|asked| {
        match asked {
            "stop" => {
                daemon = None;
                log(&recorder, "while nobody serves");
            }
            "start" => daemon = Some(Daemon::of(&home, &mut home.command(&serve))),
            "end" => {
                log(&recorder, "after");
                complete(&recorder, RunStatus::Ok);
            }
            other => panic!("{other}"),
        }
        String::new()
    });
    drop(daemon);
}

/// Runs that are listed in one test: as many as the page is made for.
const MANY: u64 = 100_000;

/// Copies a run of two lines under so many other ids, a second apart; gives the oldest.
fn multiply(home: &Home, run_id: &str) -> String {
    let text = fs::read_to_string(home.ledger(run_id)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [first, last] = lines[..] else {
        panic!("{text}");
    };
    let member = |line: &str, name: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line[name].as_str().unwrap().to_owned()
    };
    let (began, ended) = (member(first, "time"), member(last, "time"));
    let prev = member(last, "prev");
    let of = |number: u64| format!("run_0190{:08x}7000800000000000abcd", number * 1_000);
    for number in 0..MANY {
        let (id, seconds) = (of(number), number % 60);
        let (minutes, hours) = (number / 60 % 60, number / 3_600 % 24);
        let day = number / 86_400 + 1;
        let time = format!("2026-01-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.000000Z");
        let first = first.replace(run_id, &id).replace(&began, &time);
        let last = last.replace(run_id, &id).replace(&ended, &time);
        let last = last.replace(&prev, &Digest::of(first.as_bytes()).to_string());
        fs::write(home.ledger(&id), format!("{first}\n{last}\n")).unwrap();
    }
    of(0)
}

#[test]
fn very_many_runs_are_listed_page_by_page() {
    let home = home();
    let (document, exit) = home.run_json("probe", &json!({ "verb": "noop" }));
    assert_eq!(exit, 0, "{document}");
    let oldest = multiply(&home, document["run_id"].as_str().unwrap());
    let daemon = Daemon::start(&home);
    let count = MANY.to_string();
    let mut daemon = Some(daemon);
    let client = Client::new(daemon.as_ref().unwrap().address);
    Script::start("many.mjs", &client, &[&count, &oldest]).run(|asked| {
        assert_eq!(asked, "stop");
        daemon = None;
        String::new()
    });
}
