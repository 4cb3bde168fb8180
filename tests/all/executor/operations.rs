//! Components that follow no world, written by hand: shapes that no tool makes.

use std::fmt::Write as _;
use std::sync::Arc;

use skillrun::executor::{Call, Descriptor, Engine, LoadError};
use skillrun::outcome::OutcomeCode;

use super::{call, engine, limits, load, probe};

/// What every component below begins with: a core instance with a memory and functions that do nothing.
const CORE: &str = r#"
    (core module $m
        (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
        (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)
        (func (export "list") (param i32 i32))
        (func (export "one") (param i32))
        (func (export "none")))
    (core instance $i (instantiate $m))
    (alias core export $i "memory" (core memory $memory))
    (alias core export $i "realloc" (core func $realloc))
"#;

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {CORE} {text})")).unwrap()
}

async fn refused(engine: &Engine, text: &str) -> String {
    let refused = load(engine, &component(text)).await.err().unwrap();
    refused.to_string()
}

async fn describe(engine: &Engine, text: &str) -> Descriptor {
    let program = load(engine, &component(text)).await.unwrap();
    program.describe(Arc::new(limits(&[]))).await.unwrap()
}

fn operation(name: &str, input: &str) -> Call {
    Call {
        operation: Some(name.to_owned()),
        ..call(input, limits(&[]))
    }
}

fn names(descriptor: &Descriptor) -> Vec<&str> {
    let operations = descriptor.operations.iter();
    operations
        .map(|operation| operation.name.as_str())
        .collect()
}

