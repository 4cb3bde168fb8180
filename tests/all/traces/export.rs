//! Spans at a collector.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use skillrun::Skillrun;
use skillrun::config::Config;
use skillrun::runner::{Caller, JsonObject, StartOptions};
use skillrun::trace::{Exporter, ExporterHandle, ExporterOptions};
use skillrun::trace_context::TraceContext;

use super::{PARENT, Seen, World, collected, collector};
use crate::harness::{Home, Running, eventually};
use crate::http::server::Server;

/// A batch is waited for two minutes, which is more than any that is answered takes.
fn section(address: &str) -> String {
    format!("[telemetry]\notlp_endpoint = \"{address}\"\notlp_timeout_ms = 120000\n")
}

/// A host with an exporter, as an embedder puts them together.
fn host(home: &Home) -> (Skillrun, ExporterHandle) {
    let config = Config::load(home.path()).unwrap();
    let host = Skillrun::builder(config).build().unwrap();
    let options = ExporterOptions::from_config(&host.config(), host.store());
    let exporter = Exporter::new(options.unwrap().unwrap()).unwrap();
    (host, exporter.start())
}

async fn run(host: &Skillrun, parent: &str, input: &str) -> String {
    let caller = Caller::new().with_trace(TraceContext::parse(parent, None).unwrap());
    let options = StartOptions::new("probe", JsonObject::parse(input).unwrap());
    let outcome = host.runner().run(caller, options).await.unwrap();
    outcome.run_id.to_string()
}

fn by_id(spans: Vec<Seen>) -> BTreeMap<String, Seen> {
    let count = spans.len();
    let spans: BTreeMap<_, _> = spans
        .into_iter()
        .map(|span| (span.span_id.clone(), span))
        .collect();
    assert_eq!(spans.len(), count, "no span comes twice");
    spans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_is_sent_what_is_printed_offline() {
    let collector = collector();
    let world = World::new(&section(&collector.url("")));
    let (host, exporter) = host(&world.home);
    let run_id = run(&host, PARENT, &world.input().to_string()).await;
    let unsampled = PARENT.replace("-01", "-00");
    let unsampled = run(&host, &unsampled, r#"{"verb":"noop"}"#).await;
    host.shutdown().await;
    exporter.shutdown().await;
    let offline = by_id(world.offline(&run_id, &[]));
    assert_eq!(by_id(collected(&collector)), offline);
    // Nobody is sent a trace of which its caller keeps nothing; here it is there all the same.
    assert_eq!(world.offline(&unsampled, &[]).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let refusing =
        Server::answering("HTTP/1.1 400 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for address in [refusing.url(""), silent] {
        let world = World::new(&section(&address).replace("120000", "2000"));
        let (host, exporter) = host(&world.home);
        for _ in 0..3 {
            run(&host, PARENT, r#"{"verb":"noop"}"#).await;
        }
        let counts = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let counts = exporter.counter().counts();
                if counts.dropped == 3 {
                    return counts;
                }
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(counts.await.unwrap().exported, 0, "{address}");
        host.shutdown().await;
        exporter.shutdown().await;
    }
}

/// A collector that takes a connection and answers nothing, and what of the configuration names it.
fn silent_collector() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let section = section(&format!("http://{}", listener.local_addr().unwrap()));
    (listener, section)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_sent_at_the_end_is_given_up_in_time() {
    let (silent, section) = silent_collector();
    let world = World::new(&section);
    let (host, exporter) = host(&world.home);
    run(&host, PARENT, r#"{"verb":"noop"}"#).await;
    let accepted = tokio::task::spawn_blocking(move || silent.accept().unwrap());
    let _connection = accepted.await.unwrap();
    host.shutdown().await;
    let ended = tokio::time::timeout(Duration::from_secs(60), exporter.shutdown());
    ended.await.unwrap();
}

#[test]
fn a_signal_ends_the_wait_for_a_collector_too() {
    let (silent, section) = silent_collector();
    let world = World::new(&section);
    let mut daemon = crate::api::Daemon::start(&world.home);
    let body = json!({ "skill_name": "probe", "input": { "verb": "noop" } });
    let answer = daemon.post("/api/agent/runs?wait=true", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let _connection = silent.accept().unwrap();
    daemon.signal(rustix::process::Signal::TERM);
    let record = world.home.path().join("daemon.json");
    eventually("all sockets to be closed", || {
        (!record.exists()).then_some(())
    });
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.end(), Some(130), "{}", daemon.log());
}

#[test]
fn the_daemon_exports_with_its_secret_and_sends_the_rest_when_it_ends() {
    let collector = collector();
    let world = World::new(&section(&collector.url("")));
    let secret = format!(
        "[secrets.OTLP]\nenv = \"OTLP_KEY\"\nurl = \"{}\"\nheader = \"authorization\"\nprefix = \"Bearer \"\n",
        collector.url("/")
    );
    let config = world.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap() + "otlp_secret = \"OTLP\"\n" + &secret;
    std::fs::write(&config, text).unwrap();
    // A run that was cut off goes on when the daemon starts.
    let sleep = json!({ "verb": "sleep", "ms": 300_000 }).to_string();
    let arguments = ["run", "probe", "--input", &sleep, "--timeout", "1h"];
    let mut command = world.home.command(&arguments);
    let mut running = Running::of(command.env("OTLP_KEY", "a-key-of-the-test"));
    let run_id = eventually("a run", || world.home.run_ids().pop());
    world.home.wait_for_event(&run_id, "run_started");
    running.child().kill().unwrap();
    drop(running);

    let mut serve = world.home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut daemon =
        crate::api::Daemon::of(&world.home, serve.env("OTLP_KEY", "a-key-of-the-test"));
    world.home.wait_for_event(&run_id, "run_resumed");
    // The part that was cut off is sent while the daemon goes on.
    eventually("a span that is counted", || {
        let figures = String::from_utf8(daemon.get("/metrics").body).unwrap();
        let is_counted = figures.contains("skillrun_trace_spans_exported_total 1\n");
        is_counted.then_some(())
    });
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.end(), Some(0), "{}", daemon.log());
    assert!(!daemon.log().contains("a-key-of-the-test"));
    let spans = collected(&collector);
    // The part that was cut off is told of, too.
    let [cut_off, span] = &spans[..] else {
        panic!("{spans:#?}")
    };
    assert_eq!(cut_off.attributes["skillrun.run.part"], "0");
    assert_eq!(cut_off.trace_id, span.trace_id);
    assert_eq!(span.attributes["skillrun.status"], "interrupted");
    assert_eq!(span.attributes["skillrun.run.part"], "1");
    for request in collector.seen() {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer a-key-of-the-test")
        );
    }
}
