//! What a skill asks for, what an operator grants in three places, and what comes out: one table, and
//! every surface that starts runs has to agree with it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::capability::Capability;
use skillrun::clock::Clock;
use skillrun::config::Config;
use skillrun::ledger::{Store, StoreOptions};
use skillrun::registry::Registry;
use skillrun::runner::{
    Caller, JsonObject, RunError, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions,
    StartOptions, Terms,
};
use skillrun_test_artifacts::PROBE;

use crate::api::daemon::Daemon;
use crate::harness::Home;
use crate::mcp::requests::meta;
use crate::mcp::wire::Wire;

/// What `skill.toml` asks for | `capabilities.grant` | `skills.probe.grant` | what the call grants | what the run
/// may do | what the guest tries | how that ends. `D` is a folder on the host, and lists are divided by `;`.
const ROWS: &str = "
                           |                 |                 |                 |                 | read  | skill_error
fs:ro:*=/d                 |                 |                 |                 |                 | read  | skill_error
                           | fs:ro:D=/d      | fs:ro:D=/d      | fs:ro:D=/d      |                 | read  | skill_error
fs:ro:*=/d                 | fs:ro:D=/d      |                 |                 | fs:ro:D=/d      | read  | ok
fs:ro:*=/d                 |                 | fs:ro:D=/d      |                 | fs:ro:D=/d      | read  | ok
fs:ro:*=/d                 |                 |                 | fs:ro:D=/d      | fs:ro:D=/d      | read  | ok
fs:ro:*=/d                 | fs:ro:D=/d      | fs:ro:D=/d      | fs:ro:D=/d      | fs:ro:D=/d      | read  | ok
fs:ro:*=/d                 |                 |                 | fs:rw:D=/d      | fs:ro:D=/d      | write | denied
fs:rw:*=/d                 |                 |                 | fs:ro:D=/d      | fs:ro:D=/d      | write | denied
fs:rw:*=/d                 |                 | fs:rw:D=/d      |                 | fs:rw:D=/d      | write | ok
fs:rw:*=/d                 | fs:ro:D=/d      |                 | fs:rw:D=/d      | fs:ro:D=/d;fs:rw:D=/d | write | ok
fs:rw:*=/d                 |                 |                 | fs:rw:D=/e      |                 | read  | skill_error
fs:rw:*=/d                 | fs:ro:D=/d      |                 | fs:rw:D/sub=/d  | fs:ro:D=/d;fs:rw:D/sub=/d | read | load_error
fs:rw:D=/d                 |                 |                 | fs:rw:D/sub=/d/sub | fs:rw:D/sub=/d/sub | write | skill_error
fs:ro:*=/d                 |                 |                 | fs:ro:D/none=/d | fs:ro:D/none=/d | noop  | load_error
tool:a__*                  |                 |                 |                 |                 | tool  | denied
                           | tool:a__*       |                 |                 |                 | tool  | denied
tool:a__*                  | tool:*          |                 |                 | tool:a__*       | tool  | ok
tool:a__*                  |                 | tool:a__b       |                 | tool:a__b       | tool  | ok
tool:a__c                  |                 |                 | tool:a__*       | tool:a__c       | tool  | denied
llm:*/*                    |                 |                 |                 |                 | model | denied
llm:*/*                    | llm:x/*         |                 |                 | llm:x/*         | model | ok
llm:x/z                    |                 | llm:x/*         |                 | llm:x/z         | model | denied
llm:*/y                    |                 |                 | llm:x/y         | llm:x/y         | model | ok
                           | skill:greet     |                 |                 |                 | skill | denied
skill:greet                |                 |                 | skill:greet     | skill:greet     | skill | ok
approval                   |                 |                 |                 |                 | ask   | denied
env:A_VARIABLE;approval    | env:A_VARIABLE  | approval        | env:OTHER       | env:A_VARIABLE;approval | noop | ok
";

