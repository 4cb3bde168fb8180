//! Workers that ask for more than their executions may have, as one would that an agent broke out into.

use serde_json::{Value, json};
use skillrun::Skillrun;
use skillrun::runtime::{CHILDREN_MAX, LaunchSpec, Runtime as _, WorkerProgram};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::super::rig::{in_time, script};
use super::house::House;
use crate::tools::python;

/// What tools may ask for at once.
const ASKED_MAX: u64 = 256;

/// A worker that is played by the test.
struct Worker {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    asked: u64,
}

impl Worker {
    async fn send(&mut self, frame: &Value) {
        let line = format!("{frame}\n");
        self.write.write_all(line.as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        in_time(self.read.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Asks, and does not wait for the answer.
    async fn begin(&mut self, ask: &Value) {
        self.asked += 1;
        let number = self.asked;
        self.send(&json!({ "ask": { "number": number, "ask": ask } }))
            .await;
    }

    /// The next answer to whatever was asked.
    async fn told(&mut self) -> Value {
        self.receive().await["tell"]["told"].take()
    }

    async fn ask(&mut self, ask: &Value) -> Value {
        self.begin(ask).await;
        self.told().await
    }

    /// What an ask is refused with.
    #[track_caller]
    fn refused(told: &Value) -> &str {
        told["refusal"]["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{told}"))
    }
}

/// An execution in the mode `task` whose worker the test plays.
async fn played(house: &House) -> (Skillrun, String, Worker) {
    let socket = house.home.path().join("worker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let process = house.process_with_worker(WorkerProgram {
        program: python(),
        arguments: vec![script().into(), "bridge".into(), socket.into()],
        environment: Vec::new(),
    });
    let spec = LaunchSpec {
        agent_profile_id: "probe-agent".to_owned(),
        executor_id: "subprocess".to_owned(),
        ..LaunchSpec::default()
    };
    let runtime = process.runtime().clone();
    let launched = tokio::spawn(async move { runtime.launch(spec).await });
    let (stream, _) = in_time(listener.accept()).await.unwrap();
    let (read, write) = stream.into_split();
    let mut worker = Worker {
        read: BufReader::new(read),
        write,
        asked: 0,
    };
    let launch = worker.receive().await;
    assert_eq!(launch["launch"]["mode"], "task", "{launch}");
    let started = json!({ "started": { "at": "2026-01-01T00:00:00.000000Z" } });
    worker.send(&started).await;
    let launched = in_time(launched).await.unwrap().unwrap();
    (process, launched.id.to_string(), worker)
}

fn launch(spec: &Value) -> Value {
    let mut whole = json!({ "agent": "probe-agent", "prompt": "", "mode": "", "metadata": {} });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({ "ask": "launch", "spec": whole })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_no_more_than_its_execution() {
    let house = House::new(r#""tool:*", "skill:probe-agent""#);
    let (process, id, mut worker) = played(&house).await;
    let settings = json!({ "ask": "settings", "request": { "request": "list_skills" } });
    for denied in [
        // It is not in the mode for that.
        settings.clone(),
        // It is not granted.
        launch(&json!({ "agent": "greet" })),
        launch(&json!({ "agent": "../probe-agent" })),
        // These are not for agents to give.
        launch(&json!({ "mode": "config" })),
        launch(&json!({ "metadata": { "launch_request": { "limits": { "fuel": 1 } } } })),
    ] {
        let told = worker.ask(&denied).await;
        assert_eq!(Worker::refused(&told), "denied", "{denied}");
    }
    assert_eq!(house.home.run_ids().len(), 0);
    // A person gives it the other mode, and with that loses it this one.
    let (runtime, owned) = (process.runtime().clone(), id.clone());
    let changed = tokio::spawn(async move { runtime.set_mcp_mode(&owned, "config").await });
    let set = worker.receive().await;
    assert_eq!(set["set_mode"]["mode"], "config", "{set}");
    let told = worker.ask(&settings).await;
    assert_eq!(Worker::refused(&told), "denied");
    worker.send(&json!({ "mode_set": { "error": null } })).await;
    assert!(in_time(changed).await.unwrap().unwrap());
    let told = worker.ask(&settings).await;
    assert_eq!(told["answer"], "settings", "{told}");
    let told = worker.ask(&json!({ "ask": "list" })).await;
    assert_eq!(Worker::refused(&told), "denied");
    process.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_launches_and_asks_so_much_and_no_more() {
    let house = House::new(r#""tool:*", "skill:probe-agent""#);
    let (process, id, mut worker) = played(&house).await;
    let mut children = Vec::new();
    for _ in 0..CHILDREN_MAX {
        let told = worker.ask(&launch(&json!({}))).await;
        let child = told["child"]["execution_id"].as_str();
        children.push(child.unwrap_or_else(|| panic!("{told}")).to_owned());
    }
    let told = worker.ask(&launch(&json!({}))).await;
    assert_eq!(Worker::refused(&told), "full");
    let listed = process.runtime().list_children(&id).await.unwrap();
    assert_eq!(listed.len(), CHILDREN_MAX);
    // None of these is ever answered.
    let prompt =
        |child: &String| json!({ "ask": "prompt", "child": child, "text": "sleep 600000" });
    for asked in 0..ASKED_MAX {
        let child = usize::try_from(asked).unwrap() % CHILDREN_MAX;
        worker.begin(&prompt(&children[child])).await;
    }
    let told = worker.ask(&json!({ "ask": "list" })).await;
    assert_eq!(Worker::refused(&told), "full");
    // What is taken back makes room.
    worker
        .send(&json!({ "take_back": { "number": worker.asked - 1 } }))
        .await;
    loop {
        let told = worker.ask(&json!({ "ask": "list" })).await;
        if told["answer"] == "children" {
            break;
        }
    }
    process.shutdown().await;
}
