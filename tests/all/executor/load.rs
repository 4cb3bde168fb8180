//! What can be loaded, and what is said of the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use skillrun::executor::LoadError;
use skillrun_test_artifacts::PROBE;

use super::{engine, limits, load};

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
    let agent = component(
        r#"(component (instance $i) (export "skillrun:skill/session-handler@0.1.0" (instance $i)))"#,
    );
    assert_eq!(load(&engine, &agent).await.err(), Some(LoadError::Agent));
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
        Some(LoadError::NotASkill {
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
