//! What a guest is told of time and of its waits, live and from a record.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun::executor::{Call, Failure, Program};
use skillrun::outcome::OutcomeCode;
use tokio::time::Instant;

use super::timed_host::{BEGUN_MICROS, TimedHost, Waited};
use super::{call, engine, limits, probe};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn timed(verb: &Value, host: &Arc<TimedHost>, bounds: &[(&str, i64)]) -> Call {
    Call {
        host: Arc::<TimedHost>::clone(host),
        ..call(&verb.to_string(), limits(bounds))
    }
}

/// The probe, and a clock that stands until everybody waits.
async fn paused_probe() -> Arc<Program> {
    let program = probe(&engine(1, limits(&[]))).await;
    tokio::time::pause();
    program
}

async fn steps(
    program: &Program,
    host: &Arc<TimedHost>,
    steps: Value,
    bounds: &[(&str, i64)],
) -> Result<Value, Failure> {
    let verb = json!({ "verb": "time", "do": steps });
    let output = program.call(timed(&verb, host, bounds)).await?;
    Ok(serde_json::from_str(&output).unwrap())
}

/// What came of the steps on this record, what was put on it beside, and how long it took.
async fn told(program: &Program, record: &[Waited], does: Value) -> (Value, Vec<Waited>, Duration) {
    let host = Arc::new(TimedHost::new(record.to_vec()));
    let begun = Instant::now();
    let output = steps(program, &host, does, &[]).await.unwrap();
    (output, host.polls(), begun.elapsed())
}

#[tokio::test]
async fn both_clocks_tell_run_time() {
    let program = paused_probe().await;
    let does = json!([
        { "step": "look" }, { "step": "timer", "ms": 2_500 }, { "step": "block", "place": 0 },
        { "step": "look" }, { "step": "resolutions" },
    ]);
    let (output, ..) = told(&program, &[], does).await;
    assert_eq!(output[0], json!([BEGUN_MICROS, 0]));
    // A timer of tokio's is late by a millisecond at most.
    let elapsed = output[3][1].as_i64().unwrap();
    assert!((2_500_000..=2_501_000).contains(&elapsed), "{output}");
    assert_eq!(output[3][0], json!(BEGUN_MICROS + elapsed));
    assert_eq!(output[4], json!([1_000, 1_000]));
}

