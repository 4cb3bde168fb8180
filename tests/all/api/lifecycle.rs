//! From the start of the process to its end.

use std::fs;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use skillrun::clock::Clock;
use skillrun_test_artifacts::PROBE;

use super::daemon::{Answer, Daemon};
use crate::harness::{Home, Running, eventually};

/// How long the process may take to end. Its own bounds come to 1.5 s, so that it is gone within the two that it is
/// meant to take; a machine that is busy with other tests gets more.
const END_MAX: Duration = Duration::from_secs(10);
const TOKEN: &str = "0123456789abcdef";

/// Leaves as many runs in the home whose process is gone, each in the middle of a wait.
fn leave_runs(home: &Home, count: usize) {
    let input = r#"{"verb":"sleep","ms":3600000}"#;
    let arguments = ["run", "probe", "--input", input, "--quiet"];
    let mut running: Vec<Running> = (0..count).map(|_| home.start(&arguments)).collect();
    let run_ids = eventually("the runs", || {
        Some(home.run_ids()).filter(|ids| ids.len() == count)
    });
    for run_id in &run_ids {
        home.wait_for_event(run_id, "run_started");
    }
    for run in &mut running {
        run.signal(Signal::KILL);
    }
    for run in running {
        run.end();
    }
}

#[test]
fn it_is_there_until_it_is_told_to_end() {
    let home = Home::new(&[]);
    let mut daemon = Daemon::start(&home);
    assert_eq!(daemon.get("/healthz").json()["status"], "ok");
    assert_eq!(daemon.get("/readyz").status, 200);
    let answer = daemon.post("/api/agent/nothing", &json!({}));
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (404, "not_found")
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end(), Some(0));
    assert!(!home.path().join("daemon.json").exists());
}

