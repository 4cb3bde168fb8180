//! `triage` in its three languages, from end to end: a real MCP server, a server that speaks a model's wire
//! format, and an approval that another process gives.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use skillrun_test_artifacts::TRIAGE;

use super::examples::{TRIAGE_PY, TRIAGE_TS};
use super::foreign_skill::ForeignSkill;
use super::root;
use crate::harness::{Home, Ran};

/// The model of the example, which ends with the test.
pub(crate) struct Model {
    process: Child,
    url: String,
}

impl Model {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(python())
            .arg(root().join("examples/triage/model.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Self {
            process,
            url: url.trim().to_owned(),
        }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

pub(crate) fn python() -> PathBuf {
    root().join("target/toolchains/python/bin/python")
}

/// The ticket system and the model of the example, everything granted that `skill` asks for.
pub(crate) fn configure(home: &Home, skill: &str, model: &Model) {
    let tickets = [
        python(),
        root().join("examples/triage/tickets.py"),
        home.path().join("tickets.jsonl"),
    ];
    let command = json!(tickets);
    home.configure(&format!(
        r#"
[engine]
compile_time_ms = 600_000
[mcp_servers.tickets]
command = {command}
[model_providers.local]
api = "openai"
url = "{}"
prices."small" = {{ input = 1.0, output = 10.0 }}
[model_aliases]
default = "local/small"
[skills.{skill}]
grant = ["tool:tickets__*", "llm:local/*", "approval"]
"#,
        model.url
    ));
}

/// Runs the skill on a ticket and lets another process decide, if anything is asked.
pub(crate) fn triage(
    home: &Home,
    skill: &str,
    ticket: &Value,
    decision: Option<&str>,
) -> (Ran, String) {
    const RUN_ID: &str = "run_0190a0a0a0a07000800000000000000";
    let run_id = format!("{RUN_ID}{}", home.run_ids().len());
    let input = ticket.to_string();
    let running = home.start(&[
        "run", skill, "--json", "--run-id", &run_id, "--input", &input,
    ]);
    if let Some(decision) = decision {
        home.wait_for_event(&run_id, "approval_request");
        let open = home.skillrun(&["runs", "approvals", "--json"]).json();
        let prompt = format!(
            "Set ticket {} to high priority?",
            ticket["id"].as_str().unwrap()
        );
        assert_eq!(open["approvals"][0]["prompt"], prompt);
        let approve = [
            "runs",
            "approve",
            &run_id,
            "--decision",
            decision,
            "--reason",
            "seen",
        ];
        let decided = home.skillrun(&approve);
        assert_eq!(decided.exit, Some(0), "{decided:?}");
        let again = home.skillrun(&approve);
        assert_eq!(again.exit, Some(1), "{again:?}");
        assert!(again.stderr.contains("decided already"), "{again:?}");
    }
    (running.end(), run_id)
}

/// What a ledger has, without what differs from run to run: times, durations and ids.
fn shape(home: &Home, run_id: &str) -> Vec<String> {
    let shape = |event: &Value| {
        let payload = &event["payload"];
        let said: &[&str] = match event["type"].as_str().unwrap() {
            "node_enter" => &["node_id", "node_name"],
            "node_exit" => &["node_id", "success"],
            "tool_call" => &["call_id", "node_id", "name", "arguments", "effect", "kind"],
            "tool_result" => &["call_id", "node_id", "output", "is_error", "error"],
            "llm_call" => &[
                "call_id", "phase", "node_id", "model", "provider", "output", "error",
            ],
            "structured_output" => &["node_id", "output"],
            "approval_request" => &[
                "approval_id",
                "node_id",
                "prompt",
                "payload",
                "timeout_seconds",
            ],
            "approval_response" => &["approval_id", "node_id", "approved", "source", "reason"],
            "log" => &["level", "message", "fields"],
            "run_completed" => &["status", "code", "output"],
            _ => &[],
        };
        let said = said
            .iter()
            .map(|field| format!("{field}={}", payload[field]));
        let who = [event["source"].to_string(), event["type"].to_string()];
        who.into_iter().chain(said).collect::<Vec<_>>().join(" ")
    };
    home.events(run_id).iter().map(shape).collect()
}

fn written(home: &Home) -> String {
    fs::read_to_string(home.path().join("tickets.jsonl")).unwrap_or_default()
}

/// All that the skill can come to; gives the shape of the longest run.
fn triages(home: &Home, skill: &str) -> Vec<String> {
    let burning = json!({ "id": "T-1", "text": "Checkout is down" });
    let (ran, run_id) = triage(home, skill, &burning, Some("approve"));
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let expected = json!({
        "id": "T-1", "priority": "high", "summary": "Checkout is down", "approved": true, "applied": true,
    });
    assert_eq!(ran.json()["output"], expected);
    assert_eq!(written(home), "{\"id\": \"T-1\", \"priority\": \"high\"}\n");
    let verified = home.skillrun(&["runs", "verify", &run_id, "--json"]).json();
    assert_eq!(verified["verdict"], "ok");

    let (ran, rejected) = triage(home, skill, &burning, Some("reject"));
    let output = &ran.json()["output"];
    assert_eq!(
        (&output["approved"], &output["applied"]),
        (&json!(false), &json!(false))
    );
    let calls = home.events_of(&rejected, "tool_call");
    assert_eq!(calls.len(), 1, "nothing was written");

    let quiet = json!({ "id": "T-2", "text": "Colour of a button" });
    let (ran, _) = triage(home, skill, &quiet, None);
    let output = &ran.json()["output"];
    assert_eq!(
        (&output["approved"], &output["priority"]),
        (&json!(null), &json!("normal"))
    );
    assert_eq!(written(home).lines().count(), 2);
    shape(home, &run_id)
}

fn rust() -> Vec<String> {
    let model = Model::start();
    let home = Home::new(&[TRIAGE]);
    configure(&home, "triage", &model);
    triages(&home, "triage")
}

/// A home with a skill in another language installed.
pub(crate) fn installed(skill: &ForeignSkill) -> Home {
    let home = skill.home();
    copy(&skill.build(), &home.skill(skill.name));
    home
}

fn in_another_language(skill: &ForeignSkill) -> Vec<String> {
    let model = Model::start();
    let home = installed(skill);
    configure(&home, skill.name, &model);
    triages(&home, skill.name)
}

/// Copies what belongs to a skill of all that its build left.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in ["SKILL.md", "skill.toml", "skill.wasm"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn it_is_carried_out_with_a_tool_server_a_model_and_a_second_process() {
    let shape = rust();
    let kinds: Vec<_> = shape
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    let expected = [
        "run_started",
        "node_enter",
        "tool_call",
        "tool_result",
        "node_exit",
        "node_enter",
        "llm_call",
        "llm_call",
        "structured_output",
        "node_exit",
        "log",
        "node_enter",
        "approval_request",
        "approval_response",
        "node_exit",
        "node_enter",
        "tool_call",
        "tool_result",
        "node_exit",
        "run_completed",
    ];
    assert_eq!(
        kinds,
        expected.map(|kind| format!("{kind:?}")),
        "{shape:#?}"
    );
}

#[test]
fn in_typescript_it_leaves_the_same_record() {
    assert_eq!(in_another_language(&TRIAGE_TS), rust());
}

#[test]
fn in_python_it_leaves_the_same_record() {
    assert_eq!(in_another_language(&TRIAGE_PY), rust());
}

#[test]
fn its_run_reads_as_a_tree_with_durations_and_costs() {
    let model = Model::start();
    let home = Home::new(&[TRIAGE]);
    configure(&home, "triage", &model);
    let burning = json!({ "id": "T-1", "text": "Checkout is down" });
    let (_, run_id) = triage(&home, "triage", &burning, Some("approve"));
    let ran = home.skillrun(&["runs", "inspect", &run_id]);
    let line = |part: &str| {
        let line = ran.stdout.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("{part}: {ran:?}"))
    };
    let column = |part: &str| line(part).find(part).unwrap();
    assert!(column("tool_call ") > column("node_enter "), "{ran:?}");
    for (part, end) in [
        ("step:assess#2", "ok in "),
        ("tickets__search", "→ ["),
        ("local/small", " tokens, "),
        ("Set ticket T-1", "→ approved seen in "),
    ] {
        assert!(line(part).contains(end), "{part} {end}: {ran:?}");
    }
    // What ended on the line on which it began has no line of its own.
    for folded in ["node_exit", "tool_result", "approval_response"] {
        assert!(!ran.stdout.contains(folded), "{folded}: {ran:?}");
    }
    let events = home.events_of(&run_id, "llm_call");
    let cost = events[1]["payload"]["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0);
    let end = &home.events_of(&run_id, "run_completed")[0];
    assert_eq!(end["payload"]["cost_usd"], cost, "{end}");
    let listed = home.skillrun(&["--json", "runs", "list"]).json();
    assert_eq!(listed["runs"][0]["cost_usd"], cost, "{listed}");
    let took = ran.stdout.lines().last().unwrap();
    let (_, told) = took.rsplit_once(", ").unwrap();
    assert!(
        took.starts_with("models   1 call, ") && line("local/small").contains(told),
        "{ran:?}"
    );
    let told: f64 = told.strip_suffix(" USD").unwrap().parse().unwrap();
    assert!((told - cost).abs() < 1e-9, "{told} {cost}");
    let secretless = fs::read_to_string(home.ledger(&run_id)).unwrap();
    assert!(
        !secretless.contains(&model.url),
        "a ledger need not say where a model is"
    );
}
