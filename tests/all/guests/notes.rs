//! `notes`, as a user runs it: notes are files in a folder of the host, if the operator gives one.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::NOTES;

use crate::harness::Home;

fn run(home: &Home, grants: &[&str], input: &Value) -> (Value, i32) {
    let input = input.to_string();
    let mut arguments = vec!["run", "notes", "--json", "--input", &input];
    for grant in grants {
        arguments.extend(["--grant", grant]);
    }
    let ran = home.skillrun(&arguments);
    (ran.json(), ran.exit.unwrap())
}

#[test]
pub(super) fn main_job() {
    let home = Home::new(&[NOTES]);
    let folder = tempfile::tempdir().unwrap();
    let grant = format!("fs:rw:{}=/notes", folder.path().display());
    let milk = json!({ "do": "add", "title": "milk", "text": "two litres" });
    let (document, exit) = run(&home, &[&grant], &milk);
    assert_eq!(
        (&document["output"], exit),
        (&json!({ "title": "milk" }), 0)
    );
    let text = fs::read_to_string(folder.path().join("milk.txt")).unwrap();
    assert_eq!(text, "two litres");

    // The same from the configuration, and there for the next run.
    home.configure(&format!("[skills.notes]\ngrant = [\"{grant}\"]"));
    let (document, _) = run(&home, &[], &json!({ "do": "list" }));
    assert_eq!(document["output"], json!({ "titles": ["milk"] }));
    let (document, _) = run(&home, &[], &json!({ "do": "read", "title": "milk" }));
    assert_eq!(
        document["output"],
        json!({ "title": "milk", "text": "two litres" })
    );
    let (document, exit) = run(&home, &[], &milk);
    assert_eq!(
        (&document["code"], exit),
        (&json!("skill_error"), 1),
        "{document}"
    );
}

#[test]
fn a_folder_to_read_is_not_written() {
    let home = Home::new(&[NOTES]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("milk.txt"), "two litres").unwrap();
    let grant = format!("fs:ro:{}=/notes", folder.path().display());
    let (document, _) = run(&home, &[&grant], &json!({ "do": "read", "title": "milk" }));
    assert_eq!(document["output"]["text"], "two litres");

    let bread = json!({ "do": "add", "title": "bread", "text": "" });
    let (document, exit) = run(&home, &[&grant], &bread);
    assert_eq!(
        (&document["code"], exit),
        (&json!("denied"), 3),
        "{document}"
    );
    let denied = home.events_of(document["run_id"].as_str().unwrap(), "denied");
    assert_eq!(denied.len(), 1);
    let payload = &denied[0]["payload"];
    assert_eq!(payload["capability"], grant.replace("fs:ro", "fs:rw"));
    assert_eq!(payload["wanted"], "open for writing /notes/bread.txt");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn without_a_folder_there_is_nothing() {
    let home = Home::new(&[NOTES]);
    let (document, exit) = run(&home, &[], &json!({ "do": "list" }));
    assert_eq!(
        (&document["code"], exit),
        (&json!("skill_error"), 1),
        "{document}"
    );
}