#[tokio::test]
async fn a_guest_that_waits_by_looking_at_the_clock_comes_to_an_end() {
    // Nothing but looks takes time.
    let program = paused_probe().await;
    let host = Arc::new(TimedHost::with_slow_looks(ms(1)));
    let does = json!([{ "step": "busy_wait", "ms": 1_500 }]);
    let output = steps(&program, &host, does, &[]).await.unwrap();
    let waited = output[0].as_u64().unwrap();
    assert!((2_000..2_010).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_wait_tells_from_the_record_what_it_told_live_and_takes_no_time() {
    let program = paused_probe().await;
    for (does, ready) in [
        (
            json!([{ "step": "timer", "ms": 9_000 }, { "step": "timer", "ms": 20 },
            { "step": "poll" }, { "step": "look" }]),
            json!([1]),
        ),
        (
            json!([{ "step": "timer", "ms": 9_000 }, { "step": "timer_at", "ms": 8_000 },
            { "step": "timer_at", "ms": 8_000 }, { "step": "poll" }, { "step": "look" }]),
            json!([1, 2]),
        ),
        (
            json!([{ "step": "timer", "ms": 9_000 }, { "step": "stdin" },
            { "step": "poll" }, { "step": "look" }]),
            json!([1]),
        ),
        (
            json!([{ "step": "timer", "ms": 9_000 }, { "step": "ready", "place": 0 },
            { "step": "look" }]),
            json!(false),
        ),
        (
            json!([{ "step": "stdin" }, { "step": "ready", "place": 0 }, { "step": "look" }]),
            json!(true),
        ),
        (
            json!([{ "step": "timer", "ms": 9_000 }, { "step": "block", "place": 0 },
            { "step": "look" }]),
            json!(null),
        ),
    ] {
        let (live, record, _) = told(&program, &[], does.clone()).await;
        let told_live = live.as_array().unwrap();
        assert_eq!(told_live[told_live.len() - 2], ready, "{does}");
        assert_eq!(record.len(), 1, "{does}");
        let (replayed, beside, took) = told(&program, &record, does.clone()).await;
        assert_eq!(
            (replayed, beside.len(), took),
            (live, 0, Duration::ZERO),
            "{does}"
        );
    }
}

/// Whether a timer is over is what the record says, and not what its time says.
#[tokio::test]
async fn no_timer_is_waited_for_while_the_record_lasts_and_what_is_left_of_it_afterwards() {
    let program = paused_probe().await;
    let does = json!([
        { "step": "timer", "ms": 10_000 }, { "step": "timer", "ms": 20_000 },
        { "step": "block", "place": 0 }, { "step": "look" }, { "step": "block", "place": 1 },
    ]);
    let record = [(vec![0], ms(15_000))];
    let (output, beside, took) = told(&program, &record, does).await;
    assert_eq!(output[3][1], json!(15_000_000));
    assert!((ms(5_000)..=ms(5_001)).contains(&took), "{took:?}");
    assert!(
        (ms(20_000)..=ms(20_001)).contains(&beside[0].1),
        "{beside:?}"
    );
}

#[tokio::test]
async fn a_record_of_a_wait_that_cannot_have_been_ends_the_run() {
    let program = paused_probe().await;
    for (step, ready) in [
        ("poll", vec![2]),
        ("poll", vec![]),
        ("poll", vec![0, 1, 0]),
        ("block", vec![]),
        ("block", vec![1]),
        ("ready", vec![1]),
        ("ready", vec![0, 0]),
    ] {
        let last = match step {
            "poll" => json!({ "step": step }),
            _ => json!({ "step": step, "place": 0 }),
        };
        let does = json!([{ "step": "stdin" }, { "step": "timer", "ms": 1 }, last]);
        let message = format!("that {ready:?} were ready");
        let host = Arc::new(TimedHost::new([(ready, Duration::ZERO)]));
        let ended = steps(&program, &host, does, &[]).await.unwrap_err();
        assert_eq!(ended.code, OutcomeCode::Trap);
        assert!(ended.message.contains(&message), "{ended}");
    }
    let mut host = TimedHost::new([]);
    host.differs = true;
    let does = json!([{ "step": "stdin" }, { "step": "poll" }]);
    let ended = steps(&program, &Arc::new(host), does, &[]).await;
    assert_eq!(ended.unwrap_err().code, OutcomeCode::Internal);
    // A wait for nothing is a mistake of the guest's and no wait.
    let host = Arc::new(TimedHost::new([]));
    let ended = steps(&program, &host, json!([{ "step": "poll" }]), &[]).await;
    assert_eq!(ended.unwrap_err().code, OutcomeCode::Trap);
    assert_eq!(host.polls(), []);
}

/// The record of a wait counts as what the guest writes itself, also where it is only read.
#[tokio::test]
async fn waits_are_bounded_as_events_are() {
    let program = paused_probe().await;
    let does = json!([{ "step": "stdin" }, { "step": "stdin" }, { "step": "polls", "times": 4 }]);
    for (bounds, limit) in [
        (("guest_events", 3), "guest_events limit of 3 reached"),
        (
            ("guest_event_bytes", 63),
            "guest_event_bytes limit of 63 reached",
        ),
    ] {
        for record in [0, 4] {
            let host = Arc::new(TimedHost::new(vec![(vec![0, 1], ms(1)); record]));
            let ended = steps(&program, &host, does.clone(), &[bounds]).await;
            let ended = ended.unwrap_err();
            assert_eq!(ended.code, OutcomeCode::HostCallLimit);
            assert!(ended.message.contains(limit), "{ended}");
        }
        let host = Arc::new(TimedHost::new([]));
        let enough = [(bounds.0, bounds.1 + 1)];
        let output = steps(&program, &host, does.clone(), &enough).await.unwrap();
        assert_eq!(output[2], json!(8));
        assert_eq!(host.polls().len(), 4);
    }
}

/// Things to wait for take two of the guest's resources each, timers as all others.
#[tokio::test]
async fn timers_count_among_resources() {
    let program = paused_probe().await;
    let timers = |count: usize| Value::from(vec![json!({ "step": "timer", "ms": 1 }); count]);
    let host = Arc::new(TimedHost::new([]));
    let bounds = [("resources", 40)];
    assert!(steps(&program, &host, timers(15), &bounds).await.is_ok());
    let ended = steps(&program, &host, timers(25), &bounds).await;
    let ended = ended.unwrap_err();
    assert!(ended.message.contains("resources limit of 40"), "{ended}");
}

/// A guest that asks again and again leaves the thread to others, which no tick of ours does for it.
#[tokio::test]
async fn a_timer_of_no_time_leaves_the_thread_to_others() {
    let program = paused_probe().await;
    let host = Arc::new(TimedHost::new([]));
    let beside = tokio::spawn(async {
        let mut turns = 0_u32;
        loop {
            turns += 1;
            if turns == 100 {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let does = json!([{ "step": "timers", "times": 200 }]);
    steps(&program, &host, does, &[]).await.unwrap();
    assert!(beside.is_finished());
}

#[tokio::test]
async fn steps_are_left_when_the_call_ends_and_not_when_it_is_given_up() {
    let program = paused_probe().await;
    let within = |verb: Value| json!({ "verb": "in_node", "name": "a", "then": verb });
    let failed = [("a".to_owned(), false)];
    for (verb, bounds) in [
        (json!({ "verb": "noop" }), vec![]),
        (json!({ "verb": "trap" }), vec![]),
        (json!({ "verb": "spin" }), vec![("fuel", 1_000_000)]),
        (json!({ "verb": "exit", "code": 1 }), vec![]),
    ] {
        let host = Arc::new(TimedHost::new([]));
        let _ended = program
            .call(timed(&within(verb.clone()), &host, &bounds))
            .await;
        assert_eq!(host.exits(), failed, "{verb}");
    }
    let host = Arc::new(TimedHost::new([]));
    let verb = within(json!({ "verb": "sleep", "ms": 20_000 }));
    let mut going = Box::pin(program.call(timed(&verb, &host, &[])));
    while !host.is_in_step() {
        tokio::select! {
            biased;
            ended = &mut going => panic!("it cannot end: {ended:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(going);
    assert_eq!(host.exits(), []);
    // Wall time is the machine's, and the step has to be entered before it is over.
    tokio::time::resume();
    let time_is_up = [("wall_time_ms", 2_000)];
    let ended = program.call(timed(&verb, &host, &time_is_up)).await;
    assert_eq!(ended.unwrap_err().code, OutcomeCode::TimeLimit);
    assert_eq!(host.exits(), failed);
}
