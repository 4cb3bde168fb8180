//! How a run is started, and why one is not.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::{CALC, GREET, PROBE};

use super::{RUNS, accepted, long, outcome, short, status};
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

/// A token, as it stands in a file.
const TOKEN: &str = "0123456789abcdef";

#[test]
fn a_run_is_on_record_when_it_is_answered() {
    let home = Home::new(&[GREET]);
    let daemon = Daemon::start(&home);
    let body = json!({ "skill_name": "greet", "input": { "name": "Ada" } });
    let answer = daemon.post(RUNS, &body);
    let run_id = accepted(&answer);
    let started = &home.events_of(&run_id, "run_started")[0];
    assert_eq!(answer.json()["started_at"], started["time"]);
    assert_eq!(started["payload"]["skill"], "greet");
    home.wait_for_event(&run_id, "run_completed");
    let completed = &home.events_of(&run_id, "run_completed")[0];
    assert_eq!(completed["payload"]["code"], "ok");
    assert_eq!(completed["payload"]["output"]["greeting"], "Hello, Ada!");
}

#[test]
fn whoever_waits_is_told_how_it_ended() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let probe = |input: Value| json!({ "skill_name": "probe", "input": input });
    for (input, status, code, output, error) in [
        (
            json!({ "verb": "echo", "value": [1, { "b": 2, "a": 0.5 }] }),
            "ok",
            "ok",
            json!([1, { "b": 2, "a": 0.5 }]),
            Value::Null,
        ),
        (
            json!({ "verb": "noop" }),
            "ok",
            "ok",
            Value::Null,
            Value::Null,
        ),
        (
            json!({ "verb": "fail", "message": "no luck", "code": "c" }),
            "error",
            "skill_error",
            Value::Null,
            json!("no luck"),
        ),
        (
            json!({ "verb": "output", "bytes": 100_000 }),
            "ok",
            "ok",
            json!("o".repeat(100_000)),
            Value::Null,
        ),
    ] {
        let ended = outcome(&daemon, &probe(input.clone()));
        assert_eq!(ended["status"], status, "{ended}");
        assert_eq!(ended["code"], code, "{ended}");
        assert_eq!(ended["error"], error, "{ended}");
        if code == "ok" {
            assert_eq!(ended["output"], output, "{input}");
        }
        assert!(ended["duration_micros"].is_u64(), "{ended}");
        let run_id = ended["run_id"].as_str().unwrap();
        let events = home.events(run_id);
        assert_eq!(ended["head"]["seq"], events.last().unwrap()["seq"]);
        assert_eq!(ended["started_at"], events[0]["time"]);
    }
    let trapped = outcome(&daemon, &probe(json!({ "verb": "trap" })));
    assert_eq!(
        (&trapped["status"], &trapped["code"]),
        (&json!("error"), &json!("trap"))
    );
    assert!(trapped["error"].is_string(), "{trapped}");
    assert!(trapped.get("output").is_none(), "{trapped}");
}

#[test]
fn nobody_waits_longer_than_they_said() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let run_id = accepted(&daemon.post(&format!("{RUNS}?wait=20"), &long()));
    assert_eq!(status(&daemon, &run_id), "running");
    accepted(&daemon.post(&format!("{RUNS}?wait=false"), &short()));
}

/// An operation stands behind a dot, and an input that is absent is an empty object.
#[test]
fn an_operation_is_named_behind_its_skill() {
    let home = Home::new(&[CALC, PROBE]);
    let daemon = Daemon::start(&home);
    let sum = json!({ "skill_name": "calc.add", "input": { "a": 2, "b": 3 } });
    let ended = outcome(&daemon, &sum);
    assert_eq!(ended["code"], "ok", "{ended}");
    let ended = outcome(&daemon, &json!({ "skill_name": "probe" }));
    let started = &home.events_of(ended["run_id"].as_str().unwrap(), "run_started")[0];
    assert_eq!(started["payload"]["input"], json!({}));
}

/// What case C52 asks of the command line.
#[test]
fn an_input_is_kept_as_it_is_spelled() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    let kept =
        r#"{"n":[1e400,0.10,123456789012345678901234567890],"a":1,"a":2,"s":"\u2028\ud800 x"}"#;
    let sent = kept.replace(",\"a\":1", ",\n \"a\" : 1");
    let body = format!("{{ \"input\": {sent}, \"skill_name\": \"pr\\u006fbe\" }}");
    let run_id = accepted(&daemon.request("POST", RUNS, &[], Some(&body)));
    let text = fs::read_to_string(home.ledger(&run_id)).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains(&format!("\"input\":{kept}")), "{first}");
    home.wait_for_event(&run_id, "run_completed");
}

