//! The table under many threads at once, in every order that can be found.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use shuttle::sync::Mutex;
use shuttle::thread;
use tokio::sync::oneshot;

use super::{
    Answer, CHILDREN_MAX, DEPTH_MAX, DESCENDANTS_MAX, Plan, Progress, QUEUED_MAX, Seen,
    SharedLaunch, Slot, Table,
};
use crate::call::{TurnStop, Usage};
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{Json, SessionFacts};
use crate::outcome::OutcomeCode;
use crate::runner::{PromptRefused, SessionSignal, ToolSurface, TurnEnd};
use crate::runtime::backend::{BackendError, End, Instance};
use crate::runtime::error::RuntimeError;
use crate::runtime::state::ExecutionStatus;
use crate::runtime::types::Metadata;

/// Orders that are tried of what happens at the same time.
const SCHEDULES: usize = 1_000;
/// Threads that do the same at the same time.
const THREADS: u64 = 10;

/// An instance that keeps what it is told.
#[derive(Default)]
struct Told {
    prompts: Mutex<Vec<(u64, String)>>,
    cancelled: Mutex<Vec<u64>>,
}

impl Told {
    fn prompts(&self) -> Vec<(u64, String)> {
        self.prompts.lock().unwrap().clone()
    }
}

#[async_trait]
impl Instance for Told {
    fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused> {
        self.prompts.lock().unwrap().push((generation, text));
        Ok(())
    }

    fn cancel_turn(&self, generation: u64) {
        self.cancelled.lock().unwrap().push(generation);
    }

    async fn set_surface(&self, _surface: ToolSurface) -> Result<(), BackendError> {
        Ok(())
    }

    fn finish(&self, _reason: &str) {}

    fn stop(&self) {}
}

fn now() -> Timestamp {
    Timestamp::from_unix_micros(0)
}

fn later(seconds: i64) -> Timestamp {
    Timestamp::from_unix_micros(seconds * 1_000_000)
}

fn table() -> Table {
    Table::new(4, Duration::from_secs(60))
}

fn launch() -> SharedLaunch {
    futures_util::future::pending().boxed().shared()
}

fn id_of(run_id: &RunId) -> ExecutionId {
    ExecutionId::new(run_id, 1).unwrap()
}

fn plan(id: &ExecutionId, number: u64, session: &str, parent: Option<&ExecutionId>) -> Plan {
    Plan {
        number,
        facts: Arc::new(SessionFacts {
            execution_id: id.clone(),
            session_id: session.to_owned(),
            task_id: None,
            agent_profile_id: "agent".to_owned(),
            executor_id: "fake".to_owned(),
            workspace_path: None,
            repository_id: None,
            is_ephemeral: false,
            mcp_mode: "task".to_owned(),
            parent_execution_id: parent.cloned(),
            metadata: Json::default(),
        }),
        metadata: Metadata::new(),
        prompt: None,
    }
}

/// An execution that was registered.
struct Live {
    slot: Slot,
    told: Arc<Told>,
}

fn begin(table: &Table, session: &str, parent: Option<&ExecutionId>) -> Live {
    let id = id_of(&RunId::generate());
    let slot = Slot {
        id: id.clone(),
        number: 1,
    };
    let _launch = table
        .join(plan(&id, 1, session, parent), now(), launch)
        .unwrap();
    let told = Arc::new(Told::default());
    let instance: Arc<dyn Instance> = Arc::clone(&told) as Arc<dyn Instance>;
    table.register(&slot, &instance, now()).unwrap();
    Live { slot, told }
}

fn booted(table: &Table, session: &str) -> Live {
    let live = begin(table, session, None);
    let booted = SessionSignal::Booted {
        generation: 0,
        seq: 2,
    };
    table.apply(&live.slot, booted);
    live
}

fn turn_ended(generation: u64, seq: u64) -> SessionSignal {
    SessionSignal::TurnEnded {
        turn: TurnEnd {
            generation,
            stop_reason: TurnStop::EndTurn,
            error: None,
            undone: false,
            usage: Usage::default(),
        },
        seq,
    }
}