#[test]
fn a_home_has_one_daemon() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let record = fs::read_to_string(home.path().join("daemon.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let ran = home.skillrun(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert_eq!(ran.json()["code"], "conflict");
    let error = ran.json()["error"].as_str().unwrap().to_owned();
    let who = format!(
        "process {} listens on http://{}",
        record["pid"], daemon.address
    );
    assert!(error.contains(&who), "{error}");
    // Its own record is left alone, and one that crashed stops nobody.
    daemon.signal(Signal::KILL);
    drop(daemon);
    assert!(home.path().join("daemon.json").exists());
    let next = Daemon::start(&home);
    assert_eq!(next.get("/healthz").status, 200);
}

#[test]
fn the_token_for_commands_is_good_and_nobody_has_to_bring_it() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let record = fs::read_to_string(home.path().join("daemon.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let header = format!(
        "Authorization: Bearer {}",
        record["token"].as_str().unwrap()
    );
    assert_eq!(daemon.get("/api/skills").status, 200);
    drop(daemon);
    fs::write(home.path().join("token"), TOKEN).unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let daemon = Daemon::start(&home);
    let status = |header: &str| daemon.request("GET", "/api/skills", &[header], None).status;
    assert_eq!(status(&header), 401, "it is another one for each process");
    let record = fs::read_to_string(home.path().join("daemon.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let header = format!(
        "Authorization: Bearer {}",
        record["token"].as_str().unwrap()
    );
    assert_eq!(status(&header), 200);
}

#[test]
fn c38_it_is_gone_within_two_seconds_and_its_runs_can_be_resumed() {
    let home = Home::new(&[PROBE]);
    leave_runs(&home, 5);
    let mut daemon = Daemon::start(&home);
    for run_id in home.run_ids() {
        home.wait_for_event(&run_id, "run_resumed");
    }
    let mut open = Vec::new();
    for run_id in home.run_ids().iter().cycle().take(50) {
        let mut stream = daemon.connect();
        write!(
            stream,
            "GET /api/agent/runs/{run_id}/events HTTP/1.1\r\nHost: {}\r\n\r\n",
            daemon.address
        )
        .unwrap();
        let mut stream = BufReader::new(stream);
        assert_eq!(Answer::read_head(&mut stream).status, 200);
        open.push(stream);
    }
    // One that is in the middle of a request.
    let mut half = daemon.connect();
    half.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
    let asked = Clock::system().stopwatch();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end(), Some(0));
    let took = asked.elapsed();
    assert!(took < END_MAX, "{took:?}");
    for run_id in home.run_ids() {
        let ends = home.events_of(&run_id, "run_completed");
        let end = ends.last().unwrap();
        assert_eq!(end["payload"]["status"], "interrupted", "{end}");
    }
    let _again = Daemon::start(&home);
    for run_id in home.run_ids() {
        eventually("a run that goes on", || {
            (home.events_of(&run_id, "run_resumed").len() == 2).then_some(())
        });
    }
}

#[test]
fn while_it_drains_it_is_not_ready_and_a_second_signal_ends_that() {
    let home = Home::new(&[PROBE]);
    leave_runs(&home, 1);
    home.configure("[serve]\ndrain_ms = 600000\n");
    let mut daemon = Daemon::start(&home);
    assert_eq!(daemon.get("/readyz").status, 200);
    daemon.signal(Signal::INT);
    let answer = eventually("a refusal", || {
        Some(daemon.get("/readyz")).filter(|answer| answer.status == 503)
    });
    assert_eq!(answer.json()["checks"]["accepting"], "failed");
    assert_eq!(daemon.get("/healthz").status, 200);
    let refused = daemon.post("/api/agent/runs", &json!({"skill_name": "probe"}));
    assert_eq!(refused.problem(), "shutting_down");
    let asked = Clock::system().stopwatch();
    daemon.signal(Signal::INT);
    assert_eq!(daemon.end(), Some(0));
    assert!(asked.elapsed() < END_MAX);
}

#[test]
fn a_new_configuration_is_taken_over_and_a_bad_one_is_not() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    assert_eq!(daemon.get("/api/skills").status, 200);
    fs::write(home.path().join("token"), TOKEN).unwrap();
    home.configure(
        "[serve]\ntoken_file = \"token\"\nhosts = [\"box\"]\nconnections_max = 20\nstreams_max = 7\n\
         stall_timeout_ms = 7000\n[telemetry]\ncontent = true\n[ledger]\ndurability = \"relaxed\"\n",
    );
    daemon.signal(Signal::HUP);
    eventually("the token to be needed", || {
        (daemon.get("/api/skills").status == 401).then_some(())
    });
    let good = format!("Authorization: Bearer {TOKEN}");
    let raw = |host: &str| {
        daemon
            .send(format!(
                "GET /api/skills HTTP/1.1\r\nHost: {host}\r\n{good}\r\nConnection: close\r\n\r\n"
            ))
            .status
    };
    assert_eq!(raw("box"), 200);
    let log = daemon.log();
    for key in [
        "serve.connections_max",
        "serve.streams_max",
        "serve.stall_timeout_ms",
        "telemetry",
        "ledger",
    ] {
        assert!(log.contains(&format!("key=\"{key}\"")), "{key}: {log}");
    }
    assert!(!log.contains("serve.listen"), "{log}");
    home.configure("[serve]\nhosts = 7\n");
    daemon.signal(Signal::HUP);
    eventually("the refusal", || {
        daemon.log().contains("invalid type").then_some(())
    });
    assert_eq!(raw("box"), 200);
    home.configure("");
    daemon.signal(Signal::HUP);
    eventually("no token", || {
        (daemon.get("/api/skills").status == 200).then_some(())
    });
    assert_eq!(raw("box"), 403);
}

#[test]
fn systemd_hands_over_the_socket_and_is_told() {
    let home = Home::new(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let path = home.path().join("notify");
    let told = UnixDatagram::bind(&path).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let next = || {
        let mut buffer = [0; 256];
        let length = told.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let next_but_watchdog = || loop {
        let message = next();
        if message != "WATCHDOG=1\n" {
            return message;
        }
    };
    let serve = home.command(&["serve"]);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"")
        .arg(serve.get_program())
        .args(serve.get_args())
        .envs(
            serve
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "40000")
        .stdin(Stdio::from(OwnedFd::from(listener)));
    let mut daemon = Daemon::of(&home, &mut command);
    assert_eq!(daemon.address, address);
    assert_eq!(daemon.get("/healthz").status, 200);
    assert_eq!(next_but_watchdog(), "READY=1\n");
    assert_eq!(next(), "WATCHDOG=1\n");
    daemon.signal(Signal::HUP);
    let reloading = next_but_watchdog();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(next_but_watchdog(), "READY=1\n");
    daemon.signal(Signal::TERM);
    assert_eq!(next_but_watchdog(), "STOPPING=1\n");
    assert_eq!(daemon.end(), Some(0));
}