/// One line of the table.
struct Row {
    request: Vec<String>,
    config: Vec<String>,
    skill: Vec<String>,
    call: Vec<String>,
    effective: Vec<String>,
    verb: Value,
    code: String,
}

/// What a surface gives: the id of the run and the code that it ended with; nothing where the call cannot be
/// made over it.
type Surface = fn(&Home, &Row) -> Option<(String, String)>;

/// Everything that starts runs on an operator's behalf.
const SURFACES: [(&str, Surface); 4] = [
    ("command line", command_line),
    ("library", library),
    ("HTTP", http),
    ("MCP", mcp),
];

fn rows(dir: &Path) -> Vec<Row> {
    let list = |cell: &str| -> Vec<String> {
        let with_dir = cell.replace(":D", &format!(":{}", dir.display()));
        let items = with_dir.split(';').filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    };
    let verb = |name: &str| match name {
        "read" => json!({ "verb": "read_file", "path": "/d/file" }),
        "write" => json!({ "verb": "write_file", "path": "/d/new", "text": "t" }),
        // Nobody is there to answer, which is no refusal.
        "tool" => insist(json!({ "call": "tool", "name": "a__b", "arguments": "{}" })),
        "model" => insist(json!({ "call": "model", "model": "x/y" })),
        "skill" => insist(json!({ "call": "skill", "skill": "greet", "input": "{}" })),
        "ask" => insist(json!({ "call": "ask", "prompt": "go on?", "payload": "{}" })),
        _ => json!({ "verb": "noop" }),
    };
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [request, config, skill, call, effective, name, code] = cells.try_into().unwrap();
        Row {
            request: list(request),
            config: list(config),
            skill: list(skill),
            call: list(call),
            effective: list(effective),
            verb: verb(name),
            code: code.to_owned(),
        }
    };
    ROWS.lines()
        .filter(|line| !line.is_empty())
        .map(row)
        .collect()
}

fn insist(on: Value) -> Value {
    json!({ "verb": "insist", "on": on })
}

fn command_line(home: &Home, row: &Row) -> Option<(String, String)> {
    let input = row.verb.to_string();
    let mut arguments = vec!["run", "probe", "--json", "--input", &input];
    for grant in &row.call {
        arguments.extend(["--grant", grant]);
    }
    let document = home.skillrun(&arguments).json();
    let text = |key: &str| document[key].as_str().unwrap().to_owned();
    Some((text("run_id"), text("code")))
}