#[tokio::test]
async fn a_function_is_called_with_json() {
    let engine = engine(2, limits(&[]));
    let add = r#"(func (export "add") (param "a" s32) (param "b" s32) (result s32)
        (canon lift (core func $i "add")))"#;
    let program = load(&engine, &component(add)).await.unwrap();
    let answer = program.call(operation("add", r#"{"b":2,"a":40}"#)).await;
    assert_eq!(answer.as_deref(), Ok("42"));
    let only = program.call(call(r#"{"a":1,"b":1}"#, limits(&[]))).await;
    assert_eq!(only.as_deref(), Ok("2"));
    let unknown = program.call(operation("sub", "{}")).await.unwrap_err();
    assert_eq!(unknown.code, OutcomeCode::NotFound);
    assert_eq!(
        unknown.message,
        "unknown operation \"sub\": expected one of add"
    );
}

#[tokio::test]
async fn a_skill_of_our_world_has_no_operations() {
    let engine = engine(2, limits(&[]));
    let program = probe(&engine).await;
    let refused = program.call(operation("noop", "{}")).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::NotFound);
    let described = program.describe(Arc::new(limits(&[]))).await.unwrap();
    assert!(described.operations.is_empty());
}

/// The result is all that such a command says: without an exit code of its own it is 0 or 1.
#[tokio::test]
async fn a_command_is_run_whatever_the_version_of_its_interface() {
    let engine = engine(2, limits(&[]));
    let of_02 = r#"(component
        (core module $m (func (export "run") (result i32) i32.const 1))
        (core instance $i (instantiate $m))
        (func $run (result (result)) (canon lift (core func $i "run")))
        (instance $cli (export "run" (func $run)))
        (export "wasi:cli/run@0.2.1" (instance $cli)))"#;
    let of_03 = r#"(component
        (core module $m
            (import "" "return" (func $return (param i32)))
            (func (export "run") (result i32) i32.const 0 call $return i32.const 0)
            (func (export "go-on") (param i32 i32 i32) (result i32) unreachable))
        (core func $return (canon task.return (result (result))))
        (core instance $i (instantiate $m
            (with "" (instance (export "return" (func $return))))))
        (type $type (func async (result (result))))
        (func $run (type $type)
            (canon lift (core func $i "run") async (callback (core func $i "go-on"))))
        (instance $cli (export "run" (func $run)))
        (export "wasi:cli/run@0.3.0" (instance $cli)))"#;
    let run = async |text: &str| {
        let program = load(&engine, &wat::parse_str(text).unwrap()).await.unwrap();
        program.call(call(r#"{"args":["a"]}"#, limits(&[]))).await
    };
    let failed = run(of_02).await.unwrap_err();
    assert_eq!(failed.code, OutcomeCode::SkillError);
    let details = r#"{"code":"exit_code","details":{"exit_code":1,"stdout":""}}"#;
    assert_eq!(failed.details.as_deref(), Some(details));
    let ran = run(of_03).await;
    assert_eq!(ran.as_deref(), Ok(r#"{"exit_code":0,"stdout":""}"#));
}

#[tokio::test]
async fn without_anything_to_call_the_exports_are_named_with_the_reason() {
    let engine = engine(2, limits(&[]));
    let none = refused(&engine, "").await;
    assert!(none.ends_with("found the exports none"), "{none}");
    let module = refused(
        &engine,
        r#"(core module $e) (export "code" (core module $e))"#,
    )
    .await;
    assert!(module.ends_with("found the exports code"), "{module}");
    let resource = refused(
        &engine,
        r#"(type $r' (resource (rep i32)))
        (export $r "handle" (type $r'))
        (func (export "use") (param "it" (own $r)) (canon lift (core func $i "one")))"#,
    )
    .await;
    assert!(
        resource.ends_with("use (a resource is among its parameters or results)"),
        "{resource}"
    );
    let server =
        component(r#"(instance $n) (export "wasi:http/incoming-handler@0.2.3" (instance $n))"#);
    assert_eq!(
        load(&engine, &server).await.err(),
        Some(LoadError::HttpServer)
    );
}

/// A function whose parameter is a list in a list, so many times.
fn nested_lists(levels: usize) -> String {
    let mut text = "(type $t0 (list u8))".to_owned();
    for level in 1..levels {
        let _ = write!(text, "(type $t{level} (list $t{}))", level - 1);
    }
    let _ = write!(
        text,
        r#"(func (export "deep") (param "it" $t{}) (canon lift (core func $i "list")
            (memory $memory) (realloc (core func $realloc))))"#,
        levels - 1
    );
    text
}

#[tokio::test]
async fn types_have_a_depth_and_a_size() {
    let engine = engine(2, limits(&[]));
    let deepest = describe(&engine, &nested_lists(31)).await;
    assert_eq!(names(&deepest), ["deep"]);
    let too_deep = refused(&engine, &nested_lists(32)).await;
    assert!(
        too_deep.ends_with("deep (its types nest deeper than 32 levels)"),
        "{too_deep}"
    );
    // Each level doubles what the schema would be.
    let mut doubled = "(type $t0 (tuple (list u8) (list u8)))".to_owned();
    for level in 1..14 {
        let below = level - 1;
        let _ = write!(doubled, "(type $t{level} (tuple $t{below} $t{below}))");
    }
    doubled.push_str(
        r#"(func (export "wide") (param "it" (list $t13)) (canon lift (core func $i "list")
            (memory $memory) (realloc (core func $realloc))))"#,
    );
    let too_wide = refused(&engine, &doubled).await;
    assert!(
        too_wide.ends_with("wide (its types have more than 2048 parts)"),
        "{too_wide}"
    );
}

#[tokio::test]
async fn functions_and_names_have_a_bound() {
    let engine = engine(2, limits(&[]));
    let many = |count: usize| {
        (0..count).fold(String::new(), |mut text, n| {
            let _ = write!(
                text,
                r#"(func (export "f{n}") (canon lift (core func $i "none")))"#
            );
            text
        })
    };
    let most = describe(&engine, &many(256)).await;
    assert_eq!(most.operations.len(), 256);
    let too_many = load(&engine, &component(&many(257))).await.err();
    assert_eq!(
        too_many,
        Some(LoadError::ManyFunctions { functions_max: 256 })
    );
    let long = "a".repeat(129);
    let long = refused(
        &engine,
        &format!(r#"(func (export "{long}") (canon lift (core func $i "none")))"#),
    )
    .await;
    assert!(long.contains("is longer than 128 bytes"), "{long}");
}

#[tokio::test]
async fn a_name_is_as_short_as_it_can_be() {
    let engine = engine(2, limits(&[]));
    let described = describe(
        &engine,
        r#"(func $f (canon lift (core func $i "none")))
        (instance $one (export "f" (func $f)) (export "g" (func $f)))
        (instance $two (export "f" (func $f)))
        (export "a:a/same@1.0.0" (instance $one))
        (export "b:b/same@2.0.0" (instance $two))
        (export "b:b/other" (instance $two))
        (export "f" (func $f))"#,
    )
    .await;
    assert_eq!(
        names(&described),
        ["a:a/same@1.0.0.f", "g", "b:b/same@2.0.0.f", "other.f", "f"]
    );
}

#[tokio::test]
async fn an_interface_inside_an_interface_is_not_looked_into() {
    let engine = engine(2, limits(&[]));
    let described = describe(
        &engine,
        r#"(func $f (canon lift (core func $i "none")))
        (instance $inner (export "f" (func $f)))
        (instance $outer (export "inner" (instance $inner)) (export "g" (func $f)))
        (export "outer" (instance $outer))"#,
    )
    .await;
    assert_eq!(names(&described), ["g"]);
    assert_eq!(described.refused[0].name, "outer.inner");
}

#[tokio::test]
async fn an_asynchronous_function_is_called_like_any_other_and_a_stream_is_not() {
    let engine = engine(2, limits(&[]));
    let bytes = wat::parse_str(
        r#"(component
        (core module $m
            (import "" "return" (func $return (param i32)))
            (func (export "next") (param i32) (result i32)
                local.get 0 i32.const 1 i32.add call $return i32.const 0)
            (func (export "go-on") (param i32 i32 i32) (result i32) unreachable)
            (func (export "read") (param i32)))
        (core func $return (canon task.return (result u32)))
        (core instance $i (instantiate $m
            (with "" (instance (export "return" (func $return))))))
        (type $next (func async (param "after" u32) (result u32)))
        (func (export "next") (type $next)
            (canon lift (core func $i "next") async (callback (core func $i "go-on"))))
        (func (export "read") (param "from" (stream u8)) (canon lift (core func $i "read"))))"#,
    )
    .unwrap();
    let program = load(&engine, &bytes).await.unwrap();
    let answer = program.call(operation("next", r#"{"after":41}"#)).await;
    assert_eq!(answer.as_deref(), Ok("42"));
    let described = program.describe(Arc::new(limits(&[]))).await.unwrap();
    assert_eq!(described.refused[0].name, "read");
    assert_eq!(
        described.refused[0].reason,
        "a stream or a future is among its parameters or results"
    );
}

/// A list that says it is longer than it may be is the guest's mistake and costs the host nothing.
#[tokio::test]
async fn a_result_that_reaches_too_far_ends_the_run() {
    let engine = engine(2, limits(&[]));
    let bytes = wat::parse_str(
        r#"(component
        (core module $m
            (memory (export "memory") 200)
            (func (export "f") (result i32) (i32.store (i32.const 4) (global.get $length)) i32.const 0)
            (global $length (mut i32) (i32.const 12000000)))
        (core instance $i (instantiate $m))
        (func (export "bytes") (result (list u8)) (canon lift (core func $i "f")
            (memory (core memory $i "memory")))))"#,
    );
    let program = load(&engine, &bytes.unwrap()).await.unwrap();
    let refused = program.call(operation("bytes", "{}")).await.unwrap_err();
    assert_eq!(refused.code, OutcomeCode::OutputLimit);
}

/// What the tools of the component model write of a package's comments becomes descriptions, where a
/// component brings it along.
#[tokio::test]
async fn comments_become_descriptions_where_the_component_has_them() {
    let wit = "package a:b;\ninterface ops {\n/// Does nothing.\nf: func();\n}\nworld w {\nexport ops;\n/// Adds.\nexport g: func();\n}";
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("w.wit", wit).unwrap();
    let docs = wit_parser::PackageMetadata::extract(&resolve, package);
    let mut bytes = component(
        r#"(func $f (canon lift (core func $i "none")))
        (instance $one (export "f" (func $f)))
        (export "a:b/ops" (instance $one))
        (export "g" (func $f))"#,
    );
    let mut section = b"\x0cpackage-docs".to_vec();
    section.extend(docs.encode().unwrap());
    bytes.push(0);
    let length = section.len();
    bytes.extend([
        u8::try_from(length & 0x7f).unwrap() | 0x80,
        u8::try_from(length >> 7).unwrap(),
    ]);
    bytes.extend(section);
    let engine = engine(2, limits(&[]));
    let program = load(&engine, &bytes).await.unwrap();
    let described = program.describe(Arc::new(limits(&[]))).await.unwrap();
    let said: Vec<&str> = described
        .operations
        .iter()
        .map(|o| o.description.as_str())
        .collect();
    assert_eq!(said, ["Does nothing.", "Adds."]);
}

/// WASI 0.2 promises as many random bytes as were asked for, WASI 0.3 at most as many.
#[tokio::test]
async fn random_bytes_are_bounded_as_each_version_of_wasi_allows() {
    let engine = engine(2, limits(&[]));
    let ask = async |version: &str, parameter: &str, bytes: u64| {
        let text = format!(
            r#"(component
            (import "wasi:random/random@{version}" (instance $random
                (export "get-random-bytes" (func (param "{parameter}" u64) (result (list u8))))))
            (core module $heap
                (memory (export "memory") 64)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536))
            (core instance $heap (instantiate $heap))
            (core func $get (canon lower (func $random "get-random-bytes")
                (memory (core memory $heap "memory")) (realloc (core func $heap "realloc"))))
            (core module $m
                (import "" "memory" (memory 1))
                (import "" "get" (func $get (param i64 i32)))
                (func (export "ask") (param i64) (result i32)
                    (call $get (local.get 0) (i32.const 16)) (i32.load (i32.const 20))))
            (core instance $i (instantiate $m (with "" (instance
                (export "memory" (memory $heap "memory")) (export "get" (func $get))))))
            (func (export "ask") (param "bytes" u64) (result u32)
                (canon lift (core func $i "ask"))))"#
        );
        let bytes = format!(r#"{{"bytes":{bytes}}}"#);
        let program = load(&engine, &wat::parse_str(text).unwrap()).await.unwrap();
        let asked = program.call(operation("ask", &bytes)).await;
        asked.map_err(|failure| failure.code)
    };
    let bound = 1024 * 1024;
    for (version, parameter) in [("0.2.0", "len"), ("0.3.0", "max-len")] {
        assert_eq!(ask(version, parameter, bound).await, Ok(bound.to_string()));
    }
    let ended = ask("0.2.0", "len", bound + 1).await;
    assert_eq!(ended, Err(OutcomeCode::HostCallLimit));
    assert_eq!(
        ask("0.3.0", "max-len", bound + 1).await,
        Ok(bound.to_string())
    );
}
