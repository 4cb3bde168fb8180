//! The matrix of attacks: what a guest tries, what holds it, and how the run ends. Each row is a verb of
//! `guest-skills/probe`, run through the real binary; `docs/security.md` shows the same rows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use crate::harness::Home;
use crate::http::server::Server;

mod attacks;

use attacks::ATTACKS;

/// Where the matrix stands in the document.
const MATRIX_START: &str = "<!-- The matrix is made by tests/all/security.rs. -->\n";
const MATRIX_END: &str = "<!-- End of the matrix. -->\n";

/// The value of the secret `KEY`.
const KEY: &str = "hunter2-hunter2-hunter2";

/// Set to write the matrix instead of comparing it.
const BLESS: &str = "SKILLRUN_BLESS";

/// One row.
struct Attack {
    /// What the guest tries, for people.
    tries: &'static str,
    /// The verb and its arguments, as JSON.
    verb: &'static str,
    /// What it asks for and is granted; `DIR` stands for a folder of the host, `ECHO` here and in the verb
    /// for a server that sends back the secret `KEY`, which it gets.
    grants: &'static [&'static str],
    /// The limit, as it is configured; empty: the default one, or none.
    limit: &'static str,
    /// The outcome code.
    code: &'static str,
    /// The exit code.
    exit: i32,
    /// A part of the message: the limit and its value, the capability, or what the guest said.
    says: &'static str,
}

/// Cases C1, C2, C4, C7 and C8, and every limit: each attack has its own code, a message that names the
/// limit, its value and where it was set, an explanation that says the same, and a ledger that is whole.
#[test]
fn every_attack_ends_as_the_matrix_says() {
    for attack in ATTACKS {
        let home = Home::new(&[PROBE]);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "content").unwrap();
        let dir = dir.path().display().to_string();
        let echo = echo();
        let echo_at = echo.address.to_string();
        let placed = |text: &str| text.replace("DIR", &dir).replace("ECHO", &echo_at);
        let grants = attack.grants.iter().map(|grant| placed(grant));
        let grants = json!(grants.collect::<Vec<_>>());
        home.write_manifest("probe", &format!("[capabilities]\nrequest = {grants}\n"));
        home.configure(&format!(
            "[skills.probe]\ngrant = {grants}\n[limits]\n{}\n{}",
            attack.limit,
            secret(&home, &echo),
        ));
        let verb: Value = serde_json::from_str(&placed(attack.verb)).unwrap();
        let (document, exit) = home.run_json("probe", &verb);
        assert_eq!(
            (&document["code"], exit),
            (&json!(attack.code), attack.exit),
            "{verb}: {document}"
        );
        assert!(!document.to_string().contains(KEY), "{document}");
        let said = document["error"].as_str().unwrap_or_default();
        let output = document["output"].to_string();
        assert!(
            said.contains(attack.says) || output.contains(attack.says),
            "{verb}: {document}"
        );
        let run_id = document["run_id"].as_str().unwrap();
        check_record(&home, run_id, attack);
        if attack.says.contains(" limit of ") {
            check_limit(&home, run_id, &document, attack);
        }
    }
}

/// A server that sends back, in a field and as the body, what it got of the secret.
fn echo() -> Server {
    Server::start(|seen, wire| {
        let got = seen.header("x-key").unwrap_or_default();
        let length = got.len();
        let head = format!("HTTP/1.1 200 OK\r\nX-Got: {got}\r\nContent-Length: {length}\r\n\r\n");
        wire.write_all(format!("{head}{got}").as_bytes())
    })
}

/// The section of the secret, which is for that server alone.
fn secret(home: &Home, server: &Server) -> String {
    fs::write(home.path().join("key"), KEY).unwrap();
    let url = server.url("/");
    format!("[secrets.KEY]\nfile = \"key\"\nurl = \"{url}\"\nheader = \"X-Key\"\n")
}

#[track_caller]
fn check_record(home: &Home, run_id: &str, attack: &Attack) {
    let completed = home.events_of(run_id, "run_completed");
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0]["payload"]["code"], attack.code);
    let verified = home.skillrun(&["runs", "verify", run_id]);
    assert_eq!(verified.exit, Some(0), "{}: {verified:?}", attack.verb);
    if attack.code == "denied" {
        assert_ne!(home.events_of(run_id, "denied").len(), 0, "{}", attack.verb);
    }
}

/// A limit is told with its source and the key that changes it, in the error and in the explanation.
#[track_caller]
fn check_limit(home: &Home, run_id: &str, document: &Value, attack: &Attack) {
    let source = if attack.limit.is_empty() {
        "default"
    } else {
        "config"
    };
    let error = document["error"].as_str().unwrap();
    assert!(error.contains(&format!("set by {source}")), "{error}");
    let hint = document["hint"].as_str().unwrap();
    assert!(hint.contains("config.toml"), "{document}");
    let explanation = home.skillrun(&["runs", "explain", "--json", run_id]).json();
    let cause = &explanation["cause"];
    assert_eq!(
        (&cause["kind"], &cause["source"]),
        (&json!("limit"), &json!(source))
    );
    let key = cause["key"].as_str().unwrap();
    assert!(attack.says.starts_with(key), "{explanation}");
    assert_eq!(explanation["settings"][0]["key"], format!("limits.{key}"));
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md")
}

fn matrix() -> String {
    let mut table = "| a guest that | verb | may do | is held by | and ends as | exit code |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for attack in ATTACKS {
        let limit = match attack.limit {
            "" => attack.says,
            limit => limit,
        };
        let grants = match attack.grants {
            [] => "nothing".to_owned(),
            grants => format!("`{}`", grants.join("`, `")),
        };
        writeln!(
            table,
            "| {} | `{}` | {grants} | `{limit}` | `{}` | {} |",
            attack.tries, attack.verb, attack.code, attack.exit
        )
        .unwrap();
    }
    table
}

/// The document shows what is tested, row by row.
#[test]
fn the_document_shows_the_matrix() {
    let text = fs::read_to_string(document()).unwrap();
    let (before, rest) = text.split_once(MATRIX_START).unwrap();
    let (shown, after) = rest.split_once(MATRIX_END).unwrap();
    if std::env::var_os(BLESS).is_some() {
        let text = format!("{before}{MATRIX_START}{}{MATRIX_END}{after}", matrix());
        fs::write(document(), text).unwrap();
        return;
    }
    assert_eq!(
        shown,
        matrix(),
        "run the test with {BLESS}=1 to write the matrix anew"
    );
}
