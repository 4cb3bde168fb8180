//! What clients may cost.

use std::fs;
use std::thread;

use rustix::process::Signal;
use skillrun::id::RunId;
use skillrun::ledger::RunStatus;

use super::super::daemon::Daemon;
use super::*;
use crate::harness::{Home, eventually};

/// The ledger of a run that is over, with lines of that many bytes.
fn write_ledger(home: &Home, lines: u64, line_bytes: usize) -> String {
    let run_id = RunId::generate().to_string();
    let text: String = (1..=lines)
        .map(|seq| {
            let (kind, payload) = match seq {
                1 => ("run_started", r#"{"skill":"much"}"#.to_owned()),
                _ if seq == lines => ("run_completed", r#"{"status":"ok","code":"ok"}"#.to_owned()),
                _ => ("log", format!(r#"{{"message":"{}"}}"#, "x".repeat(line_bytes))),
            };
            format!(
                r#"{{"v":1,"run_id":"{run_id}","seq":{seq},"time":"2026-05-13T17:02:16.049000Z","type":"{kind}","source":"host","payload":{payload},"prev":"{}"}}{}"#,
                "0".repeat(64),
                '\n',
            )
        })
        .collect();
    fs::create_dir_all(home.path().join("runs")).unwrap();
    fs::write(home.ledger(&run_id), text).unwrap();
    run_id
}

#[test]
fn c37_clients_that_stop_reading_cost_less_than_a_mebibyte_each_and_harm_nobody() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    // Some with lines of the largest kind, some with many short ones.
    let long = write_ledger(&home, 6, 4 * 1024 * 1024);
    let short = write_ledger(&home, 20_000, 200);
    let path = |run_id: &str| format!("/api/agent/runs/{run_id}/events");
    // What reading costs the process once, however many do.
    for run_id in [&long, &short] {
        let watcher = Watcher::open(daemon.address, &path(run_id), &[]).unwrap();
        assert_eq!(watcher.rest().last().unwrap().name, "end");
    }
    let before = daemon.resident_bytes();
    let stall = |run_id: &str| {
        let stream = ask(daemon.address, &path(run_id), &[], Some(4096));
        let mut stream = BufReader::with_capacity(256, stream);
        assert_eq!(Answer::read_head(&mut stream).status, 200);
        stream
    };
    let stalled: Vec<_> = (0..48)
        .flat_map(|_| [stall(&long), stall(&short)])
        .collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let watcher = Watcher::open(daemon.address, &path(&short), &[]).unwrap();
                let expected: Vec<u64> = (1..=20_000).collect();
                assert_eq!(seqs(&watcher.rest()), expected);
            });
        }
    });
    let growth = daemon.resident_bytes().saturating_sub(before);
    let each = growth / stalled.len();
    assert!(
        each <= 1024 * 1024,
        "{each} bytes for each client that stopped reading"
    );
    println!(
        "{each} bytes for each of {} clients that stopped reading",
        stalled.len()
    );
}

#[test]
fn there_are_only_so_many_streams() {
    let surface = Surface::new("[serve]\nstreams_max = 2");
    let recorder = surface.begin("watched");
    let first = surface.watch(recorder.run_id(), "");
    let all = "/api/agent/runs/events";
    let _second = Watcher::open(surface.address, all, &[]).unwrap();
    let refused = Watcher::open(surface.address, all, &[]).err().unwrap();
    assert_eq!((refused.status, refused.problem().as_str()), (429, "busy"));
    assert!(refused.header("retry-after").is_some());
    drop(first);
    eventually("a place", || Watcher::open(surface.address, all, &[]).ok());
}

#[test]
fn a_connection_on_which_nothing_moves_is_ended() {
    let home = Home::new(&[]);
    home.configure("[serve]\nstreams_max = 1\nstall_timeout_ms = 3000\n");
    let daemon = Daemon::start(&home);
    let run_id = write_ledger(&home, 4, 4 * 1024 * 1024);
    let path = format!("/api/agent/runs/{run_id}/events");
    let _stalled = ask(daemon.address, &path, &[], Some(4096));
    // Its place is free as soon as it is gone.
    let watcher = eventually("a place", || Watcher::open(daemon.address, &path, &[]).ok());
    assert_eq!(seqs(&watcher.rest()), [1, 2, 3, 4]);
}

#[test]
fn whoever_falls_behind_is_told_and_reads_the_rest_from_the_file() {
    let surface = Surface::new("");
    let recorder = surface.begin("quick");
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    let mut slow = Watcher::slow(surface.address, &path);
    assert_eq!(slow.next_event().unwrap().seq(), Some(1));
    let mut quick = surface.watch(recorder.run_id(), "?after=1");
    // More than a ring holds, while somebody reads all of it.
    let text = "x".repeat(16 * 1024);
    let last = 1_200;
    for seq in 2..last {
        log(&recorder, &text);
        assert_eq!(quick.next_event().unwrap().seq(), Some(seq));
    }
    complete(&recorder, RunStatus::Ok);
    assert_eq!(names(&quick.rest()), ["run_completed", "end"]);
    let frames = slow.rest();
    assert_eq!(seqs(&frames), (2..=last).collect::<Vec<u64>>());
    let lagged: Vec<_> = frames.iter().filter(|it| it.name == "lagged").collect();
    assert_eq!(lagged.len(), 1);
    assert!(lagged[0].json()["events"].as_u64().unwrap() > 500);
}

#[test]
fn no_connection_outlives_the_surface() {
    let surface = Surface::new("[serve]\nheader_timeout_ms = 600000\nstall_timeout_ms = 600000");
    let mut half = TcpStream::connect(surface.address).unwrap();
    half.set_read_timeout(Some(READ_MAX)).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    // Whoever comes later is accepted later.
    let all = "/api/agent/runs/events";
    let watcher = Watcher::open(surface.address, all, &[]).unwrap();
    surface.shutdown.cancel();
    surface.runtime.block_on(surface.served).unwrap();
    assert_eq!(names(&watcher.rest()), ["shutdown"]);
    let end = std::io::Read::read(&mut half, &mut [0; 64]);
    let is_end = match &end {
        Ok(bytes) => *bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(is_end, "{end:?}");
}

fn time_to_end(daemon: &mut Daemon) -> Duration {
    let stopwatch = Clock::system().stopwatch();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end(), Some(0));
    stopwatch.elapsed()
}

#[test]
fn c38_fifty_open_streams_do_not_hold_up_the_end() {
    let home = Home::new(&[]);
    // What ending takes on this machine now, with nobody who watches.
    let unwatched = time_to_end(&mut Daemon::start(&home));
    let mut daemon = Daemon::start(&home);
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "elsewhere");
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    let watchers: Vec<_> = (0..25)
        .flat_map(|_| [path.as_str(), "/api/agent/runs/events"])
        .map(|path| Watcher::open(daemon.address, path, &[]).unwrap())
        .collect();
    let took = time_to_end(&mut daemon);
    let took_max = Duration::from_secs(2) + unwatched;
    assert!(took < took_max, "{took:?}: expected less than {took_max:?}");
    for watcher in watchers {
        assert_eq!(watcher.rest().last().unwrap().name, "shutdown");
    }
}