/// A body, header fields, and what is said of it.
const REFUSED: &[(&str, &[&str], u16, &str)] = &[
    ("{", &[], 400, "bad_request"),
    ("", &[], 400, "bad_request"),
    ("[]", &[], 400, "bad_request"),
    ("{}", &[], 400, "bad_request"),
    (r#"{"skill_name":7}"#, &[], 400, "bad_request"),
    (r#"{"skill_name":"probe"} {}"#, &[], 400, "bad_request"),
    (
        r#"{"skill_name":"probe","inptu":{}}"#,
        &[],
        400,
        "bad_request",
    ),
    (
        r#"{"skill_name":"probe","skill_name":"probe"}"#,
        &[],
        400,
        "bad_request",
    ),
    (r#"{"skill_name":""}"#, &[], 400, "invalid_input"),
    (
        r#"{"skill_name":"probe","input":null}"#,
        &[],
        400,
        "invalid_input",
    ),
    (
        r#"{"skill_name":"probe","input":[]}"#,
        &[],
        400,
        "invalid_input",
    ),
    (
        r#"{"skill_name":"probe","input":"{}"}"#,
        &[],
        400,
        "invalid_input",
    ),
    (r#"{"skill_name":"prob"}"#, &[], 404, "not_found"),
    (r#"{"skill_name":"../probe"}"#, &[], 404, "not_found"),
    (r#"{"skill_name":"hidden"}"#, &[], 404, "not_found"),
    (r#"{"skill_name":"hidden.add"}"#, &[], 404, "not_found"),
    (r#"{"skill_name":"prose"}"#, &[], 422, "not_runnable"),
    (r#"{"skill_name":"greet"}"#, &[], 422, "not_runnable"),
    (r#"{"skill_name":"broken"}"#, &[], 422, "not_runnable"),
    (
        r#"{"skill_name":"probe"}"#,
        &["Content-Type: text/plain"],
        415,
        "unsupported_media_type",
    ),
    (
        r#"{"skill_name":"probe"}"#,
        &["X-Parent-Run: run_0190a0a0a0a07000800000000000abcd"],
        403,
        "denied",
    ),
    (
        r#"{"skill_name":"probe"}"#,
        &["Idempotency-Key: "],
        400,
        "bad_request",
    ),
    (
        r#"{"skill_name":"probe"}"#,
        &["Idempotency-Key: a b"],
        400,
        "bad_request",
    ),
    (
        r#"{"skill_name":"probe"}"#,
        &["Idempotency-Key: a", "Idempotency-Key: b"],
        400,
        "bad_request",
    ),
    (r#"["probe",{"verb":"noop"}]"#, &[], 400, "bad_request"),
];

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let home = Home::new(&[PROBE, GREET]);
    for name in ["prose", "broken", "hidden"] {
        fs::create_dir(home.skill(name)).unwrap();
        let text = format!("---\nname: {name}\ndescription: d\n---\ntext\n");
        fs::write(home.skill(name).join("SKILL.md"), text).unwrap();
    }
    fs::write(home.skill("broken").join("skill.toml"), "=").unwrap();
    home.write_manifest("hidden", "[expose]\napi = false\n");
    assert_eq!(home.skillrun(&["skills", "disable", "greet"]).exit, Some(0));
    home.configure("[serve]\nbody_bytes_max = 4096\n");
    let daemon = Daemon::start(&home);
    for (body, headers, status, code) in REFUSED {
        let answer = daemon.request("POST", RUNS, headers, Some(body));
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (*status, *code),
            "{body}: {answer:?}"
        );
        let path = home.path().display().to_string();
        assert!(
            !String::from_utf8_lossy(&answer.body).contains(&path),
            "{answer:?}"
        );
    }
    let nearest = daemon.post(RUNS, &json!({ "skill_name": "prob" })).json();
    assert_eq!(nearest["hint"], "there is a skill \"probe\"");
    let large = json!({ "skill_name": "probe", "input": { "verb": "x".repeat(4096) } });
    let answer = daemon.post(RUNS, &large);
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (413, "too_large")
    );
    let long_name = json!({ "skill_name": "x".repeat(1025) });
    assert_eq!(daemon.post(RUNS, &long_name).problem(), "invalid_input");
    for wait in ["", "0", "-1", "+1", "yes", "600001", "99999999999999999999"] {
        let answer = daemon.post(&format!("{RUNS}?wait={wait}"), &short());
        assert_eq!(answer.status, 400, "{wait}");
    }
    assert_eq!(
        daemon.post(&format!("{RUNS}?wiat=true"), &short()).status,
        400
    );
    assert_eq!(home.run_ids(), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_the_queue_is_sent_away() {
    let home = Home::new(&[PROBE]);
    home.configure("[runs]\nat_once_max = 1\nqueue_max = 1\n");
    let daemon = Daemon::start(&home);
    let first = accepted(&daemon.post(RUNS, &long()));
    accepted(&daemon.post(RUNS, &long()));
    let answer = daemon.post(RUNS, &short());
    assert_eq!((answer.status, answer.problem().as_str()), (429, "busy"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(
        answer.json()["hint"]
            .as_str()
            .unwrap()
            .contains("runs.queue_max")
    );
    assert_eq!(home.run_ids().len(), 2);
    assert_eq!(
        daemon
            .post(&format!("{RUNS}/{first}/cancel"), &json!({}))
            .status,
        202
    );
    let third = eventually("room", || {
        Some(daemon.post(RUNS, &short())).filter(|answer| answer.status == 202)
    });
    accepted(&third);
}

#[test]
fn without_a_folder_of_ledgers_nothing_is_started() {
    let home = Home::new(&[PROBE]);
    let daemon = Daemon::start(&home);
    fs::remove_dir_all(home.path().join("runs")).unwrap();
    let answer = daemon.post(RUNS, &short());
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "unavailable"),
        "{answer:?}"
    );
    assert!(
        !answer
            .json()
            .to_string()
            .contains(&home.path().display().to_string())
    );
    let readiness = daemon.get("/readyz");
    assert_eq!(readiness.status, 503, "{readiness:?}");
    assert_eq!(readiness.json()["checks"]["ledgers"], "failed");
}

#[test]
fn a_run_can_be_started_inside_another_one() {
    let home = Home::new(&[PROBE]);
    fs::write(home.path().join("token"), TOKEN).unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n[limits]\nnesting_depth = 1\n");
    let daemon = Daemon::start(&home);
    let token = format!("Authorization: Bearer {TOKEN}");
    let start = |headers: &[&str], body: Value| {
        let headers = [&[token.as_str()], headers].concat();
        daemon.request("POST", RUNS, &headers, Some(&body.to_string()))
    };
    let parent = accepted(&start(&["X-Request-Id: the-request"], long()));
    let inside = format!("X-Parent-Run: {parent}");
    let child = accepted(&start(&[&inside], long()));
    let started = &home.events_of(&child, "run_started")[0];
    assert_eq!(started["payload"]["parent_run_id"], parent.as_str());
    let deeper = start(&[&format!("X-Parent-Run: {child}")], short());
    assert_eq!(
        (deeper.status, deeper.problem().as_str()),
        (403, "denied"),
        "{deeper:?}"
    );
    let listed = daemon.request("GET", &format!("{RUNS}?parent={parent}"), &[&token], None);
    assert_eq!(listed.json()["runs"][0]["run_id"], child.as_str());
    let cancel = format!("{RUNS}/{parent}/cancel");
    assert_eq!(daemon.request("POST", &cancel, &[&token], None).status, 202);
    for run_id in [&parent, &child] {
        home.wait_for_event(run_id, "run_completed");
        let end = &home.events_of(run_id, "run_completed")[0];
        assert_eq!(end["payload"]["code"], "cancelled", "{run_id}");
    }
    let late = eventually("a parent that is gone", || {
        Some(start(&[&inside], short())).filter(|answer| answer.status != 202)
    });
    assert_eq!((late.status, late.problem().as_str()), (409, "conflict"));
    for no_run in ["X-Parent-Run: 7", "X-Parent-Run: "] {
        assert_eq!(start(&[no_run], short()).status, 409);
    }
    assert_eq!(start(&[&inside, &inside], short()).status, 400);
}

#[test]
fn a_route_says_which_methods_it_has() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let id = "run_0190a0a0a0a07000800000000000abcd";
    for (path, allowed) in [
        (RUNS.to_owned(), ["GET", "HEAD", "POST"].as_slice()),
        (format!("{RUNS}/{id}"), &["GET", "HEAD"]),
        (format!("{RUNS}/{id}/cancel"), &["POST"]),
    ] {
        for method in ["DELETE", "OPTIONS", "PUT", "PATCH"] {
            let answer = daemon.request(method, &path, &[], None);
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (405, "method_not_allowed"),
                "{method} {path}"
            );
            let mut named: Vec<&str> = answer
                .header("allow")
                .unwrap()
                .split(',')
                .map(str::trim)
                .collect();
            named.sort_unstable();
            assert_eq!(named, allowed, "{method} {path}");
        }
    }
    let mut stream = daemon.connect();
    let head = format!(
        "HEAD {RUNS} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        daemon.address
    );
    let mut answer = String::new();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}
