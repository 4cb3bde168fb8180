//! Secrets: put into the requests that they are for, and found nowhere else.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::Server;
use super::{granted, payloads, probe, run_id};
use crate::harness::Home;

/// Everything that is logged, but for the compiler's own notes, of which there are millions.
const LOG_ALL: &str = "trace,cranelift=off,cranelift_codegen=off,wasmtime=off,regalloc2=off,wasmtime_internal_cranelift=off";
const VALUE: &str = "hunter2-hunter2-hunter2";

/// A server that sends back the field that it got, as text or as bytes that are none.
fn echo() -> Server {
    Server::start(|seen, wire| {
        let value = seen.header("authorization").unwrap_or("nothing").to_owned();
        let odd: &[u8] = if seen.path().ends_with("/bytes") {
            b"\xff"
        } else {
            b""
        };
        let length = value.len() + odd.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nX-Echo: {value}\r\nContent-Length: {length}\r\n\r\n");
        wire.write_all(&[head.as_bytes(), odd, value.as_bytes()].concat())
    })
}

/// A section for a server's requests below `/v1`, with the value in a file.
fn section(name: &str, server: &Server, file: &Path) -> String {
    format!(
        "[secrets.{name}]\nfile = {file:?}\nurl = \"{}\"\nheader = \"Authorization\"\nprefix = \"Bearer \"\n",
        server.url("/v1")
    )
}

fn key_file(folder: &TempDir, value: &str) -> std::path::PathBuf {
    let file = folder.path().join("key");
    fs::write(&file, value).unwrap();
    file
}

