//! Sockets and names: there are none.

use serde_json::json;
use skillrun_test_artifacts::PROBE;

use crate::harness::Home;

/// Case C14: no name is looked up, no socket is made, and each try is told and recorded.
#[test]
fn c14_sockets_and_names_are_denied() {
    let home = Home::new(&[PROBE]);
    let (document, exit) = home.run_json(
        "probe",
        &json!({ "verb": "sockets", "name": "exfil.example.com" }),
    );
    assert_eq!(exit, 0, "{document}");
    let answers = document["output"].as_object().unwrap();
    for (way, answer) in answers {
        assert!(
            answer == "access-denied" || answer == false,
            "{way}: {answer}"
        );
    }
    let denied = home.events_of(document["run_id"].as_str().unwrap(), "denied");
    let wanted: Vec<&str> = denied
        .iter()
        .map(|event| event["payload"]["wanted"].as_str().unwrap())
        .collect();
    assert_eq!(
        wanted[..5],
        [
            "TCP socket for IPv4",
            "TCP socket for IPv6",
            "UDP socket for IPv4",
            "UDP socket for IPv6",
            "address of exfil.example.com",
        ]
    );
    // What the standard library tries on its own is on record too.
    assert!(wanted.len() >= 8, "{wanted:?}");
    assert!(
        denied
            .iter()
            .all(|event| event["payload"]["capability"] == "net")
    );
}
