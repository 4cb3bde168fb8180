//! The command line as people and programs meet it: the real binary, its streams, its exit codes, the
//! ledgers it leaves.

use std::fs;

use serde_json::Value;

use crate::harness::{Home, Ran};

mod agent;
mod approvals;
mod bad_home;
mod bad_input;
mod bad_skills;
mod config;
mod errors;
mod explain;
mod hostile;
mod install;
mod ledgers;
mod listing;
mod manual;
mod pins;
mod questions;
mod signals;
mod tail;
mod terminal;
mod together;
mod upkeep;
mod warm_start;

/// Ids of runs, so that a test can name one before it begins.
fn run_id(number: u32) -> String {
    format!("run_0190a0a0a0a07000800000000000{number:04x}")
}

/// A command line that is refused, and how.
#[derive(Debug, Default)]
struct Refusal {
    arguments: Vec<String>,
    stdin: Vec<u8>,
    exit: i32,
    code: &'static str,
    /// Parts of the message.
    says: Vec<&'static str>,
    /// A part of the hint; empty: there is none.
    hint: String,
    /// Whether a run was begun, and so is on record.
    is_recorded: bool,
}

impl Refusal {
    fn new(arguments: &[&str], exit: i32, code: &'static str) -> Self {
        Self {
            arguments: arguments.iter().copied().map(str::to_owned).collect(),
            exit,
            code,
            ..Self::default()
        }
    }

    fn usage(arguments: &[&str]) -> Self {
        Self::new(arguments, 2, "usage")
    }

    fn with_stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    fn says(mut self, says: &[&'static str]) -> Self {
        self.says = says.to_vec();
        self
    }

    fn hints(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    fn recorded(mut self) -> Self {
        self.is_recorded = true;
        self
    }

    /// Makes the mistake twice, for a person and for a program.
    #[track_caller]
    fn check(&self, home: &Home) {
        self.check_text(home);
        self.check_json(home);
    }

    #[track_caller]
    fn check_text(&self, home: &Home) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ran = home.skillrun_with_stdin(&arguments, &self.stdin);
        assert_eq!(ran.exit, Some(self.exit), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
        self.check_words(&ran.stderr);
        let message = ran.stderr.strip_prefix("error: ");
        let message = message.unwrap_or_else(|| panic!("{arguments:?}: {ran:?}"));
        for part in &self.says {
            assert!(message.contains(part), "{part:?}: {message}");
        }
        let hint = message.split_once("\nhint: ").map(|(_, hint)| hint);
        assert_eq!(hint.is_some(), !self.hint.is_empty(), "{ran:?}");
        assert!(hint.unwrap_or_default().contains(&self.hint), "{ran:?}");
        let is_recorded = message.contains("\nsee: skillrun runs inspect run_");
        assert_eq!(is_recorded, self.is_recorded, "{ran:?}");
    }

    #[track_caller]
    fn check_json(&self, home: &Home) {
        let runs_before = home.run_ids().len();
        let mut arguments = vec!["--json"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let ran = home.skillrun_with_stdin(&arguments, &self.stdin);
        assert_eq!(ran.exit, Some(self.exit), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stderr, "", "{arguments:?}");
        self.check_words(&ran.stdout);
        let document = one_document(&ran);
        assert_eq!(document["code"], self.code, "{document}");
        let error = document["error"].as_str().unwrap();
        for part in &self.says {
            assert!(error.contains(part), "{part:?}: {error}");
        }
        let hint = document.get("hint").map(|hint| hint.as_str().unwrap());
        assert_eq!(hint.is_some(), !self.hint.is_empty(), "{document}");
        assert!(hint.unwrap_or_default().contains(&self.hint), "{document}");
        let run_id = document.get("run_id").map(|id| id.as_str().unwrap());
        assert_eq!(run_id.is_some(), self.is_recorded, "{document}");
        let begun = home.run_ids().len() - runs_before;
        assert_eq!(begun, usize::from(self.is_recorded), "{document}");
        if let Some(run_id) = run_id {
            let completed = home.events_of(run_id, "run_completed");
            assert_eq!(completed[0]["payload"]["code"], self.code);
            assert_eq!(completed[0]["payload"]["error"], error);
        }
    }

    /// A message is for people: no panic, and nothing as Rust prints it for programmers.
    #[track_caller]
    fn check_words(&self, text: &str) {
        for word in [
            "panicked",
            "RUST_BACKTRACE",
            "Some(",
            "Err(",
            "Os {",
            "kind:",
        ] {
            assert!(!text.contains(word), "{word}: {:?}: {text}", self.arguments);
        }
    }
}

/// Standard output as exactly one JSON document on one line.
#[track_caller]
fn one_document(ran: &Ran) -> Value {
    assert_eq!(ran.stdout.matches('\n').count(), 1, "{ran:?}");
    ran.json()
}

/// Files by name.
type Files<'a> = [(&'a str, &'a [u8])];

/// A folder of the skills folder with these files.
fn write_skill(home: &Home, name: &str, files: &Files<'_>) {
    let folder = home.skill(name);
    fs::create_dir_all(&folder).unwrap();
    for (file, content) in files {
        fs::write(folder.join(file), content).unwrap();
    }
}

/// A SKILL.md without fault.
fn skill_md(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does nothing.\n---\n\nNothing.\n")
}