/// One turn of the newest prompt that was sent, from its beginning to the next one's.
fn take_turn(table: &Table, live: &Live, generation: u64, seq: u64) {
    table.apply(&live.slot, SessionSignal::TurnBegun { generation, seq });
    table.apply(&live.slot, turn_ended(generation, seq + 1));
    let seq = seq + 2;
    table.apply(&live.slot, SessionSignal::Ready { generation, seq });
}

fn status(table: &Table, id: &ExecutionId) -> Option<ExecutionStatus> {
    match table.look(id, now()) {
        Seen::Known(execution) => Some(execution.status),
        Seen::Unknown | Seen::Hidden => None,
    }
}

fn generation(answer: &mut oneshot::Receiver<Answer>) -> Option<u64> {
    answer
        .try_recv()
        .ok()
        .map(|answer| answer.unwrap().generation)
}

/// What does not depend on order, tried once.
fn once(test: fn()) {
    shuttle::check_random(test, 1);
}

#[test]
fn prompts_are_sent_one_by_one_in_their_order_and_no_more_wait_than_may() {
    once(|| {
        let table = table();
        let live = booted(&table, "s");
        let mut answers: Vec<_> = (0..=QUEUED_MAX)
            .map(|n| table.enqueue(&live.slot.id, n.to_string()).unwrap().1)
            .collect();
        let full = table.enqueue(&live.slot.id, "more".to_owned());
        assert!(matches!(full, Err(RuntimeError::Busy { .. })));
        for (n, answer) in (1..).zip(&mut answers) {
            let sent = live.told.prompts();
            assert_eq!(sent.last(), Some(&(n, (n - 1).to_string())));
            assert_eq!(sent.len() as u64, n);
            assert!(answer.try_recv().is_err());
            take_turn(&table, &live, n, n * 10);
            assert_eq!(generation(answer), Some(n));
        }
    });
}

/// The ledger of one that is taken up may be made up.
#[test]
fn after_the_last_number_of_a_prompt_there_is_the_same_again() {
    once(|| {
        let table = table();
        let live = begin(&table, "s", None);
        let booted = SessionSignal::Booted {
            generation: u64::MAX,
            seq: 2,
        };
        table.apply(&live.slot, booted);
        table.enqueue(&live.slot.id, "a".to_owned()).unwrap();
        assert_eq!(live.told.prompts(), [(u64::MAX, "a".to_owned())]);
    });
}

#[test]
fn what_comes_late_for_an_earlier_turn_changes_nothing() {
    once(|| {
        let table = table();
        let live = booted(&table, "s");
        let id = &live.slot.id;
        let (_, mut a) = table.enqueue(id, "a".to_owned()).unwrap();
        take_turn(&table, &live, 1, 10);
        assert_eq!(generation(&mut a), Some(1));
        let (_, mut b) = table.enqueue(id, "b".to_owned()).unwrap();
        let begun = SessionSignal::TurnBegun {
            generation: 2,
            seq: 20,
        };
        table.apply(&live.slot, begun);
        for late in [
            turn_ended(1, 11),
            SessionSignal::Ready {
                generation: 1,
                seq: 12,
            },
            SessionSignal::TurnBegun {
                generation: 1,
                seq: 10,
            },
        ] {
            table.apply(&live.slot, late);
            assert_eq!(status(&table, id), Some(ExecutionStatus::Running));
            assert!(b.try_recv().is_err());
        }
        table.apply(&live.slot, turn_ended(2, 21));
        assert_eq!(generation(&mut b), Some(2));
    });
}

#[test]
fn an_end_is_final_and_its_first_text_stays() {
    once(|| {
        let table = table();
        let live = booted(&table, "s");
        let id = &live.slot.id;
        let (_, mut answer) = table.enqueue(id, "a".to_owned()).unwrap();
        table.end(&live.slot, End::failed(OutcomeCode::Trap, "first"), now());
        table.end(
            &live.slot,
            End::stopped(OutcomeCode::Cancelled, "second"),
            now(),
        );
        table.apply(&live.slot, turn_ended(1, 3));
        let failed = answer.try_recv().unwrap().unwrap_err();
        assert!(matches!(failed, RuntimeError::Failed { message, .. } if message == "first"));
        let Seen::Known(execution) = table.look(id, now()) else {
            panic!("it is not known")
        };
        assert_eq!(execution.status, ExecutionStatus::Failed);
        assert_eq!(execution.error_message.as_deref(), Some("first"));
        assert!(table.begin_stop(id, "", None).is_err());
        assert!(table.enqueue(id, "b".to_owned()).is_err());
        assert!(table.progress(id).unwrap().borrow().is_over);
        // It is let go when its time is over.
        assert!(matches!(table.look(id, later(59)), Seen::Known(_)));
        assert!(matches!(table.look(id, later(60)), Seen::Unknown));
    });
}

