//! Calls of one loaded component, one after another and at once.

use std::sync::Arc;

use skillrun::outcome::OutcomeCode;
use skillrun::runner::runtime_builder;
use tokio::task::JoinHandle;

use super::{call, engine, limits, load, probe, skill_of};

const NOOP: &str = r#"{"verb":"noop"}"#;
const SPIN: &str = r#"{"verb":"spin"}"#;

/// Case C1: more guests that compute than there are worker threads. A short call comes through while all
/// of them are still at it.
#[test]
fn guests_that_spin_do_not_keep_others_from_running() {
    let runtime = runtime_builder().worker_threads(2).build().unwrap();
    runtime.block_on(spin_beside_a_short_call());
}

async fn spin_beside_a_short_call() {
    let engine = engine(16, limits(&[]));
    let program = probe(&engine).await;
    let spin = |wall_time_ms| {
        let program = Arc::clone(&program);
        let limits = limits(&[("wall_time_ms", wall_time_ms)]);
        tokio::spawn(async move { program.call(call(SPIN, limits)).await })
    };
    let spins = [(); 6].map(|()| spin(3_600_000));
    let quick = Arc::clone(&program);
    tokio::spawn(async move { quick.call(call(NOOP, limits(&[]))).await })
        .await
        .unwrap()
        .unwrap();
    assert!(spins.iter().all(|spin| !spin.is_finished()));
    spins.iter().for_each(JoinHandle::abort);
    for spin in spins {
        assert!(spin.await.unwrap_err().is_cancelled());
    }
    for spin in [(); 6].map(|()| spin(200)) {
        assert_eq!(
            spin.await.unwrap().unwrap_err().code,
            OutcomeCode::TimeLimit
        );
    }
}