/// Every file below a folder that has the value in it.
fn leaks(folder: &Path, value: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path, value));
        } else if fs::read(&path)
            .unwrap()
            .windows(value.len())
            .any(|w| w == value.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_secret_is_put_in_by_the_host_and_is_on_no_record() {
    let (server, elsewhere) = (echo(), TempDir::new().unwrap());
    let file = key_file(&elsewhere, &format!("{VALUE}\n"));
    let home = granted(
        &[&server.net("/#GET"), "secret:KEY"],
        &section("KEY", &server, &file),
    );
    // The guest's own field gives way, and where the secret is not for it stays.
    for (path, sent) in [
        ("/v1/x", format!("Bearer {VALUE}")),
        ("/v1/bytes", format!("Bearer {VALUE}")),
        ("/v10", "mine".to_owned()),
    ] {
        let headers = [("authorization", "mine")];
        let verb = json!({ "verb": "http", "url": server.url(path), "headers": headers });
        let mut command = home.command(&["run", "probe", "--quiet", "--json", "--input"]);
        let ran = command
            .arg(verb.to_string())
            .env("SKILLRUN_LOG", LOG_ALL)
            .output()
            .unwrap();
        let log = String::from_utf8(ran.stderr).unwrap();
        assert!(!log.contains(VALUE), "{log}");
        let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let seen = server.seen().pop().unwrap();
        assert_eq!(seen.header("authorization"), Some(&*sent), "{document}");
        let fields = seen
            .headers
            .iter()
            .filter(|(name, _)| name == "authorization");
        assert_eq!(fields.count(), 1);
        let call = &payloads(&home, &run_id(&document), "http_call")[0];
        let shown = if path == "/v10" {
            "mine"
        } else {
            "Bearer [secret:KEY]"
        };
        assert!(call["headers"].to_string().contains(shown), "{call}");
        // The server sent it back; neither the ledger nor the guest gets that, in the body or in a field.
        let result = &payloads(&home, &run_id(&document), "http_result")[0];
        let body = result["body"].as_str().unwrap();
        assert!(!document.to_string().contains(VALUE), "{document}");
        assert_eq!(document["output"]["headers"], result["headers"]);
        let has_length = result["headers"].to_string().contains("content-length");
        assert_eq!(has_length, path == "/v10", "{result}");
        match path {
            "/v1/x" => {
                assert_eq!(body, "Bearer [redacted:KEY]");
                assert_eq!(document["output"]["text"], body);
            }
            "/v1/bytes" => {
                assert_eq!(result["base64"], true);
                assert_eq!(STANDARD.decode(body).unwrap(), b"\xffBearer [redacted:KEY]");
            }
            _ => assert_eq!(body, "mine"),
        }
    }
    assert_eq!(leaks(home.path(), VALUE), [""; 0]);
    let encoded = STANDARD.encode(format!("\u{ff}Bearer {VALUE}"));
    assert_eq!(leaks(home.path(), &encoded[8..24]), [""; 0]);
}

/// Of two for one field, the narrower counts; and without the capability there is none.
#[test]
fn a_secret_is_for_those_who_have_it_and_the_narrower_one_counts() {
    let server = echo();
    let section = |name: &str, path: &str| {
        let url = server.url(path);
        format!(
            "[secrets.{name}]\nenv = \"SKILLRUN_TEST_{name}\"\nurl = \"{url}\"\nheader = \"authorization\"\n"
        )
    };
    let config = section("A", "/v1/deep") + &section("B", "/");
    let run = |home: &Home, path: &str| {
        let verb = json!({ "verb": "http", "url": server.url(path) });
        let mut command = home.command(&["run", "probe", "--json", "--input"]);
        command
            .arg(verb.to_string())
            .env("SKILLRUN_TEST_A", "the-narrow-one")
            .env("SKILLRUN_TEST_B", "the-wide-one");
        assert!(command.output().unwrap().status.success());
        let seen = server.seen().pop().unwrap();
        seen.header("authorization").map(str::to_owned)
    };
    let net = server.net("/#GET");
    let home = granted(&[&net, "secret:A", "secret:B"], &config);
    assert_eq!(run(&home, "/v1/deep/x").as_deref(), Some("the-narrow-one"));
    assert_eq!(run(&home, "/v1").as_deref(), Some("the-wide-one"));
    let home = granted(&[&net], &config);
    assert_eq!(run(&home, "/v1/deep"), None);
}

#[test]
fn a_secret_that_cannot_be_used_stops_the_run_and_nothing_else() {
    let (server, elsewhere) = (echo(), TempDir::new().unwrap());
    for (value, says) in [
        (None, "cannot read"),
        (Some(""), "value has 0 bytes: expected 6"),
        (Some("short"), "value has 5 bytes: expected 6"),
        (Some("two\nlines-of-it"), "one line"),
        (Some("run_started"), "a word that ledgers are made of"),
    ] {
        let file = elsewhere.path().join("absent");
        let file = value.map_or(file, |value| key_file(&elsewhere, value));
        let home = granted(&["secret:KEY"], &section("KEY", &server, &file));
        let (document, exit) = probe(&home, &json!({ "verb": "noop" }));
        assert_eq!(
            (exit, &document["code"]),
            (2, &json!("usage")),
            "{document}"
        );
        let error = document["error"].as_str().unwrap();
        assert!(
            error.contains("secrets.KEY") && error.contains(says),
            "{error}"
        );
        assert!(value.is_none_or(|value| value.len() < 6
            || value == "run_started"
            || !error.contains(value)));
        assert_eq!(home.run_ids(), [""; 0]);
        for other in [
            &["skills", "list"][..],
            &["runs", "list"],
            &["skills", "inspect", "probe"],
        ] {
            assert_eq!(home.skillrun(other).exit, Some(0), "{other:?}");
        }
    }
    let config =
        "[secrets.KEY]\nenv = \"SKILLRUN_TEST_ABSENT\"\nurl = \"https://a/\"\nheader = \"x\"";
    let home = granted(&["secret:KEY"], config);
    let (document, _) = probe(&home, &json!({ "verb": "noop" }));
    let error = document["error"].as_str().unwrap();
    assert!(error.contains("secrets.KEY"), "{error}");
    assert!(
        error.contains("variable SKILLRUN_TEST_ABSENT is not set"),
        "{error}"
    );
}

#[test]
fn a_secret_that_is_granted_and_not_configured_refuses_the_run() {
    let home = granted(&["secret:KEY"], "");
    let (document, exit) = probe(&home, &json!({ "verb": "noop" }));
    assert_eq!(
        (exit, &document["code"]),
        (1, &json!("load_error")),
        "{document}"
    );
    assert_eq!(
        document["error"],
        "secret:KEY is granted and not configured"
    );
    assert!(document["hint"].as_str().unwrap().contains("[secrets.KEY]"));
}

/// A guest that gets its hands on the value, from a file with the same in it, does not get it on record.
#[test]
fn what_a_guest_says_of_a_secret_is_not_recorded() {
    let (server, elsewhere) = (echo(), TempDir::new().unwrap());
    let file = key_file(&elsewhere, VALUE);
    let copies = TempDir::new().unwrap();
    key_file(&copies, VALUE);
    let folder = format!("fs:ro:{}=/d", copies.path().display());
    let home = granted(&[&folder, "secret:KEY"], &section("KEY", &server, &file));
    let (document, exit) = probe(&home, &json!({ "verb": "read_file", "path": "/d/key" }));
    assert_eq!(exit, 0, "{document}");
    assert!(document["output"].to_string().contains(VALUE), "{document}");
    let run_id = run_id(&document);
    let completed = &payloads(&home, &run_id, "run_completed")[0];
    assert!(
        completed["output"].to_string().contains("[redacted:KEY]"),
        "{completed}"
    );
    assert_eq!(leaks(home.path(), VALUE), [""; 0]);
}