/// Nobody grants anything over a network: what a call grants cannot even be said.
fn http(home: &Home, row: &Row) -> Option<(String, String)> {
    let daemon = Daemon::start(home);
    let path = "/api/agent/runs?wait=true";
    let mut body = json!({ "skill_name": "probe", "input": row.verb });
    if !row.call.is_empty() {
        body["grants"] = json!(row.call);
        assert_eq!(daemon.post(path, &body).problem(), "bad_request");
        return None;
    }
    let answer = daemon.post(path, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = |key: &str| answer.json()[key].as_str().unwrap().to_owned();
    Some((text("run_id"), text("code")))
}

/// Nor does a client of MCP: what it says of grants is no argument of its call.
fn mcp(home: &Home, row: &Row) -> Option<(String, String)> {
    if !row.call.is_empty() {
        return None;
    }
    let params = json!({
        "name": "probe", "arguments": row.verb, "grants": ["fs:rw:/=/d", "tool:*", "approval"], "_meta": meta(),
    });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let heard = Wire::stdio(home).ask(&call, 0, &|asked| panic!("{asked}"));
    let text = |places: [&str; 2]| {
        let found = places.iter().find_map(|place| heard.answer.pointer(place));
        let found = found.unwrap_or_else(|| panic!("{heard:?}"));
        found.as_str().unwrap().to_owned()
    };
    Some((
        text(["/result/_meta/skillrun~1run_id", "/error/data/run_id"]),
        text(["/result/_meta/skillrun~1code", "/error/data/code"]),
    ))
}

fn library(home: &Home, row: &Row) -> Option<(String, String)> {
    let config = Config::load(home.path()).unwrap();
    let clock = Clock::system();
    let registry = Registry::load(&config.skills_dir()).unwrap();
    let mut options = SkillExecutorOptions::from_config(&config, registry, clock.clone());
    options.instances_max = 1;
    let runner = Runner::new(RunnerOptions {
        store: Store::open(StoreOptions {
            runs_dir: config.runs_dir(),
            durability: config.durability,
            clock: clock.clone(),
        })
        .unwrap(),
        executor: Arc::new(SkillExecutor::new(options).unwrap()),
        admission: config.runs,
        clock,
    });
    let grants = row
        .call
        .iter()
        .map(|grant| grant.parse::<Capability>().unwrap());
    let options = StartOptions {
        terms: Terms {
            grants: grants.collect(),
            ..Terms::default()
        },
        ..StartOptions::new("probe", JsonObject::parse(row.verb.to_string()).unwrap())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    Some(match runtime.block_on(runner.run(Caller::new(), options)) {
        Ok(outcome) => (outcome.run_id.to_string(), outcome.code.to_string()),
        Err(RunError::Failed(failed)) => {
            (failed.run_id.to_string(), failed.error.code().to_string())
        }
        Err(error) => panic!("{error}"),
    })
}

/// Case C15: deny by default, and never more than both sides say.
#[test]
fn c15_every_surface_gives_what_is_asked_for_and_granted() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("file"), "content").unwrap();
    let home = Home::new(&[PROBE]);
    for row in rows(dir) {
        let manifest = format!("[capabilities]\nrequest = {}\n", json!(row.request));
        home.write_manifest("probe", &manifest);
        home.configure(&format!(
            "[capabilities]\ngrant = {}\n[skills.probe]\ngrant = {}\n",
            json!(row.config),
            json!(row.skill)
        ));
        for (name, run) in SURFACES {
            let Some((run_id, code)) = run(&home, &row) else {
                continue;
            };
            let what = format!("{name}: {:?} with {:?}", row.request, row.call);
            assert_eq!(code, row.code, "{what}");
            let started = &home.events_of(&run_id, "run_started")[0]["payload"];
            assert_eq!(
                started["policy"]["effective"],
                json!(row.effective),
                "{what}"
            );
            // Whatever was refused is on record as refused.
            let denied = home.events_of(&run_id, "denied").len();
            assert_eq!(denied > 0, code == "denied", "{what}");
            let _absent = fs::remove_file(dir.join("new"));
        }
    }
}

/// Whoever writes a folder chooses the name in it: what is granted to an installed skill by name is not
/// given to a folder that claims that name.
#[test]
fn a_grant_by_name_is_for_the_skill_that_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(&[PROBE]);
    home.write_manifest(
        "probe",
        "[capabilities]\nrequest = [\"approval\", \"skill:a\"]",
    );
    home.configure(
        "[capabilities]\ngrant = [\"skill:a\"]\n[skills.probe]\ngrant = [\"approval\"]\n\
         [skills.probe.limits]\nfuel = 7_000_000_000\n",
    );
    let stranger = folder.path().join("probe");
    fs::create_dir(&stranger).unwrap();
    for file in ["SKILL.md", "skill.toml", "skill.wasm"] {
        fs::copy(home.skill("probe").join(file), stranger.join(file)).unwrap();
    }
    let stranger = stranger.display().to_string();
    for (skill, effective, source) in [
        ("probe", json!(["approval", "skill:a"]), "skill"),
        (stranger.as_str(), json!(["skill:a"]), "default"),
    ] {
        let (document, exit) = home.run_json(skill, &json!({ "verb": "noop" }));
        assert_eq!(exit, 0, "{document}");
        let started = &home.events_of(document["run_id"].as_str().unwrap(), "run_started")[0];
        assert_eq!(
            started["payload"]["policy"]["effective"], effective,
            "{skill}"
        );
        assert_eq!(
            started["payload"]["limits"]["fuel"]["source"], source,
            "{skill}"
        );
    }
}
