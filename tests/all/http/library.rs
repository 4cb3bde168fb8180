//! What an embedder sets and the binary cannot: who resolves names.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, HttpOptions, JsonObject, Resolve, Runner, RunnerOptions, SkillExecutor,
    SkillExecutorOptions, StartOptions, Terms,
};
use skillrun_test_artifacts::PROBE;
use tempfile::TempDir;

use super::server::{Server, ok};
use super::tls;
use crate::executor::PATIENT;

/// Gives the addresses of its script, one list for each look-up, the last for ever.
struct Script {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self {
            answers: Mutex::new(answers.iter().rev().map(parse).collect()),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolve for Script {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        Ok(match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop().unwrap(),
        })
    }
}

/// Runs the probe with these grants, where names are resolved by the script, 127.0.0.1 alone is allowed
/// and the authority of the tests is trusted; gives its output.
async fn run(resolver: Arc<Script>, grants: &[String], verb: Value) -> Value {
    let folder = TempDir::new().unwrap();
    let skill = Skill::from_wasm(PROBE.wasm.as_ref()).unwrap();
    let name = skill.name.to_string();
    let clock = Clock::system();
    let authority = CertificateDer::from_pem_file(tls::file("ca.pem")).unwrap();
    let executor = SkillExecutor::new(SkillExecutorOptions {
        loading: PATIENT,
        instances_max: 1,
        http: HttpOptions {
            addresses_allowed: vec!["127.0.0.1/32".parse().unwrap()],
            ca_certificates: vec![authority.to_vec()],
            resolver,
            ..HttpOptions::default()
        },
        ..SkillExecutorOptions::new(Registry::of([skill]), clock.clone())
    });
    let runner = Runner::new(RunnerOptions {
        store: Store::open(StoreOptions {
            runs_dir: folder.path().join("runs"),
            durability: Durability::Relaxed,
            clock: clock.clone(),
        })
        .unwrap(),
        executor: Arc::new(executor.unwrap()),
        admission: Admission::default(),
        clock,
    });
    let options = StartOptions {
        terms: Terms {
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            ..Terms::default()
        },
        ..StartOptions::new(name, JsonObject::parse(verb.to_string()).unwrap())
    };
    let outcome = runner.run(Caller::new(), options).await.unwrap();
    serde_json::from_str(outcome.result.output().as_str()).unwrap()
}

/// A name that changes its address between the check and the connection has nothing to gain: it is
/// looked up once for each request, and what was checked is connected to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_looked_up_once_and_connected_to_as_checked() {
    let server = Server::answering(ok("checked"));
    let port = server.address.port();
    let trap = Server::over(
        &format!("127.0.0.2:{port}"),
        |stream| stream,
        |_, wire| wire.write_all(&ok("rebound")),
    );
    let script = Script::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]]);
    let grants = [format!("net:http://name.example:{port}/#GET")];
    let url = format!("http://name.example:{port}/");
    let verb = json!({ "verb": "http_each", "urls": [url, url, url] });
    let output = run(Arc::clone(&script), &grants, verb).await;
    assert_eq!(output[0]["text"], "checked");
    let error = output[1]["error"].as_str().unwrap();
    assert!(error.contains("DestinationIpProhibited"), "{error}");
    // Of several addresses, those that may not be connected to are not tried.
    assert_eq!(output[2]["text"], "checked");
    assert_eq!(script.asked(), ["name.example"; 3]);
    assert_eq!((server.seen().len(), trap.seen().len()), (2, 0));
}

/// The certificate has to be for the name that was granted. That it is for the address which the name
/// has, and for another name, counts for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_host_is_refused() {
    let server = tls::server();
    let port = server.address.port();
    let script = Script::new(&[&["127.0.0.1"]]);
    let urls = ["localhost", "name.example"].map(|host| format!("https://{host}:{port}/"));
    let grants = urls.clone().map(|url| format!("net:{url}#GET"));
    let verb = json!({ "verb": "http_each", "urls": urls });
    let output = run(Arc::clone(&script), &grants, verb).await;
    assert_eq!(output[0]["text"], "in private");
    let error = output[1]["error"].as_str().unwrap();
    assert!(error.contains("TlsCertificateError"), "{error}");
    assert_eq!(script.asked(), ["localhost", "name.example"]);
    assert_eq!(server.seen().len(), 1);
}

/// Case C14: the resolver hears of granted names alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_no_other_name_is_resolved() {
    let server = Server::answering(ok(""));
    let port = server.address.port();
    let script = Script::new(&[&["127.0.0.1"]]);
    let grants = [format!("net:http://name.example:{port}/#GET")];
    let urls = [
        format!("http://other.example:{port}/"),
        format!("http://sub.name.example:{port}/"),
        format!("http://name.example.:{port}/"),
    ];
    let output = run(
        Arc::clone(&script),
        &grants,
        json!({ "verb": "http_each", "urls": urls }),
    )
    .await;
    for denied in [&output[0], &output[1]] {
        assert!(
            denied["error"]
                .as_str()
                .unwrap()
                .contains("HttpRequestDenied"),
            "{denied}"
        );
    }
    assert_eq!(output[2]["status"], 200);
    assert_eq!(script.asked(), ["name.example"]);
    run(
        Arc::clone(&script),
        &grants,
        json!({ "verb": "look_up", "name": "other.example" }),
    )
    .await;
    assert_eq!(script.asked().len(), 1);
}
