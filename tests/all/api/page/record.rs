//! What takes a whole ledger to say, on the page.

use serde_json::json;

use super::*;
use crate::harness::eventually;

#[test]
fn a_ledger_is_explained_verified_replayed_and_gone_on_from() {
    let home = home();
    let config = fs::read_to_string(home.path().join("config.toml")).unwrap();
    home.configure(&format!("{config}[limits]\nllm_cost_microusd = 10_000\n"));
    let probe = home.skill("probe");
    fs::remove_file(probe.join("input.json")).unwrap();
    home.write_manifest("probe", "");
    let daemon = Daemon::start(&home);
    let started = |input: serde_json::Value| {
        let body = json!({ "skill_name": "probe", "input": input });
        let ended = daemon.post("/api/agent/runs?wait=true", &body).json();
        ended["run_id"].as_str().unwrap().to_owned()
    };
    let failed = started(json!({ "verb": "report_model", "tokens": 1, "cost_usd": 0.02 }));
    started(json!({ "verb": "report_model", "tokens": 1, "cost_usd": 0.005 }));
    let value = "<b>ü</b>".repeat(20_000);
    let large = started(json!({ "verb": "echo", "value": value }));
    let stepped = started(json!({ "verb": "nodes", "names": ["one", "two"] }));
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&failed, &large, &stepped, folder.path().to_str().unwrap()];
    Script::start("record.mjs", &daemon, &arguments).run(|asked| match asked {
        "download" => eventually("a file that is there as a whole", || {
            let file = fs::read_dir(folder.path()).unwrap().next()?.unwrap();
            let kept: serde_json::Value =
                serde_json::from_slice(&fs::read(file.path()).unwrap()).ok()?;
            (kept["value"] == value || kept == value).then(|| "whole".to_owned())
        }),
        "damage" => {
            let ledger = fs::read_to_string(home.ledger(&large)).unwrap();
            fs::write(home.ledger(&large), ledger.replacen("probe", "prode", 1)).unwrap();
            String::new()
        }
        other => panic!("{other}"),
    });
    let runs = daemon.get("/api/agent/runs").json();
    let again = &runs["runs"][0]["run_id"];
    let started = &home.events_of(again.as_str().unwrap(), "run_started")[0]["payload"];
    assert_eq!(started["resumed_from"], json!(stepped), "{started}");
}
