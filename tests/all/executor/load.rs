//! What can be loaded, and what is said of the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use skillrun::config::Loading;
use skillrun::executor::LoadError;
use skillrun_test_artifacts::PROBE;

use super::{engine, engine_with, limits, load, skill_of};

/// Parses the text form of a component.
fn component(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap()
}

#[tokio::test]
async fn what_is_no_component_is_told_apart() {
    let engine = engine(2, limits(&[]));
    let refused = |bytes: &'static [u8]| load(&engine, bytes);
    assert!(matches!(refused(b"").await, Err(LoadError::NotWasm { .. })));
    let text = refused(b"# SKILL\nA text file").await.err().unwrap();
    assert!(text.to_string().contains("SKILL"), "{text}");
    assert_eq!(
        refused(b"\0asm\x01\0\0\0").await.err(),
        Some(LoadError::CoreModule)
    );
    assert!(matches!(
        refused(b"\0asm\x0d\0\x01\0garbage").await,
        Err(LoadError::Invalid { .. })
    ));
}

#[tokio::test]
async fn a_component_of_another_kind_is_named_with_what_it_exports() {
    let engine = engine(2, limits(&[]));
    let none = load(&engine, &component("(component)"))
        .await
        .err()
        .unwrap();
    assert!(
        none.to_string().ends_with("found the exports none"),
        "{none}"
    );
    let import = component(r#"(component (import "acme:db/store@1.2.3" (instance)))"#);
    let missing = load(&engine, &import).await.err().unwrap();
    assert!(
        missing.to_string().contains("acme:db/store@1.2.3"),
        "{missing}"
    );
    for unlinked in ["wasi:http/incoming-handler@0.2.0", "wasi:http/types@0.3.0"] {
        let import = component(&format!(r#"(component (import "{unlinked}" (instance)))"#));
        let missing = load(&engine, &import).await.err().unwrap();
        assert!(missing.to_string().contains(unlinked), "{missing}");
    }
    let newer = component(r#"(component (import "skillrun:skill/tools@0.9.0" (instance)))"#);
    let newer = load(&engine, &newer).await.err().unwrap();
    assert!(
        newer
            .to_string()
            .contains("skillrun:skill/tools@0.9.0: this host has version 0.1.0"),
        "{newer}"
    );
}

/// A component that uses `async` goes to the engine that has it; what is wrong with it then is only that
/// it is no skill.
#[tokio::test]
async fn a_component_with_async_is_compiled_too() {
    let engine = engine(2, limits(&[]));
    let uses_async = component("(component (core func (canon waitable-set.new)))");
    let refused = load(&engine, &uses_async).await.err();
    assert_eq!(
        refused,
        Some(LoadError::NothingToCall {
            found: "none".to_owned()
        })
    );
}

/// Case C10, second half: by how much it does not fit, and which key changes it.
#[tokio::test]
async fn a_component_that_does_not_fit_the_pool_is_told_by_how_much() {
    let engine = engine(
        2,
        limits(&[("memory_bytes", 16 * 1024 * 1024), ("table_elements", 100)]),
    );
    let memory =
        component("(component (core module $m (memory 1000)) (core instance (instantiate $m)))");
    let refused = load(&engine, &memory).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "component needs memory_bytes = 65536000: this host has room for 16777216"
    );
    assert!(refused.hint().unwrap().contains("limits.memory_bytes"));
    let table = component(
        "(component (core module $m (table 101 funcref)) (core instance (instantiate $m)))",
    );
    let refused = load(&engine, &table).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "component needs table_elements = 101: this host has room for 100"
    );
    assert!(refused.hint().unwrap().contains("limits.table_elements"));
}

/// A function of loops within each other, and of 1,990 locals that live through all of them.
fn nested_loops(loops: usize) -> String {
    let sets: String = (1..=1_990)
        .map(|local| format!("local.get {local} local.get 0 i32.add local.set {local} "))
        .collect();
    format!(
        "(func (param i32) (local{}) {} {sets} {})",
        " i32".repeat(1_990),
        "loop ".repeat(loops),
        "local.get 0 br_if 0 end ".repeat(loops),
    )
}

/// What would keep the compiler busy for ever is refused before it begins.
#[tokio::test]
async fn a_component_that_is_too_much_for_the_compiler_is_refused() {
    let engine = engine(2, limits(&[]));
    let nested = (0..33).fold(String::new(), |inner, _| format!("(component {inner})"));
    let functions = "(func)".repeat(250_001);
    let long = "i32.const 0 drop ".repeat(700_000);
    for (inside, said) in [
        (
            nested,
            "levels of modules and components: expected at most 32",
        ),
        (
            "(component)".repeat(257),
            "257 modules and components in it",
        ),
        (format!("(core module {functions})"), "250001 functions"),
        (
            format!("(core module (func {long}))"),
            "bytes in one function, which is function 0 of module 0: expected at most 1048576",
        ),
        (
            format!("(core module (func {}))", "block end ".repeat(50_001)),
            "50001 blocks in one function",
        ),
        (
            format!(
                "(core module {})",
                format!("(func {})", "block end ".repeat(40_000)).repeat(6)
            ),
            "blocks in long functions: expected at most 200000",
        ),
        ("(type string)".repeat(200_001), "200001 types"),
    ] {
        let refused = load(&engine, &component(&format!("(component {inside})")))
            .await
            .err()
            .unwrap();
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

/// A few KiB can be gigabytes to the compiler.
#[tokio::test]
async fn a_function_that_is_too_much_for_the_compiler_is_named() {
    let engine = engine(2, limits(&[]));
    for (inside, said) in [
        (
            format!(
                "(core module (func (import \"a\" \"b\")) (func) {})",
                nested_loops(100)
            ),
            "component has 398000 values handed over by branches in one function, which is function 2 of module 0: expected at most 300000",
        ),
        (
            format!("(core module (func (local{})))", " i32".repeat(5_001)),
            "component has 5001 locals in one function, which is function 0 of module 0: expected at most 5000",
        ),
        (
            format!("(core module {})", nested_loops(50).repeat(6)),
            "values handed over by branches in functions of more than",
        ),
        (
            format!("(core module {})", nested_loops(5).repeat(302)),
            "values handed over by branches in all functions: expected at most 6000000",
        ),
        (
            format!(
                "(core module (type (func (param{0}) (result{0}))) (func unreachable loop (type 0) {1} end unreachable))",
                " i32".repeat(1_000),
                "br_if 0 ".repeat(150),
            ),
            "component has 302000 values handed over by branches in one function",
        ),
        (
            format!(
                "(core module (tag) (func (local{0}) block (try_table (catch_all 0) {1}) end))",
                " i32".repeat(1_000),
                (0..1_000).fold(String::new(), |sets, local| format!(
                    "{sets} call 0 local.get 0 local.set {local}"
                )),
            ),
            "component has 1003000 values handed over by branches in one function",
        ),
        (
            format!(
                "(core module (func (param i32) (local{}) {}))",
                " i32".repeat(1_999),
                "block local.get 0 br_if 0 end ".repeat(501),
            ),
            "component has 2004000 blocks and branches times locals in one function, which is function 0 of module 0: expected at most 2000000",
        ),
    ] {
        let refused = load(&engine, &component(&format!("(component {inside})")))
            .await
            .err()
            .unwrap();
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

#[tokio::test]
async fn a_component_of_too_many_bytes_is_refused_with_the_key() {
    let engine = engine_with(Loading {
        component_bytes_max: 100,
        ..Loading::default()
    });
    let refused = load(&engine, &skill_of("", "", "", ""))
        .await
        .err()
        .unwrap();
    assert!(
        refused
            .to_string()
            .contains("expected at most 100 (engine.component_bytes_max)"),
        "{refused}"
    );
    assert!(
        refused
            .hint()
            .unwrap()
            .contains("engine.component_bytes_max")
    );
}

/// Everyone who waits for a compilation is answered in time; it goes on, and whoever asks later has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compilation_that_takes_too_long_keeps_nobody_waiting() {
    let engine = engine_with(Loading {
        compile_time_ms: 1,
        ..Loading::default()
    });
    let reads = Arc::new(AtomicUsize::new(0));
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let ask = || {
        let (reads, wait) = (Arc::clone(&reads), Arc::clone(&wait));
        engine.load("the same", move || {
            reads.fetch_add(1, Ordering::SeqCst);
            // It takes as long as the test wants.
            let _gone = wait.lock().unwrap().recv();
            Ok(skill_of("", "", "", ""))
        })
    };
    let late = LoadError::CompileTime { limit_ms: 1 };
    for answer in [
        tokio::join!(ask(), ask()).into(),
        [ask().await, ask().await],
    ] {
        let answer: [Result<_, LoadError>; 2] = answer;
        for refused in answer {
            let refused = refused.err().unwrap();
            assert_eq!(refused, late);
            assert!(refused.hint().unwrap().contains("engine.compile_time_ms"));
        }
    }
    go.send(()).unwrap();
    while ask().await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1, "compiled once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_ask_at_once_share_one_compilation() {
    let engine = engine(2, limits(&[]));
    let bytes = Arc::new(std::fs::read(PROBE.wasm).unwrap());
    let reads = Arc::new(AtomicUsize::new(0));
    let asks: Vec<_> = (0..16)
        .map(|_| {
            let (engine, bytes, reads) = (engine.clone(), Arc::clone(&bytes), Arc::clone(&reads));
            tokio::spawn(async move {
                let read = move || {
                    reads.fetch_add(1, Ordering::SeqCst);
                    Ok(bytes.to_vec())
                };
                engine.load("the same", read).await.unwrap()
            })
        })
        .collect();
    for ask in asks {
        ask.await.unwrap();
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let engine = engine(2, limits(&[]));
    let unreadable = || {
        Err(LoadError::Unreadable {
            reason: "gone".to_owned(),
        })
    };
    assert!(engine.load("one", unreadable).await.is_err());
    let bytes = std::fs::read(PROBE.wasm).unwrap();
    assert!(engine.load("one", move || Ok(bytes)).await.is_ok());
}

/// Whoever asks first may go away; the compilation goes on for those who come after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compilation_outlives_the_caller_that_began_it() {
    let engine = engine(2, limits(&[]));
    let reads = Arc::new(AtomicUsize::new(0));
    let read = |reads: &Arc<AtomicUsize>| {
        let reads = Arc::clone(reads);
        move || {
            reads.fetch_add(1, Ordering::SeqCst);
            Ok(std::fs::read(PROBE.wasm).unwrap())
        }
    };
    let mut first = Box::pin(engine.load("the same", read(&reads)));
    std::future::poll_fn(|cx| {
        assert!(
            first.as_mut().poll(cx).is_pending(),
            "compiled on another thread"
        );
        Poll::Ready(())
    })
    .await;
    drop(first);
    while reads.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(engine.load("the same", read(&reads)).await.is_ok());
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}
