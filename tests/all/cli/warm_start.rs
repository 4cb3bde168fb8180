//! What one process compiled is there for the next one, and what is wrong with it fails nobody.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use skillrun::clock::Clock;
use skillrun::config::Config;
use skillrun::registry::Registry;
use skillrun::runner::{Executor as _, SkillExecutor, SkillExecutorOptions, runtime_builder};
use skillrun_test_artifacts::PROBE;

use crate::executor::{PATIENT, skill_of};
use crate::harness::{Home, Ran};
use crate::wit::examples;

/// The files in the cache with what tells whether they were replaced.
fn cached(home: &Home) -> BTreeMap<PathBuf, u64> {
    let entries = fs::read_dir(home.path().join("cache")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            let inode = fs::metadata(&path).unwrap().ino();
            (path, inode)
        })
        .collect()
}

fn changed(before: &BTreeMap<PathBuf, u64>, after: &BTreeMap<PathBuf, u64>) -> usize {
    after
        .iter()
        .filter(|&(path, inode)| before.get(path) != Some(inode))
        .count()
}

fn install(home: &Home, name: &str, wasm: &[u8]) {
    let skill = home.skill(name);
    fs::create_dir_all(&skill).unwrap();
    let front_matter = format!("---\nname: {name}\ndescription: One of many\n---\n");
    fs::write(skill.join("SKILL.md"), front_matter).unwrap();
    fs::write(skill.join("skill.wasm"), wasm).unwrap();
}

fn flip_a_byte(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[!byte[0]], middle).unwrap();
}

/// Case C20: a home with twenty skills, two of them interpreters of Python. Everything that a start can
/// find wrong in the cache is made anew, nothing else is, and every skill says what it is.
#[test]
fn twenty_skills_are_compiled_once_and_what_is_stale_or_damaged_again() {
    let home = Home::new(&[]);
    let python = fs::read(examples::python().join("skill.wasm")).unwrap();
    let mut names: Vec<String> = (0..18).map(|n| format!("small-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        install(&home, name, &skill_of("", "", &"(func)".repeat(n), ""));
    }
    for name in ["python-1", "python-2"] {
        install(&home, name, &python);
        names.push(name.to_owned());
    }
    describe_all(&home, &names);
    let first = cached(&home);
    // Two folders with the same component share what comes of it.
    assert_eq!(first.len(), 19);
    describe_all(&home, &names);
    assert_eq!(cached(&home), first, "nothing was compiled again");

    // Another memory limit, a damaged file, one that was cut off, and one of another engine.
    home.configure("[limits]\nmemory_bytes = 134_217_728");
    let paths: Vec<&PathBuf> = first.keys().collect();
    flip_a_byte(paths[3]);
    let cut = File::options().write(true).open(paths[5]).unwrap();
    cut.set_len(1_000).unwrap();
    let stale = paths[7].with_file_name("stale");
    fs::rename(paths[7], &stale).unwrap();
    describe_all(&home, &names);
    fs::remove_file(&stale).unwrap();
    let second = cached(&home);
    assert_eq!((second.len(), changed(&first, &second)), (19, 3));
    describe_all(&home, &names);
    assert_eq!(cached(&home), second);
}

/// Does what a process does that begins with this home: reads configuration and skills, and asks each
/// skill what it is.
fn describe_all(home: &Home, names: &[String]) {
    let config = Config::load(home.path()).unwrap();
    let executor = SkillExecutor::new(SkillExecutorOptions {
        instances_max: 4,
        loading: PATIENT,
        ..SkillExecutorOptions::from_config(
            &config,
            Registry::load(&config.skills_dir()).unwrap(),
            Clock::system(),
        )
    })
    .unwrap();
    let runtime = runtime_builder().worker_threads(2).build().unwrap();
    for name in names {
        let described = runtime.block_on(executor.describe(name)).unwrap();
        let is_python = name.starts_with("python");
        assert_eq!(
            described.name,
            if is_python { "greet-py" } else { "" },
            "{name}"
        );
    }
}

#[test]
fn processes_that_compile_the_same_at_once_do_not_meet() {
    let home = Home::new(&[PROBE]);
    let arguments = ["run", "probe", "--json", "--input", r#"{"verb":"noop"}"#];
    let running: Vec<_> = (0..4).map(|_| home.start(&arguments)).collect();
    for process in running {
        let ran = process.end();
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    }
    let cached_at_once = cached(&home);
    assert_eq!(cached_at_once.len(), 1);
    assert_eq!(home.skillrun(&arguments).exit, Some(0));
    assert_eq!(cached(&home), cached_at_once);

    // A damaged file is told of once, since it is replaced.
    let path = cached_at_once.keys().next().unwrap();
    flip_a_byte(path);
    let ran = home.skillrun(&arguments);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        ran.stderr.contains(name) && ran.stderr.contains("checksum"),
        "{ran:?}"
    );
    assert_eq!(changed(&cached_at_once, &cached(&home)), 1);
    assert_eq!(home.skillrun(&arguments).stderr, "");
}

/// Case C10, second half: also where it is the skill's own manifest that allows less than the skill needs.
#[test]
fn a_component_that_needs_more_memory_than_it_may_have_is_told_how_much_and_by_which_key() {
    let home = Home::new(&[]);
    install(&home, "greedy", &skill_of("", "", "", ""));
    home.configure("[limits]\nmemory_bytes = 60_000");
    let (document, exit) = home.run_json("greedy", &json!({}));
    assert_eq!(
        (&document["code"], exit),
        (&json!("load_error"), 1),
        "{document}"
    );
    let said = document["error"].as_str().unwrap();
    assert!(
        said.contains("needs memory_bytes = 65536: this host has room for"),
        "{said}"
    );
    assert!(
        document["hint"]
            .as_str()
            .unwrap()
            .contains("limits.memory_bytes"),
        "{document}"
    );

    home.configure("");
    home.write_manifest("greedy", "[limits]\nmemory_bytes = 60_000");
    let (document, exit) = home.run_json("greedy", &json!({}));
    assert_eq!(
        (&document["code"], exit),
        (&json!("memory_limit"), 4),
        "{document}"
    );
    let said = document["error"].as_str().unwrap();
    assert!(
        said.contains("memory_bytes limit of 60000 reached (set by manifest)"),
        "{said}"
    );
    assert!(
        document["hint"].as_str().unwrap().contains("skill.toml"),
        "{document}"
    );
}

#[test]
fn a_pool_for_which_there_are_no_addresses_is_refused_with_the_key() {
    let home = Home::new(&[PROBE]);
    let run = home.command(&["run", "probe", "--input", r#"{"verb":"noop"}"#]);
    let mut bounded = Command::new("sh");
    bounded
        .args(["-c", r#"ulimit -v 16000000; exec "$0" "$@""#])
        .arg(run.get_program())
        .args(run.get_args())
        .env("SKILLRUN_HOME", home.path());
    let Ran { exit, stderr, .. } = crate::harness::Running::of(&mut bounded).end();
    assert_eq!(exit, Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot make a pool of 16 instances (runs.at_once_max), which takes 256 GiB of addresses"),
        "{stderr}"
    );
    assert!(stderr.contains("hint: lower runs.at_once_max"), "{stderr}");
}