/// Case C3: a skill that was killed once is killed again, and its place is free each time.
#[tokio::test]
async fn a_killed_guest_gives_its_place_back() {
    let engine = engine(1, limits(&[]));
    let program = probe(&engine).await;
    for _ in 0..3 {
        let killed = program.call(call(SPIN, limits(&[("fuel", 10_000)]))).await;
        assert_eq!(killed.unwrap_err().code, OutcomeCode::FuelLimit);
        let trapped = program.call(call(r#"{"verb":"trap"}"#, limits(&[]))).await;
        assert_eq!(trapped.unwrap_err().code, OutcomeCode::Trap);
    }
    assert_eq!(
        program.call(call(NOOP, limits(&[]))).await.as_deref(),
        Ok("null")
    );
}

#[tokio::test]
async fn dropping_a_call_stops_the_guest_and_gives_its_place_back() {
    let engine = engine(1, limits(&[]));
    let program = probe(&engine).await;
    for verb in [SPIN, r#"{"verb":"sleep","ms":3600000}"#] {
        let mut spinning = Box::pin(program.call(call(verb, limits(&[]))));
        tokio::select! {
            biased;
            ended = &mut spinning => panic!("it cannot end: {ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(spinning);
        assert_eq!(
            program.call(call(NOOP, limits(&[]))).await.as_deref(),
            Ok("null")
        );
    }
}

#[tokio::test]
async fn a_full_pool_refuses_and_says_which_key_sizes_it() {
    let engine = engine(1, limits(&[]));
    let program = probe(&engine).await;
    let mut first = Box::pin(program.call(call(r#"{"verb":"sleep","ms":3600000}"#, limits(&[]))));
    tokio::select! {
        biased;
        ended = &mut first => panic!("it cannot end: {ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    let refused = program.call(call(NOOP, limits(&[]))).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::Busy);
    assert!(refused.hint.unwrap().contains("runs.at_once_max"));
}

#[tokio::test]
async fn nothing_survives_from_one_call_to_the_next_and_randomness_follows_the_seed() {
    let engine = engine(1, limits(&[]));
    let program = probe(&engine).await;
    let random = async |seed: u8| {
        let mut call = call(r#"{"verb":"ambient"}"#, limits(&[]));
        call.seed = [seed; 32];
        let output = program.call(call).await.unwrap();
        let output: serde_json::Value = serde_json::from_str(&output).unwrap();
        output["random"].as_str().unwrap().to_owned()
    };
    let first = random(1).await;
    assert_eq!(first, random(1).await);
    assert_ne!(first, random(2).await);
}

/// Bounds that nobody can configure have a code and a message of their own, too.
#[tokio::test]
async fn a_guest_that_hoards_is_told_apart_from_one_that_traps() {
    let engine = engine(1, limits(&[]));
    let random = call(r#"{"verb":"random","bytes":100000000}"#, limits(&[]));
    let refused = probe(&engine).await.call(random).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::HostCallLimit);
    assert!(
        refused.message.contains("expected at most 1048576"),
        "{refused}"
    );

    let handles = skill_of(
        r#"(type $r (resource (rep i32))) (core func $new (canon resource.new $r))
           (core instance $host (export "new" (func $new)))"#,
        r#"(with "host" (instance $host))"#,
        r#"(import "host" "new" (func $new (param i32) (result i32)))"#,
        "(loop (drop (call $new (i32.const 1))) (br 0))",
    );
    let handles = load(&engine, &handles).await.unwrap();
    let refused = handles.call(call("{}", limits(&[]))).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::HostCallLimit);
    assert!(refused.message.contains("100000 handles"), "{refused}");
}

/// Objects of a guest whose language has a garbage collector lie outside of its memories, and count.
#[tokio::test]
async fn a_heap_of_objects_is_bounded_by_the_memory_limit() {
    let engine = engine(1, limits(&[]));
    let objects = skill_of(
        "",
        "",
        r#"(type $list (sub (struct (field (ref null $list)) (field i64 i64 i64 i64))))
           (global $head (mut (ref null $list)) (ref.null $list))"#,
        "(loop (global.set $head (struct.new $list (global.get $head)
            (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4))) (br 0))",
    );
    let objects = load(&engine, &objects).await.unwrap();
    let bounded = limits(&[("memory_bytes", 16 * 1024 * 1024)]);
    let refused = objects.call(call("{}", bounded)).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::MemoryLimit);
    assert!(
        refused.message.contains("memory_bytes limit of 16777216"),
        "{refused}"
    );
}

/// Case C7: three memories, each of which alone would be within the limit, are capped by their sum.
#[tokio::test]
async fn c7_the_memories_of_a_component_count_together() {
    let engine = engine(1, limits(&[]));
    let three = skill_of(
        "",
        "",
        "(memory $a 1) (memory $b 1)",
        "(drop (memory.grow $a (i32.const 100))) (drop (memory.grow $b (i32.const 100)))
         (drop (memory.grow 2 (i32.const 100)))",
    );
    let three = load(&engine, &three).await.unwrap();
    let bounded = limits(&[("memory_bytes", 16 * 1024 * 1024)]);
    let refused = three.call(call("{}", bounded)).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::MemoryLimit, "{refused}");
}

/// The name of the thread that makes a thousand calls, and of all that are begun from it without one of their own.
const CALLING: &str = "c3-calls";

/// The threads of this process with that name. Those of tests beside this one come and go.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names
        // One that has ended by now has no name any more.
        .filter(|name| name.as_ref().is_ok_and(|name| name.trim_end() == CALLING))
        .count()
}

/// Case C3: a thousand calls, ended and killed, leave no thread behind.
#[test]
fn c3_a_thousand_calls_leave_no_thread_behind() {
    let calling = std::thread::Builder::new().name(CALLING.to_owned());
    calling.spawn(a_thousand_calls).unwrap().join().unwrap();
}

fn a_thousand_calls() {
    const GROWN_MAX: usize = 10;
    let mut runtime = runtime_builder();
    let runtime = runtime.worker_threads(2).thread_name(CALLING);
    runtime.build().unwrap().block_on(async {
        let engine = engine(4, limits(&[]));
        let program = probe(&engine).await;
        let run = async |verb: &str, bounds: &[(&str, i64)]| {
            program.call(call(verb, limits(bounds))).await.map(drop)
        };
        run(NOOP, &[]).await.unwrap();
        let before = threads();
        assert!(before > 2, "{before}");
        for _ in 0..500 {
            run(NOOP, &[]).await.unwrap();
            run(SPIN, &[("fuel", 10_000)]).await.unwrap_err();
        }
        let grown = threads().saturating_sub(before);
        assert!(grown < GROWN_MAX, "{grown} more threads than {before}");
    });
}

#[tokio::test]
async fn a_component_says_what_it_is() {
    let engine = engine(1, limits(&[]));
    let descriptor = probe(&engine)
        .await
        .describe(Arc::new(limits(&[])))
        .await
        .unwrap();
    assert_eq!(
        (descriptor.name.as_str(), descriptor.version.as_str()),
        ("probe", "0.1.0")
    );
    assert_eq!(descriptor.input_schema, "");
}
