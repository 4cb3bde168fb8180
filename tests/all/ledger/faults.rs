//! A short form of `cargo xtask faults`: the same writer, killed, and the same checker.

use std::process::Child;

use super::*;

#[path = "../../../examples/ledger_faults/check.rs"]
mod check;
#[path = "../../../examples/ledger_faults/work.rs"]
mod work;

use self::check::{Fault, Promise, check};
use self::work::Worker;

/// Where the writer writes, when this process is it.
const WRITER_DIR: &str = "SKILLRUN_TEST_FAULTS_DIR";
const ROUNDS: usize = 12;

/// Not a test of its own: what the process does that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer() {
    let Ok(dir) = std::env::var(WRITER_DIR) else {
        return;
    };
    let worker = Worker::new(Path::new(&dir)).unwrap();
    let tell = |promise: &Promise| {
        let line = format!("{promise}\n");
        std::io::stderr().write_all(line.as_bytes())
    };
    let writers = (0..4).map(|writer| {
        let worker = worker.clone();
        tokio::spawn(async move {
            for number in writer.. {
                worker.write_run(number, &tell).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

fn spawn_writer(dir: &Path) -> (Child, BufReader<ChildStderr>) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::writer")])
        .env(WRITER_DIR, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let promises = BufReader::new(child.stderr.take().unwrap());
    (child, promises)
}

/// Writes until so many promises were made, and kills the writer.
fn killed_after(dir: &Path, count: usize) -> Vec<Promise> {
    let (mut child, mut told) = spawn_writer(dir);
    let mut lines = String::new();
    for _ in 0..count {
        told.read_line(&mut lines).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while told.read_line(&mut lines).unwrap() > 0 {}
    let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn every_promise_is_kept_when_the_process_is_killed() {
    for round in 0..ROUNDS {
        let (dir, _) = relaxed();
        let promises = killed_after(dir.path(), 1 + round * 17);
        let outcome = check(dir.path(), &promises, Fault::Killed).await;
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert!(outcome.promises > promises.len());
    }
}

#[tokio::test]
async fn the_checker_finds_what_it_looks_for() {
    let (template, _) = relaxed();
    let promises = killed_after(template.path(), 60);
    let ended = promises.iter().find(|promise| promise.head.seq == 7);
    let run_id = ended.unwrap().run_id.clone();
    let broken = |what: &'static str, fault: Fault, change: &dyn Fn(&Path)| {
        let (dir, _) = relaxed();
        for entry in fs::read_dir(template.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        change(&dir.path().join(format!("{run_id}.jsonl")));
        let promises = promises.clone();
        async move {
            let outcome = check(dir.path(), &promises, fault).await;
            let found = outcome.violations.iter().any(|told| told.starts_with(what));
            assert!(found, "{what}: {:?}", outcome.violations);
        }
    };
    let edit = |path: &Path, change: &dyn Fn(&mut Vec<String>)| {
        let text = fs::read_to_string(path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(path, lines.join("\n") + "\n").unwrap();
    };
    broken("I6", Fault::Killed, &|path| fs::remove_file(path).unwrap()).await;
    broken("I1", Fault::Killed, &|path| {
        edit(path, &|lines| drop(lines.pop()))
    })
    .await;
    broken("I1", Fault::Cut, &|path| {
        edit(path, &|lines| drop(lines.pop()))
    })
    .await;
    broken("I3", Fault::Killed, &|path| {
        edit(path, &|lines| drop(lines.remove(3)))
    })
    .await;
    broken("I3", Fault::Killed, &|path| {
        edit(path, &|lines| lines[2] = lines[2].replace("line", "lime"));
    })
    .await;
    broken("I3", Fault::Killed, &|path| {
        edit(path, &|lines| lines.push(lines[6].clone()));
    })
    .await;
    broken("I2", Fault::Killed, &|path| {
        fs::write(path.with_extension("torn-1"), "never reported").unwrap();
    })
    .await;
}
