//! Servers that others made: the reference server, over both transports, and one of the Python package.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use skillrun::call::Effect;
use skillrun::tools::ToolError;

use super::{Bench, everything, python, script, text};
use crate::harness::{Reserved, eventually};

/// What both transports of the reference server have to show.
async fn everything_works(bench: &Bench) {
    let names = bench.names("every__get-*").await;
    assert!(names.contains(&"every__get-sum".to_owned()), "{names:?}");
    assert!(!names.contains(&"every__echo".to_owned()), "{names:?}");

    let echo = bench.toolbox.find("every__echo").await.unwrap().unwrap();
    assert_eq!(echo.definition().effect, Effect::Read);
    assert!(echo.definition().description.contains("Echoes"));
    let mismatch = echo.check(r#"{"message": 5}"#).unwrap_err();
    assert!(mismatch.to_string().contains("$.message"), "{mismatch}");
    assert!(echo.check("[]").is_err());

    let answer = bench.call("every__echo", json!({"message": "hé\n"})).await;
    assert_eq!(text(&answer.unwrap()), "Echo: hé\n");
    let sum = bench.call("every__get-sum", json!({"a": 2, "b": 3})).await;
    assert!(text(&sum.unwrap()).contains('5'));
    let image = bench.call("every__get-tiny-image", json!({})).await;
    let image = image.unwrap();
    let kinds = image["content"].as_array().unwrap().iter();
    assert!(kinds.into_iter().any(|block| block["type"] == "image"));
    let weather = json!({"location": "Chicago"});
    let weather = bench.call("every__get-structured-content", weather).await;
    assert!(text(&weather.unwrap()).contains("temperature"));
    assert!(bench.toolbox.find("every__none").await.unwrap().is_none());
}

/// A call that takes long does not keep others waiting, and one that nobody waits for is given up.
async fn calls_go_on_together(bench: &Bench) {
    let operation = "every__trigger-long-running-operation";
    let long = bench.toolbox.find(operation).await.unwrap().unwrap();
    let arguments = r#"{"duration": 600, "steps": 600}"#;
    let mut long = std::pin::pin!(long.call(arguments));
    for number in 0..20 {
        tokio::select! {
            biased;
            answer = &mut long => panic!("{answer:?}"),
            answer = bench.call("every__get-sum", json!({"a": number, "b": 1})) => {
                let sum = (number + 1).to_string();
                assert!(text(&answer.unwrap()).contains(&sum));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_server_is_spoken_to_over_its_standard_input_and_output() {
    let command = json!(["node", everything(), "stdio"]);
    let bench = Bench::new(&format!("[mcp_servers.every]\ncommand = {command}"));
    everything_works(&bench).await;
    calls_go_on_together(&bench).await;
    bench.toolbox.shutdown().await;
    let closed = bench.call("every__echo", json!({"message": ""})).await;
    assert!(matches!(closed, Err(ToolError::Unavailable { .. })));
}

/// The reference server as a process that listens; it ends with the test.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_server_is_spoken_to_over_http() {
    let reserved = Reserved::new();
    let port = reserved.address.port();
    let mut command = Command::new("node");
    command
        .arg(everything())
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _listening = Listening(command.spawn().unwrap());
    eventually("the server", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let url = format!("http://127.0.0.1:{port}/mcp");
    let bench = Bench::new(&format!("[mcp_servers.every]\nurl = \"{url}\""));
    everything_works(&bench).await;
    calls_go_on_together(&bench).await;
    bench.toolbox.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_package_is_spoken_to() {
    let command = json!([python(), script("friendly.py")]);
    let config = format!("[mcp_servers.py]\ncommand = {command}\ntimeout_ms = 10_000");
    let bench = Bench::new(&config);
    let names = bench.names("py__*").await;
    assert_eq!(names, ["py__add", "py__fail", "py__wait"]);
    let add = bench.toolbox.find("py__add").await.unwrap().unwrap();
    assert_eq!(add.definition().effect, Effect::Read);
    let wait = bench.toolbox.find("py__wait").await.unwrap().unwrap();
    assert_eq!(wait.definition().effect, Effect::Write);

    let late = wait.call(r#"{"seconds": 600}"#).await;
    assert_eq!(late, Err(ToolError::TimedOut { timeout_ms: 10_000 }));
    let sum = add.call(r#"{"a": 2, "b": 3}"#).await.unwrap();
    assert!(sum.content.contains("\"5\""), "{sum:?}");
    let failed = bench.call("py__fail", json!({})).await.unwrap();
    assert_eq!(failed["is_error"], true);
    assert!(text(&failed).contains("fail"), "{failed}");
    bench.toolbox.shutdown().await;
}
