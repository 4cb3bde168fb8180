//! From the start of the process to its end.

use rustix::process::Signal;
use serde_json::json;

use super::daemon::Daemon;
use crate::harness::Home;

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
}