#[test]
fn a_prompt_that_is_taken_back_is_not_sent_or_names_its_turn() {
    once(|| {
        let table = table();
        let live = booted(&table, "s");
        let id = &live.slot.id;
        let (sent, _sent) = table.enqueue(id, "sent".to_owned()).unwrap();
        let (waits, _waits) = table.enqueue(id, "waits".to_owned()).unwrap();
        assert!(table.withdraw(id, waits).is_none());
        assert_eq!(table.withdraw(id, sent).map(|(_, turn)| turn), Some(1));
        take_turn(&table, &live, 1, 10);
        assert!(table.withdraw(id, sent).is_none());
        assert_eq!(live.told.prompts().len(), 1);
        // One that was never begun makes way for the next.
        let (_, _next) = table.enqueue(id, "next".to_owned()).unwrap();
        table.apply(&live.slot, turn_ended(2, 0));
        let (_, _after) = table.enqueue(id, "after".to_owned()).unwrap();
        assert_eq!(live.told.prompts().last(), Some(&(3, "after".to_owned())));
    });
}

#[test]
fn parallel_launches_of_a_session_are_one() {
    shuttle::check_random(
        || {
            let table = Arc::new(table());
            let threads: Vec<_> = (1..=THREADS)
                .map(|number| {
                    let table = Arc::clone(&table);
                    thread::spawn(move || {
                        let id = id_of(&RunId::generate());
                        let mut begun = false;
                        let joined = table.join(plan(&id, number, "s", None), now(), || {
                            begun = true;
                            launch()
                        });
                        let slot = Slot { id, number };
                        if begun {
                            let instance: Arc<dyn Instance> = Arc::new(Told::default());
                            table.register(&slot, &instance, now()).unwrap();
                        }
                        match joined {
                            Ok(_) => begun,
                            Err(RuntimeError::AlreadyRunning { .. }) => false,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            let begun = threads.into_iter().filter(|_| true);
            let begun = begun.map(|thread| thread.join().unwrap());
            assert_eq!(begun.filter(|begun| *begun).count(), 1);
            assert_eq!(*table.live_count().borrow(), 1);
        },
        SCHEDULES,
    );
}

#[test]
fn a_launch_that_is_given_up_takes_nothing_from_the_next() {
    shuttle::check_random(
        || {
            let table = Arc::new(table());
            let id = id_of(&RunId::generate());
            let first = table.join(plan(&id, 1, "s", None), now(), launch).unwrap();
            // Everybody has left it.
            drop(first);
            let first = Slot {
                id: id.clone(),
                number: 1,
            };
            let gives_up = {
                let table = Arc::clone(&table);
                thread::spawn(move || table.abandon(&first))
            };
            let second = Slot {
                id: id.clone(),
                number: 2,
            };
            let _launch = table.join(plan(&id, 2, "s", None), now(), launch).unwrap();
            let instance: Arc<dyn Instance> = Arc::new(Told::default());
            table.register(&second, &instance, now()).unwrap();
            gives_up.join().unwrap();
            assert_eq!(status(&table, &id), Some(ExecutionStatus::Starting));
            assert_eq!(*table.live_count().borrow(), 1);
        },
        SCHEDULES,
    );
}

#[test]
fn parallel_stops_have_one_owner_and_no_prompt_is_forgotten() {
    shuttle::check_random(
        || {
            let table = Arc::new(table());
            let live = booted(&table, "s");
            let slot = live.slot.clone();
            let stops: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (table, slot) = (Arc::clone(&table), slot.clone());
                    thread::spawn(move || table.begin_stop(&slot.id, "enough", None).is_ok())
                })
                .collect();
            let prompts: Vec<_> = (0..THREADS)
                .map(|n| {
                    let (table, slot) = (Arc::clone(&table), slot.clone());
                    thread::spawn(move || {
                        let sent = table.enqueue(&slot.id, n.to_string());
                        if let Ok((ticket, _)) = &sent
                            && n % 2 == 0
                        {
                            table.withdraw(&slot.id, *ticket);
                        }
                        sent.ok().map(|(_, answer)| (n, answer))
                    })
                })
                .collect();
            let owners = stops.into_iter().map(|stop| stop.join().unwrap());
            assert_eq!(owners.filter(|owner| *owner).count(), 1);
            table.end(&slot, End::stopped(OutcomeCode::Cancelled, "enough"), now());
            for (n, mut answer) in prompts.into_iter().filter_map(|sent| sent.join().unwrap()) {
                match answer.try_recv() {
                    Ok(Err(RuntimeError::Stopped { reason, .. })) => assert_eq!(reason, "enough"),
                    // It was taken back.
                    Err(_) if n % 2 == 0 => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(status(&table, &slot.id), Some(ExecutionStatus::Stopped));
            assert_eq!(*table.live_count().borrow(), 0);
        },
        SCHEDULES,
    );
}

#[test]
fn no_child_escapes_a_stop_of_its_parent() {
    shuttle::check_random(
        || {
            let table = Arc::new(table());
            let parent = begin(&table, "parent", None);
            let below = begin(&table, "below", Some(&parent.slot.id));
            let registers = {
                let (table, parent) = (Arc::clone(&table), parent.slot.id.clone());
                thread::spawn(move || {
                    let id = id_of(&RunId::generate());
                    let slot = Slot {
                        id: id.clone(),
                        number: 9,
                    };
                    let joined = table.join(plan(&id, 9, "child", Some(&parent)), now(), launch);
                    let instance: Arc<dyn Instance> = Arc::new(Told::default());
                    let registered = joined.and_then(|_| table.register(&slot, &instance, now()));
                    registered.is_ok().then_some(id)
                })
            };
            let claims = table.begin_stop(&parent.slot.id, "enough", None).unwrap();
            let claimed: Vec<_> = claims.into_iter().map(|claim| claim.id).collect();
            assert_eq!(claimed.first(), Some(&parent.slot.id));
            assert!(claimed.contains(&below.slot.id));
            if let Some(child) = registers.join().unwrap() {
                assert!(claimed.contains(&child));
            }
        },
        SCHEDULES,
    );
}

#[test]
fn only_the_direct_parent_stops_a_child() {
    once(|| {
        let table = table();
        let top = begin(&table, "top", None);
        let middle = begin(&table, "middle", Some(&top.slot.id));
        let bottom = begin(&table, "bottom", Some(&middle.slot.id));
        let stop = |id: &Slot, by: &Slot| table.begin_stop(&id.id, "", Some(&by.id));
        assert!(stop(&bottom.slot, &top.slot).is_err());
        assert!(stop(&top.slot, &top.slot).is_err());
        let claims = stop(&middle.slot, &top.slot).unwrap();
        let claimed: Vec<_> = claims.into_iter().map(|claim| claim.id).collect();
        assert_eq!(claimed, [middle.slot.id, bottom.slot.id]);
        // The one who has it stops it, and nobody else.
        assert!(table.begin_stop_children(&top.slot.id, "").is_empty());
    });
}

#[test]
fn a_launch_that_registers_after_its_parents_children_were_stopped_comes_to_nothing() {
    once(|| {
        let table = table();
        let parent = begin(&table, "parent", None);
        let id = id_of(&RunId::generate());
        let joined = table.join(plan(&id, 2, "child", Some(&parent.slot.id)), now(), launch);
        let _launch = joined.unwrap();
        assert!(
            table
                .begin_stop_children(&parent.slot.id, "enough")
                .is_empty()
        );
        let slot = Slot { id, number: 2 };
        let instance: Arc<dyn Instance> = Arc::new(Told::default());
        let refused = table.register(&slot, &instance, now()).unwrap_err();
        assert!(matches!(refused, RuntimeError::Stopped { reason, .. } if reason == "enough"));
        assert!(matches!(table.look(&slot.id, now()), Seen::Hidden));
        table.abandon(&slot);
        // Its parent goes on, and may launch another one.
        begin(&table, "child", Some(&parent.slot.id));
    });
}

#[test]
fn no_more_are_live_than_may_be_and_none_begin_at_the_end() {
    once(|| {
        let table = table();
        let live: Vec<_> = ["a", "b", "c", "d"]
            .map(|session| begin(&table, session, None))
            .into();
        let id = id_of(&RunId::generate());
        let join = || table.join(plan(&id, 1, "e", None), now(), launch).map(drop);
        assert!(matches!(
            join(),
            Err(RuntimeError::Full { executions_max: 4 })
        ));
        table.end(&live[0].slot, End::completed(), now());
        assert!(join().is_ok());
        table.close();
        assert!(matches!(join(), Err(RuntimeError::ShuttingDown)));
    });
}

#[test]
fn signals_that_come_before_the_registration_count() {
    once(|| {
        let table = table();
        let id = id_of(&RunId::generate());
        let slot = Slot {
            id: id.clone(),
            number: 1,
        };
        let mut first = plan(&id, 1, "s", None);
        first.prompt = Some("first".to_owned());
        let _launch = table.join(first, now(), launch).unwrap();
        let booted = SessionSignal::Booted {
            generation: 4,
            seq: 9,
        };
        table.apply(&slot, booted);
        assert!(matches!(table.look(&id, now()), Seen::Hidden));
        assert!(table.progress(&id).is_none());
        let told = Arc::new(Told::default());
        let instance: Arc<dyn Instance> = Arc::clone(&told) as Arc<dyn Instance>;
        table.register(&slot, &instance, now()).unwrap();
        assert_eq!(told.prompts(), [(5, "first".to_owned())]);
        assert_eq!(status(&table, &id), Some(ExecutionStatus::Ready));
        let progress = *table.progress(&id).unwrap().borrow();
        let expected = Progress {
            seq: 9,
            ..Progress::default()
        };
        assert_eq!(progress, expected);
    });
}

#[test]
fn an_execution_has_so_many_children_and_none_below_a_depth() {
    once(|| {
        let table = Table::new(64, Duration::from_secs(60));
        let refused = |parent: &ExecutionId| {
            let id = id_of(&RunId::generate());
            let joined = table.join(plan(&id, 1, "one more", Some(parent)), now(), launch);
            joined.map(drop).unwrap_err()
        };
        let root = begin(&table, "root", None);
        let mut deepest = root.slot.id.clone();
        for depth in 0..DEPTH_MAX {
            deepest = begin(&table, &format!("depth {depth}"), Some(&deepest))
                .slot
                .id;
        }
        assert!(matches!(refused(&deepest), RuntimeError::TooDeep { .. }));
        let child = |n: usize| begin(&table, &format!("child {n}"), Some(&root.slot.id));
        let mut children: Vec<Live> = (1..CHILDREN_MAX).map(child).collect();
        let full = refused(&root.slot.id);
        assert!(
            matches!(&full, RuntimeError::FamilyFull { live_max, .. } if *live_max == CHILDREN_MAX),
            "{full}"
        );
        // Those that have ended take no place.
        table.end(&children.remove(0).slot, End::completed(), now());
        begin(&table, "instead", Some(&root.slot.id));
    });
}

#[test]
fn so_many_are_live_below_one_root_and_other_families_have_their_own() {
    once(|| {
        let table = Table::new(64, Duration::from_secs(60));
        let root = begin(&table, "root", None);
        let middle = [0, 1].map(|n| begin(&table, &format!("middle {n}"), Some(&root.slot.id)));
        for n in middle.len()..DESCENDANTS_MAX {
            let above = &middle[n % 2].slot.id;
            begin(&table, &format!("below {n}"), Some(above));
        }
        let id = id_of(&RunId::generate());
        let more = plan(&id, 1, "more", Some(&root.slot.id));
        let full = table.join(more, now(), launch).map(drop).unwrap_err();
        assert!(
            matches!(&full, RuntimeError::FamilyFull { live_max, .. } if *live_max == DESCENDANTS_MAX),
            "{full}"
        );
        let other = begin(&table, "other", None);
        begin(&table, "child of the other", Some(&other.slot.id));
    });
}
