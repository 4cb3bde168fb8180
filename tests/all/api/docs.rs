//! The guide for whoever writes a client, held to what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use skillrun_test_artifacts::{GREET, PROBE, PROBE_AGENT};

use super::daemon::Daemon;
use crate::harness::{Home, eventually};

/// The address that the guide has in its commands.
const ADDRESS: &str = "http://127.0.0.1:8420";
/// Stands for anything.
const ANYTHING: &str = "…";
/// How the ids of runs and executions begin, and how many digits follow.
const ID_HEADS: [&str; 2] = ["run_", "exec_"];
const ID_DIGITS: usize = 32;

fn guide() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/http.md")).unwrap()
}

/// Each command of the guide, and what it is said to print.
fn transcripts(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match (line, line.strip_prefix("$ ")) {
            ("```console", _) => is_inside = true,
            ("```", _) => is_inside = false,
            (_, Some(command)) if is_inside => found.push((command.to_owned(), Vec::new())),
            (line, _) if is_inside => found.last_mut().unwrap().1.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// The digits of the runs of the guide, by those that it has for them.
#[derive(Default)]
struct Runs(BTreeMap<String, String>);

impl Runs {
    /// The command with the ids that there are.
    fn put_into(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (told, found) in &self.0 {
            command = command.replace(told, found);
        }
        command
    }

    /// Whether what was found is what is told, or a run that is told of for the first time.
    fn is_same(&mut self, told: &str, found: &str) -> bool {
        // An execution has the digits of the run that is its ledger, and its number behind them.
        let digits_of = |text: &str| {
            let rest = ID_HEADS.iter().find_map(|head| text.strip_prefix(head))?;
            let (digits, part) = rest.split_at_checked(ID_DIGITS)?;
            let is_id = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| (digits.to_owned(), part.to_owned()))
        };
        if let (Some(told), Some(found)) = (digits_of(told), digits_of(found)) {
            let known = self.0.entry(told.0).or_insert_with(|| found.0.clone());
            return *known == found.0 && told.1 == found.1;
        }
        // A time is one, whichever it is.
        let is_time = |text: &str| text.len() > 20 && text.ends_with('Z') && text.contains('T');
        told == ANYTHING || told == found || is_time(told) && is_time(found)
    }

    /// The first thing that is told and not found.
    fn difference(&mut self, told: &Value, found: &Value) -> Option<String> {
        match (told, found) {
            (Value::String(told), _) if told == ANYTHING && !found.is_null() => None,
            (Value::Object(told), Value::Object(found)) => told.iter().find_map(|(key, told)| {
                let found = found.get(key).unwrap_or(&Value::Null);
                let difference = self.difference(told, found)?;
                Some(format!("{key}: {difference}"))
            }),
            (Value::Array(told), Value::Array(found)) if told.len() == found.len() => {
                let mut pairs = told.iter().zip(found);
                pairs.find_map(|(told, found)| self.difference(told, found))
            }
            (Value::String(told), Value::String(found)) if self.is_same(told, found) => None,
            (told, found) if told == found => None,
            (told, found) => Some(format!("expected {told}, found {found}")),
        }
    }

    /// The first line that is told and not printed.
    fn difference_of_lines(&mut self, told: &[String], printed: &str) -> Option<String> {
        let mut printed = printed.lines();
        let mut may_pass = false;
        for told in told {
            if told == ANYTHING {
                may_pass = true;
                continue;
            }
            let is_told = |runs: &mut Self, line: &str| match serde_json::from_str::<Value>(told) {
                Ok(told) => serde_json::from_str(line)
                    .is_ok_and(|found| runs.difference(&told, &found).is_none()),
                Err(_) => told == line,
            };
            let found = match may_pass {
                true => printed.any(|line| is_told(self, line)),
                false => printed.next().is_some_and(|line| is_told(self, line)),
            };
            if !found {
                return Some(told.clone());
            }
            may_pass = false;
        }
        None
    }
}

fn run(command: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("no_proxy", "*");
    shell.output().unwrap()
}

#[test]
fn what_the_guide_shows_is_what_comes() {
    let home = Home::new(&[GREET, PROBE, PROBE_AGENT]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"approval\"]\n");
    home.configure(
        "[skills.probe]\ngrant = [\"approval\"]\n[skills.probe-agent]\ngrant = [\"approval\"]\n",
    );
    let daemon = Daemon::start(&home);
    let mut runs = Runs::default();
    let transcripts = transcripts(&guide());
    assert!(transcripts.len() > 15, "{transcripts:?}");
    for (command, told) in transcripts {
        let asked = command.replace(ADDRESS, &format!("http://{}", daemon.address));
        let asked = runs.put_into(&asked);
        // What is only shown may come a moment later; what changes something is asked for once.
        let is_repeatable = !asked.contains("-X POST");
        let mut last = String::new();
        let mut look = || {
            let output = run(&asked);
            assert!(output.status.success(), "{asked}: {output:?}");
            let printed = String::from_utf8(output.stdout).unwrap();
            last = format!(
                "{printed}\nhas no {:?}",
                runs.difference_of_lines(&told, &printed)
            );
            runs.difference_of_lines(&told, &printed)
                .is_none()
                .then_some(())
        };
        match is_repeatable {
            true => eventually(&asked, &mut look),
            false => assert!(look().is_some(), "{asked}\n{last}\n{}", daemon.log()),
        }
    }
}

#[test]
fn the_guide_has_every_code_with_its_status() {
    let home = Home::new(&[]);
    let document = Daemon::start(&home).get("/openapi.json").json();
    let codes = &document["components"]["schemas"]["ProblemCode"];
    let listed = |values: &Value| -> Vec<String> {
        let values = values.as_array().into_iter().flatten();
        values
            .filter_map(|value| Some(value.as_str()?.to_owned()))
            .collect()
    };
    let mut expected: BTreeSet<String> = listed(&codes["enum"]).into_iter().collect();
    for variant in codes["oneOf"].as_array().into_iter().flatten() {
        expected.extend(listed(&variant["enum"]));
        expected.extend(variant["const"].as_str().map(str::to_owned));
    }
    assert!(expected.len() > 10, "{codes}");
    let text = guide();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let told: BTreeMap<&str, &str> = rows.collect();
    let names: BTreeSet<String> = told.keys().map(|&name| name.to_owned()).collect();
    assert_eq!(names, expected);
}
