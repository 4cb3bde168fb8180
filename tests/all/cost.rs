//! A gate without noise: what a run costs is counted, not timed.
//!
//! The example `embed` makes a few runs and then many more; what the additional runs cost is what a run
//! costs in steady state. Its ledger is not durable, so the ledger's own calls are: open, lock, two
//! writes, close.

use std::collections::BTreeMap;
use std::process::Command;

use skillrun_test_artifacts::PROBE;
use tempfile::TempDir;

use crate::embedding::example;
use crate::harness::Home;

const FEW: u32 = 200;
const MANY: u32 = 1_200;

/// The ledger's own system calls, a run. The lock is given up by a call of its own: closing the file leaves it
/// to a process that is being started and was born with the descriptor, and nobody could take the run up. Std
/// checks each descriptor that it closes in a debug build.
const LEDGER: [(&str, u32); 5] = [
    ("openat", 1),
    ("flock", 2),
    ("write", 2),
    ("close", 1),
    ("fcntl", cfg!(debug_assertions) as u32),
];
/// System calls a run may make beside them.
const BESIDE_MAX: f64 = 2.0;
/// Page faults a run may cause; the table of open files and the like grow now and then.
const PAGE_FAULTS_MAX: f64 = 0.1;

/// Counts the system calls of `runs` runs, on the thread that runs them.
fn system_calls(runs: u32) -> BTreeMap<String, u32> {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("strace");
    let status = Command::new("strace")
        .args(["-c", "-U", "name,calls", "-o"])
        .arg(&log)
        .arg(example("embed").get_program())
        .args([PROBE.wasm, r#"{"verb":"noop"}"#])
        .arg(folder.path())
        .arg(runs.to_string())
        .output()
        .expect("strace is not there: run cargo xtask setup");
    assert!(status.status.success(), "{status:?}");
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .filter_map(|line| {
            let (name, calls) = line.trim().split_once(' ')?;
            Some((name.to_owned(), calls.trim().parse().ok()?))
        })
        .filter(|(name, _): &(String, u32)| name != "total")
        .collect()
}

/// Threads that one process has more than another that does the same.
const THREADS_BY_CHANCE_MAX: u32 = 2;

/// What so many more runs did, by the name of the system call.
struct Calls {
    few: BTreeMap<String, u32>,
    many: BTreeMap<String, u32>,
    /// Calls a run beside the ledger's own.
    beside: BTreeMap<String, f64>,
}

impl Calls {
    fn counted() -> Self {
        let (few, many) = (system_calls(FEW), system_calls(MANY));
        let mut beside = BTreeMap::new();
        for (name, calls) in &many {
            let more = calls.saturating_sub(few.get(name).copied().unwrap_or(0));
            let of_the_ledger = LEDGER
                .iter()
                .find(|(known, _)| known == name)
                .map_or(0, |(_, calls)| *calls);
            let rest = f64::from(more) / f64::from(MANY - FEW) - f64::from(of_the_ledger);
            if rest > 0.001 {
                beside.insert(name.clone(), rest);
            }
        }
        Self { few, many, beside }
    }

    fn sum(&self) -> f64 {
        self.beside.values().sum()
    }
}

#[test]
fn a_run_makes_at_most_two_system_calls_beside_its_ledgers_own() {
    // On a machine that does much else the runs take longer, and what goes by the clock comes more often; the least
    // of three is nearest to what runs add.
    let counted = (0..3).map(|_| Calls::counted());
    let counted = counted.min_by(|one, other| one.sum().total_cmp(&other.sum()));
    let Calls { few, many, beside } = counted.unwrap();
    let sum: f64 = beside.values().sum();
    assert!(
        sum <= BESIDE_MAX,
        "{sum} system calls a run beside the ledger's: {beside:?}"
    );
    // The pools of a process may have a thread more at one time than at another; what grew with runs would be hundreds.
    let threads = |calls: &BTreeMap<String, u32>| calls.get("clone3").copied().unwrap_or(0);
    assert!(
        threads(&many) <= threads(&few) + THREADS_BY_CHANCE_MAX,
        "threads grow with runs: {few:?} {many:?}"
    );
    assert!(
        many.get("flock").is_some_and(|&locks| locks >= MANY),
        "the ledger was not written: {many:?}"
    );
}

/// Minor page faults of `runs` runs, as the shell that waited for them was told.
fn page_faults(runs: u32) -> f64 {
    let folder = TempDir::new().unwrap();
    let output = Command::new("bash")
        .args([
            "-c",
            r#""$@" > /dev/null && read -r -a stat < /proc/$$/stat && echo "${stat[10]}""#,
            "bash",
        ])
        .arg(example("embed").get_program())
        .args([PROBE.wasm, r#"{"verb":"noop"}"#])
        .arg(folder.path())
        .arg(runs.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn a_run_causes_no_page_faults() {
    // Start-up compiles, and compiling does not touch the same pages twice; the least of six differences
    // is nearest to what runs add.
    let per_run = (0..6)
        .map(|_| (page_faults(MANY) - page_faults(FEW)) / f64::from(MANY - FEW))
        .fold(f64::INFINITY, f64::min);
    assert!(per_run <= PAGE_FAULTS_MAX, "{per_run} page faults a run");
}

/// The peak of resident memory, in KiB, of a process that ends on its own.
fn peak_memory_kib(home: &Home, verb: &str) -> u64 {
    let python = concat!(
        "import resource, subprocess, sys\n",
        "subprocess.run(sys.argv[1:], capture_output=True)\n",
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
    );
    let output = Command::new("python3")
        .args([
            "-c",
            python,
            env!("CARGO_BIN_EXE_skillrun"),
            "run",
            "probe",
            "--json",
            "--input",
        ])
        .arg(verb)
        .env("SKILLRUN_HOME", home.path())
        .output()
        .expect("python3 is not there: run cargo xtask setup");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Case C7, first half: a guest that takes all the memory it can get under a limit of 16 MiB.
#[test]
fn a_guest_that_grows_costs_the_host_little_more_than_its_limit() {
    const MORE_KIB_MAX: u64 = 64 * 1024;
    let home = Home::new(&[PROBE]);
    home.configure("[limits]\nmemory_bytes = 16_777_216");
    let idle = peak_memory_kib(&home, r#"{"verb":"noop"}"#);
    let grown = peak_memory_kib(&home, r#"{"verb":"alloc"}"#);
    assert!(
        grown < idle + MORE_KIB_MAX,
        "{idle} KiB without, {grown} KiB with"
    );
    let [run_id] = &home.run_ids()[1..] else {
        panic!("two runs: {:?}", home.run_ids());
    };
    assert_eq!(
        home.events_of(run_id, "run_completed")[0]["payload"]["code"],
        "memory_limit"
    );
}
