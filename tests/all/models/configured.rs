//! Providers and keys as the operator sets them, by way of the binary.

use serde_json::json;
use skillrun_test_artifacts::GREET;

use super::configured;
use crate::harness::Home;

const KEY: &str = "sk-not-to-be-shown";

const SECTIONS: &str = "\
[secrets.S]
env = \"ACME_KEY\"
url = \"https://a/\"
header = \"x-key\"
[model_providers.acme]
api = \"openai\"
url = \"https://models.example/v1\"
key_env = \"ACME_KEY\"
retries_max = 1
prices.\"gpt-*\" = { input = 1, output = 2.5, cache_read = 0 }
[model_providers.filed]
api = \"anthropic\"
url = \"https://models.example/v1\"
key_file = \"filed.key\"
[model_providers.secret]
api = \"anthropic\"
url = \"https://models.example/v1\"
key_secret = \"S\"
[model_providers.open]
api = \"openai\"
url = \"http://127.0.0.1:8080/v1\"
[model_aliases]
default = \"acme/gpt-5\"
";

#[test]
fn providers_are_shown_without_their_keys() {
    let home = Home::new(&[]);
    home.configure(SECTIONS);
    std::fs::write(home.path().join("filed.key"), KEY).unwrap();
    for arguments in [
        vec!["config", "show", "--json"],
        vec!["config", "show"],
        vec!["config", "check"],
    ] {
        let ran = home.command(&arguments).env("ACME_KEY", KEY).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let (out, err) = (
            String::from_utf8(ran.stdout).unwrap(),
            String::from_utf8(ran.stderr).unwrap(),
        );
        assert!(!out.contains(KEY) && !err.contains(KEY), "{out} {err}");
        if arguments.len() < 3 {
            continue;
        }
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        for (key, value, source) in [
            ("model_providers.acme.api", "openai", "config"),
            (
                "model_providers.acme.url",
                "https://models.example/v1",
                "config",
            ),
            (
                "model_providers.acme.key",
                "from variable ACME_KEY",
                "config",
            ),
            ("model_providers.filed.key", "from file filed.key", "config"),
            ("model_providers.secret.key", "from secret S", "config"),
            ("model_providers.open.key", "none", "config"),
            ("model_providers.acme.retries_max", "1", "config"),
            ("model_providers.acme.timeout_ms", "120000", "default"),
            (
                "model_providers.acme.prices.gpt-*",
                "input 1  output 2.5  cache_read 0",
                "config",
            ),
            ("model_aliases.default", "acme/gpt-5", "config"),
        ] {
            let settings = document["settings"].as_array().unwrap().iter();
            let found = settings.clone().find(|setting| setting["key"] == key);
            let found = found.unwrap_or_else(|| panic!("{key}: {document}"));
            assert_eq!(
                (&found["value"], &found["source"]),
                (&json!(value), &json!(source)),
                "{key}"
            );
        }
    }
}

#[test]
fn a_key_that_is_not_there_stops_a_run_and_is_found_by_a_check() {
    let home = Home::new(&[GREET]);
    home.configure(SECTIONS);
    let ran = home
        .command(&["run", "greet", "--input", "{\"name\":\"Ada\"}"])
        .env("ACME_KEY", KEY)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(
        said.contains("cannot use the key of model_providers.filed") && said.contains("filed.key"),
        "{said}"
    );
    let checked = home.skillrun(&["config", "check", "--json"]);
    assert_eq!(checked.exit, Some(1));
    let findings = checked.json()["findings"].to_string();
    for part in [
        "model_providers.acme",
        "model_providers.filed",
        "model_providers.secret",
        "variable ACME_KEY is not set",
    ] {
        assert!(findings.contains(part), "{part}: {findings}");
    }
    assert!(!findings.contains("model_providers.open"), "{findings}");
}

#[test]
fn a_grant_for_a_provider_that_is_not_there_is_found() {
    let home = Home::new(&[]);
    home.configure(&format!(
        "[capabilities]\ngrant = [\"llm:*/*\", \"llm:open/x\", \"llm:absent/*\"]\n{}",
        SECTIONS.replace("filed.key", "/dev/null")
    ));
    let findings = home.skillrun(&["config", "check", "--json"]).json()["findings"].to_string();
    assert!(
        findings.contains("llm:absent/*: there is no [model_providers.absent]"),
        "{findings}"
    );
    assert!(!findings.contains("[model_providers.open]"), "{findings}");
}

/// The key stays out of the ledger also where nobody asked a model.
#[test]
fn a_key_is_kept_out_of_ledgers() {
    let home = Home::new(&[GREET]);
    home.configure(
        "[model_providers.acme]\napi = \"openai\"\nurl = \"http://127.0.0.1:1/v1\"\n\
         key_file = \"acme.key\"\n",
    );
    std::fs::write(home.path().join("acme.key"), format!("{KEY}\n")).unwrap();
    let (document, exit) = home.run_json("greet", &json!({ "name": KEY }));
    assert_eq!(exit, 0, "{document}");
    let run_id = document["run_id"].as_str().unwrap();
    let ledger = std::fs::read_to_string(home.ledger(run_id)).unwrap();
    assert!(!ledger.contains(KEY), "{ledger}");
    assert!(
        ledger.contains("[redacted:model_providers.acme]"),
        "{ledger}"
    );
}

#[test]
fn a_model_has_the_name_that_the_operator_gave_it() {
    let models = configured("openai", "http://127.0.0.1:1/v1", "");
    let resolve = |asked: &str| models.resolve(asked).map(|name| name.to_string());
    assert_eq!(resolve("default").as_deref(), Some("acme/large"));
    assert_eq!(resolve("acme/other/x").as_deref(), Some("acme/other/x"));
    assert_eq!(resolve("other"), None);
}
