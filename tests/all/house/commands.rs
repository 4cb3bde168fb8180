//! Every command that a document shows exists, with the flags it is shown with.

use std::collections::HashMap;
use std::process::Command;

use super::assert_clean;
use super::markdown::Document;
use super::tree::{TextFile, root, text_files};

/// Answers the help text of a command such as `skillrun runs`, or nothing if there is none.
type Help<'a> = dyn FnMut(&[&str]) -> Option<String> + 'a;

fn check(file: &TextFile, help: &mut Help<'_>) -> Vec<String> {
    let document = Document::parse(&file.text);
    let mut complaints = Vec::new();
    for piece in document.commands.iter().chain(&document.spans) {
        if let Err(complaint) = check_command(&piece.text, help) {
            complaints.push(format!(
                "{}:{}: {complaint}: {}",
                file.path, piece.line, piece.text
            ));
        }
    }
    complaints
}

/// Lines that start neither with `skillrun` nor with `cargo xtask` are not ours to judge.
fn check_command(line: &str, help: &mut Help<'_>) -> Result<(), String> {
    let words = words(line);
    let mut words = words
        .iter()
        .map(String::as_str)
        .skip_while(|word| is_assignment(word))
        .peekable();
    let mut command = match words.next() {
        Some("skillrun") => vec!["skillrun"],
        Some("cargo") if words.next_if_eq(&"xtask").is_some() => vec!["cargo", "xtask"],
        _ => return Ok(()),
    };
    let mut text = help(&command).ok_or("no such command")?;
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        } else if word.starts_with("--") {
            let flag = word.split('=').next().unwrap_or(word);
            let declared = flag_of(&text, flag).ok_or(format!("no flag {flag}"))?;
            if declared == Flag::TakesValue && !word.contains('=') {
                words.next();
            }
        } else if !word.starts_with('-') && !subcommands(&text).is_empty() {
            if !subcommands(&text).contains(&word) {
                return Err(format!("no command {word}"));
            }
            command.push(word);
            text = help(&command).ok_or(format!("no help for {word}"))?;
        }
    }
    Ok(())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.chars()
            .all(|letter| letter.is_ascii_uppercase() || letter == '_')
    })
}

/// The words of the first command of a line, quotes taken off. Brackets of a synopsis are not part
/// of a word.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if "|;&>#".contains(letter) => break,
            None if letter.is_whitespace() || "[]".contains(letter) => words.push(String::new()),
            _ => words
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|word| word.push(letter)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The names below `Commands:`.
fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Flag {
    Alone,
    TakesValue,
}

/// How a help text declares a flag; a value is shown as `<VALUE>` or as a word in capitals.
fn flag_of(help: &str, flag: &str) -> Option<Flag> {
    help.lines().find_map(|line| {
        let after = line.split_once(flag)?.1;
        if !after.is_empty() && !after.starts_with([' ', ',', '=']) {
            return None;
        }
        let value = after
            .trim_start_matches('=')
            .split_whitespace()
            .next()
            .unwrap_or_default();
        let is_value = value.starts_with('<')
            || !value.is_empty() && value.chars().all(|letter| letter.is_ascii_uppercase());
        Some(if is_value {
            Flag::TakesValue
        } else {
            Flag::Alone
        })
    })
}

fn real_help(command: &[&str]) -> Option<String> {
    match command {
        ["skillrun", subcommands @ ..] => {
            let binary = env!("CARGO_BIN_EXE_skillrun");
            let output = Command::new(binary)
                .args(subcommands)
                .arg("--help")
                .output()
                .ok()?;
            output
                .status
                .success()
                .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        }
        ["cargo", "xtask", subcommands @ ..] => {
            let usage = std::fs::read_to_string(root().join("xtask/src/usage.txt")).ok()?;
            Some(xtask_help(&usage, subcommands))
        }
        _ => None,
    }
}

/// The usage text of xtask is one for all its commands: that of one command is its lines in it.
fn xtask_help(usage: &str, subcommands: &[&str]) -> String {
    let is_about = |line: &&str| match subcommands {
        [] => true,
        [command, ..] => line.split_whitespace().next() == Some(command),
    };
    usage
        .lines()
        .filter(is_about)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_command_in_a_document_exists() {
    let mut known: HashMap<String, Option<String>> = HashMap::new();
    let mut help = |command: &[&str]| {
        known
            .entry(command.join(" "))
            .or_insert_with(|| real_help(command))
            .clone()
    };
    let documents = text_files(&[".md"]).unwrap();
    let complaints: Vec<String> = documents
        .iter()
        .flat_map(|file| check(file, &mut help))
        .collect();
    assert_clean(&complaints);
}

#[test]
fn a_command_or_flag_that_does_not_exist_is_seen() {
    let mut help = |command: &[&str]| match command {
        ["skillrun"] => {
            Some("Commands:\n  run   runs\n  runs  lists\n\nOptions:\n  --home <DIR>\n".to_owned())
        }
        ["skillrun", "runs"] => Some("Commands:\n  list  lists\n".to_owned()),
        ["skillrun", "run"] => {
            Some("Options:\n      --input <JSON>\n  -q, --quiet  says less\n".to_owned())
        }
        ["skillrun", "runs", "list"] => Some("      --json  as JSON\n".to_owned()),
        ["cargo", "xtask", rest @ ..] => Some(xtask_help(
            "Commands:\n  demo  shows\n  test --only STEP  runs\n",
            rest,
        )),
        _ => None,
    };
    for line in [
        "skillrun launch greet",
        "skillrun runs explain run_1",
        "skillrun run greet --colour",
        "SKILLRUN_HOME=/tmp/x skillrun runs list --inputs",
        "skillrun run --json",
        "cargo xtask tset",
        "cargo xtask demo --only lints",
    ] {
        assert!(check_command(line, &mut help).is_err(), "{line}");
    }
    for line in [
        "skillrun run greet --input '{\"name\": \"--x\"}' --quiet | wc --lines",
        "skillrun run <skill> [--input JSON | @file]",
        "skillrun --home runs runs list --json  # as --lines",
        "cargo xtask test --only lints && skillrun gone",
        "cargo build --release",
        "skillrun",
    ] {
        assert_eq!(check_command(line, &mut help), Ok(()), "{line}");
    }
}
