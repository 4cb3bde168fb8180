//! The manual, which is the help texts, and the completion scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Home;

/// Set to 1, it makes the test write the texts anew.
const BLESS: &str = "SKILLRUN_BLESS";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help")
}

fn help(home: &Home, command: &[&str]) -> String {
    let mut asked = home.command(&[command, &["--help"]].concat());
    // The width of a terminal would change the text.
    let output = asked.env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

/// The names under `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command with its help text, by the name of the golden file.
fn all_helps(home: &Home, command: &[&str], texts: &mut BTreeMap<String, String>) {
    let text = help(home, command);
    for name in subcommands(&text) {
        all_helps(home, &[command, &[&name]].concat(), texts);
    }
    let name = [&["skillrun"], command].concat().join("-");
    texts.insert(format!("{name}.txt"), text);
}

#[test]
fn the_help_of_every_command_is_what_it_was() {
    let home = Home::new(&[]);
    let mut texts = BTreeMap::new();
    all_helps(&home, &[], &mut texts);
    for command in ["run", "runs-verify", "skills-validate", "completions"] {
        let file = format!("skillrun-{command}.txt");
        assert!(texts.contains_key(&file), "{file}");
    }
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        // There is none before the first time.
        let _old = fs::remove_dir_all(golden());
        fs::create_dir_all(golden()).unwrap();
        for (file, text) in &texts {
            fs::write(golden().join(file), text).unwrap();
        }
    }
    let mut kept = BTreeMap::new();
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        kept.insert(file, fs::read_to_string(path).unwrap());
    }
    assert_eq!(
        texts,
        kept,
        "a help text changed: {BLESS}=1 cargo test --test all manual writes {} anew",
        golden().display()
    );
}

#[test]
fn there_is_a_completion_script_for_every_shell() {
    let home = Home::new(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = home.skillrun(&["completions", shell]);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["skillrun", "inspect", "validate", "timeout"] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
    let bash = home.skillrun(&["completions", "bash"]).stdout;
    let script = home.path().join("completions.bash");
    fs::write(&script, bash).unwrap();
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(&script)
        .status()
        .unwrap();
    assert!(checked.success());
}

#[test]
fn the_version_is_that_of_the_package() {
    let ran = Home::new(&[]).skillrun(&["--version"]);
    let expected = format!("skillrun {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((ran.exit, ran.stdout), (Some(0), expected));
}
