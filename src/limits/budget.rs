//! What a run has used up, and with it every run that it is inside of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::{LimitKey, LimitReached, Limits, Scope};
use crate::call::Usage;
use crate::clock::Stopwatch;

/// What one run may use and has used. A run inside another draws on both budgets, so that handing work
/// on gains nothing. It starts empty and ends with the run.
#[derive(Debug)]
pub struct Budget {
    limits: Arc<Limits>,
    used: Vec<AtomicU64>,
    /// Microseconds of processor time; the limit is in milliseconds.
    cpu_micros: AtomicU64,
    /// The part of it that runs inside this one used.
    cpu_micros_inside: AtomicU64,
    /// Runs since the guest started.
    started: OnceLock<Stopwatch>,
    pauses: Mutex<Pauses>,
    /// What is set aside, of all limits.
    reserved: AtomicU64,
    parent: Option<Arc<Self>>,
}

const MICROS_PER_MS: u64 = 1000;
const MICROUSD_PER_USD: f64 = 1e6;

/// Times that do not count as wall time, as the run's stopwatch shows them.
#[derive(Debug, Default)]
struct Pauses {
    /// Pauses that go on.
    open: u32,
    /// When the first of those began.
    since: Duration,
    /// All those that are over.
    over: Duration,
}

/// What was set aside for a use whose size is not known yet. It is given back when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    key: LimitKey,
    amount: AtomicU64,
}

impl Reservation {
    /// How much is set aside.
    pub fn amount(&self) -> u64 {
        self.amount.load(Ordering::Relaxed)
    }

    /// Gives it back, before what was really used is spent.
    pub fn release(&self) {
        let amount = self.amount.swap(0, Ordering::Relaxed);
        self.budget.give_back(self.key, amount);
        let mut run = Some(&self.budget);
        while let Some(budget) = run {
            budget.reserved.fetch_sub(amount, Ordering::Relaxed);
            run = budget.parent.as_ref();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// A time that does not count as wall time. It ends when this is dropped.
#[derive(Debug)]
pub struct Pause(Arc<Budget>);

impl Budget {
    /// The budget of a run that is inside `parent`, or inside none.
    pub fn new(limits: Arc<Limits>, parent: Option<Arc<Self>>) -> Self {
        Self {
            limits,
            used: LimitKey::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            cpu_micros: AtomicU64::new(0),
            cpu_micros_inside: AtomicU64::new(0),
            started: OnceLock::new(),
            pauses: Mutex::default(),
            reserved: AtomicU64::new(0),
            parent,
        }
    }

    /// The limits of this run.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is said when this run's own limit is reached.
    pub fn reached(&self, key: LimitKey) -> LimitReached {
        LimitReached {
            key,
            limit: self.limits.get(key),
            scope: Scope::Run,
        }
    }

    /// Uses up `amount`, or nothing when that would be more than this run or one above it may.
    ///
    /// # Errors
    /// The limit that is in the way.
    pub fn take(&self, key: LimitKey, amount: u64) -> Result<(), LimitReached> {
        let used = self.slot(key);
        let max = self.limits.value(key);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(amount).filter(|&sum| sum <= max)
        })
        .map_err(|_| self.reached(key))?;
        let Some(parent) = &self.parent else {
            return Ok(());
        };
        parent.take(key, amount).map_err(|reached| {
            used.fetch_sub(amount, Ordering::Relaxed);
            reached.above()
        })
    }

    /// Sets `amount` aside, so that uses that go on at the same time cannot have it too.
    ///
    /// # Errors
    /// The limit that is in the way.
    pub fn reserve(
        self: &Arc<Self>,
        key: LimitKey,
        amount: u64,
    ) -> Result<Reservation, LimitReached> {
        self.take(key, amount)?;
        let mut run = Some(self);
        while let Some(budget) = run {
            budget.reserved.fetch_add(amount, Ordering::Relaxed);
            run = budget.parent.as_ref();
        }
        Ok(Reservation {
            budget: Arc::clone(self),
            key,
            amount: AtomicU64::new(amount),
        })
    }

    /// Whether anything is set aside, for this run or for one above it, and may come back.
    pub fn is_reserved(&self) -> bool {
        self.reserved.load(Ordering::Relaxed) > 0
            || self
                .parent
                .as_ref()
                .is_some_and(|parent| parent.is_reserved())
    }

    /// Gives back what was taken and is no longer in use.
    pub fn give_back(&self, key: LimitKey, amount: u64) {
        self.slot(key).fetch_sub(amount, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.give_back(key, amount);
        }
    }

    /// Notes what has been used already and cannot be refused any more.
    ///
    /// # Errors
    /// The first limit, from this run upwards, that is exceeded now.
    pub fn spend(&self, key: LimitKey, amount: u64) -> Result<(), LimitReached> {
        let used = self.slot(key);
        let own = if add(used, amount) > self.limits.value(key) {
            Err(self.reached(key))
        } else {
            Ok(())
        };
        let above = match &self.parent {
            Some(parent) => parent.spend(key, amount).map_err(LimitReached::above),
            None => Ok(()),
        };
        own.and(above)
    }

    /// How much is left, of this run's own budget and of those above it.
    pub fn remaining(&self, key: LimitKey) -> u64 {
        let own = self.own_remaining(key);
        match &self.parent {
            Some(parent) => own.min(parent.remaining(key)),
            None => own,
        }
    }

    fn own_remaining(&self, key: LimitKey) -> u64 {
        self.limits.value(key).saturating_sub(self.used(key))
    }

    /// What is said when nothing is left: the limit, of this run's and of those above it, that leaves
    /// the least.
    pub fn tightest(&self, key: LimitKey) -> LimitReached {
        match &self.parent {
            Some(parent) if parent.remaining(key) < self.own_remaining(key) => {
                parent.tightest(key).above()
            }
            _ => self.reached(key),
        }
    }

    /// How much has been used of this run's own budget.
    pub fn used(&self, key: LimitKey) -> u64 {
        self.slot(key).load(Ordering::Relaxed)
    }

    /// Notes processor time. Of the time in which a run was polled, that of runs inside it is its own
    /// only once.
    ///
    /// # Errors
    /// The first limit, from this run upwards, that is used up.
    pub fn spend_cpu(&self, micros: u64) -> Result<(), LimitReached> {
        let max = self.limits.value(LimitKey::CpuTimeMs);
        let own = if add(&self.cpu_micros, micros) >= max.saturating_mul(MICROS_PER_MS) {
            Err(self.reached(LimitKey::CpuTimeMs))
        } else {
            Ok(())
        };
        let Some(parent) = &self.parent else {
            return own;
        };
        add(&parent.cpu_micros_inside, micros);
        own.and(parent.spend_cpu(micros).map_err(LimitReached::above))
    }

    /// Processor time, in microseconds, of the runs inside this one so far.
    pub fn cpu_micros_inside(&self) -> u64 {
        self.cpu_micros_inside.load(Ordering::Relaxed)
    }

    /// Counts a use of a language model.
    ///
    /// # Errors
    /// The first limit, from this run upwards, that is exceeded now.
    pub fn spend_on_models(&self, usage: &Usage) -> Result<(), LimitReached> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float becomes the nearest integer of the range, and what is no number becomes 0"
        )]
        let microusd = (usage.cost_usd * MICROUSD_PER_USD).ceil() as u64;
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let tokens = self.spend(LimitKey::LlmTokens, tokens);
        tokens.and(self.spend(LimitKey::LlmCostMicrousd, microusd))
    }

    /// Tokens that language models may still read and write for the run.
    ///
    /// # Errors
    /// There is nothing left, of them or of what they may cost.
    pub fn model_tokens_left(&self) -> Result<u64, LimitReached> {
        for key in [LimitKey::LlmTokens, LimitKey::LlmCostMicrousd] {
            if self.remaining(key) == 0 {
                return Err(self.tightest(key));
            }
        }
        Ok(self.remaining(LimitKey::LlmTokens))
    }

    /// Begins a time that counts as wall time neither of this run nor of those above it, because a
    /// person is waited for.
    pub fn pause(self: &Arc<Self>) -> Pause {
        let mut run = Some(self);
        while let Some(budget) = run {
            let elapsed = budget.elapsed();
            let mut pauses = budget.pauses();
            if pauses.open == 0 {
                pauses.since = elapsed;
            }
            pauses.open = pauses.open.saturating_add(1);
            drop(pauses);
            run = budget.parent.as_ref();
        }
        Pause(Arc::clone(self))
    }

    fn resume(&self) {
        let elapsed = self.elapsed();
        let mut pauses = self.pauses();
        pauses.open = pauses.open.saturating_sub(1);
        if pauses.open == 0 {
            let pause = elapsed.saturating_sub(pauses.since);
            pauses.over = pauses.over.saturating_add(pause);
        }
        drop(pauses);
        if let Some(parent) = &self.parent {
            parent.resume();
        }
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the guest started.
    fn elapsed(&self) -> Duration {
        self.started
            .get()
            .map_or(Duration::ZERO, Stopwatch::elapsed)
    }

    /// Whether a person is waited for.
    pub fn is_paused(&self) -> bool {
        self.pauses().open > 0
    }

    /// Lets the wall time and the processor time begin anew, for the next turn of an execution. Those of runs
    /// above it go on.
    pub fn begin_turn(&self) {
        let elapsed = self.elapsed();
        let mut pauses = self.pauses();
        pauses.over = elapsed;
        pauses.since = elapsed;
        drop(pauses);
        self.cpu_micros.store(0, Ordering::Relaxed);
    }

    /// Starts the wall time. Later calls change nothing.
    pub fn start(&self, stopwatch: Stopwatch) {
        self.started.get_or_init(|| stopwatch);
    }

    /// Wall time that is left to this run, and to those above it, and what is said when it is over.
    pub fn wall_time_left(&self) -> (Duration, LimitReached) {
        let wall = Duration::from_millis(self.limits.value(LimitKey::WallTimeMs));
        let elapsed = self.elapsed();
        let pauses = self.pauses();
        let until = if pauses.open > 0 {
            pauses.since
        } else {
            elapsed
        };
        let gone = until.saturating_sub(pauses.over);
        drop(pauses);
        let own = wall.saturating_sub(gone);
        match self.parent.as_ref().map(|parent| parent.wall_time_left()) {
            Some((above, reached)) if above < own => (above, reached.above()),
            _ => (own, self.reached(LimitKey::WallTimeMs)),
        }
    }

    fn slot(&self, key: LimitKey) -> &AtomicU64 {
        // One slot was made for every key; the fallback keeps this free of panics and is never met.
        static NONE: AtomicU64 = AtomicU64::new(u64::MAX);
        self.used.get(key as usize).unwrap_or(&NONE)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// Adds, and gives the sum. A guest chooses some of these numbers, and none of them may come round to 0.
fn add(used: &AtomicU64, amount: u64) -> u64 {
    let sum = |used: u64| Some(used.saturating_add(amount));
    let before = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    before.unwrap_or_else(|same| same).saturating_add(amount)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Budget;
    use crate::clock::{Clock, Timestamp};
    use crate::limits::{LimitKey, LimitOverrides, Limits, Scope, Source};

    fn limits(key: &str, value: i64) -> Arc<Limits> {
        let overrides = LimitOverrides::from([(key.to_owned(), value)]);
        Arc::new(Limits::default().with(Source::Config, &overrides).unwrap())
    }

    #[test]
    fn a_run_inside_another_draws_on_both() {
        let outer = Arc::new(Budget::new(limits("host_calls", 5), None));
        let inner = Budget::new(limits("host_calls", 4), Some(Arc::clone(&outer)));
        let second = Budget::new(limits("host_calls", 4), Some(Arc::clone(&outer)));
        inner.take(LimitKey::HostCalls, 4).unwrap();
        assert_eq!(second.remaining(LimitKey::HostCalls), 1);
        assert_eq!(second.tightest(LimitKey::HostCalls).scope, Scope::Above);
        assert_eq!(inner.tightest(LimitKey::HostCalls).scope, Scope::Run);
        let own = inner.take(LimitKey::HostCalls, 1).unwrap_err();
        assert_eq!((own.limit.value, own.scope), (4, Scope::Run));
        let above = second.take(LimitKey::HostCalls, 2).unwrap_err();
        assert_eq!((above.limit.value, above.scope), (5, Scope::Above));
        // What was refused above was not used below.
        assert_eq!(second.used(LimitKey::HostCalls), 0);
        second.take(LimitKey::HostCalls, 1).unwrap();
    }

    #[test]
    fn what_is_set_aside_is_there_for_nobody_else() {
        let outer = Arc::new(Budget::new(limits("llm_tokens", 10), None));
        let inner = Arc::new(Budget::new(
            limits("llm_tokens", 9),
            Some(Arc::clone(&outer)),
        ));
        let first = inner.reserve(LimitKey::LlmTokens, 6).unwrap();
        assert_eq!(outer.remaining(LimitKey::LlmTokens), 4);
        inner.reserve(LimitKey::LlmTokens, 4).unwrap_err();
        assert!(outer.is_reserved() && inner.is_reserved());
        first.release();
        assert!(!outer.is_reserved() && !inner.is_reserved());
        assert_eq!((first.amount(), inner.used(LimitKey::LlmTokens)), (0, 0));
        drop(first);
        assert_eq!(outer.used(LimitKey::LlmTokens), 0);
        drop(inner.reserve(LimitKey::LlmTokens, 9).unwrap());
        assert_eq!(outer.remaining(LimitKey::LlmTokens), 10);
    }

    #[test]
    fn what_is_spent_is_counted_also_when_it_is_too_much() {
        let outer = Arc::new(Budget::new(limits("fuel", 10), None));
        let inner = Budget::new(limits("fuel", 100), Some(Arc::clone(&outer)));
        let reached = inner.spend(LimitKey::Fuel, 11).unwrap_err();
        assert_eq!(reached.scope, Scope::Above);
        assert_eq!(outer.used(LimitKey::Fuel), 11);
    }

    #[test]
    fn no_amount_brings_a_budget_back_to_nothing() {
        let outer = Arc::new(Budget::new(limits("llm_tokens", 10), None));
        outer.spend(LimitKey::LlmTokens, 6).unwrap();
        let inner = Budget::new(limits("llm_tokens", 10), Some(Arc::clone(&outer)));
        for amount in [u64::MAX, u64::MAX - 5] {
            inner.spend(LimitKey::LlmTokens, amount).unwrap_err();
            assert_eq!(outer.used(LimitKey::LlmTokens), u64::MAX);
        }
    }

    #[test]
    fn processor_time_flows_upwards() {
        let outer = Arc::new(Budget::new(limits("cpu_time_ms", 2), None));
        let inner = Budget::new(limits("cpu_time_ms", 1), Some(Arc::clone(&outer)));
        assert_eq!(inner.spend_cpu(1_000).unwrap_err().scope, Scope::Run);
        assert_eq!(outer.cpu_micros_inside(), 1_000);
        assert!(outer.spend_cpu(999).is_ok());
        assert_eq!(outer.spend_cpu(1).unwrap_err().scope, Scope::Run);
    }

    #[test]
    fn waiting_for_a_person_is_no_wall_time_also_for_the_runs_above() {
        let clock = Clock::manual(Timestamp::from_unix_micros(0));
        let outer = Arc::new(Budget::new(limits("wall_time_ms", 10), None));
        let inner = Arc::new(Budget::new(
            limits("wall_time_ms", 20),
            Some(Arc::clone(&outer)),
        ));
        let advance = |ms| clock.advance(Duration::from_millis(ms));
        let left = |budget: &Budget| budget.wall_time_left().0.as_millis();
        outer.start(clock.stopwatch());
        inner.start(clock.stopwatch());
        advance(2);
        let first = inner.pause();
        advance(100);
        let second = inner.pause();
        drop(first);
        advance(100);
        assert!(outer.is_paused());
        assert_eq!((left(&outer), left(&inner)), (8, 8));
        drop(second);
        assert!(!outer.is_paused());
        advance(3);
        assert_eq!((left(&outer), left(&inner)), (5, 5));
        advance(5);
        let (left, reached) = inner.wall_time_left();
        assert_eq!((left, reached.scope), (Duration::ZERO, Scope::Above));
    }

    #[test]
    fn no_run_outlives_the_one_above_it() {
        let clock = Clock::manual(Timestamp::from_unix_micros(0));
        let outer = Arc::new(Budget::new(limits("wall_time_ms", 10), None));
        let inner = Budget::new(limits("wall_time_ms", 9), Some(Arc::clone(&outer)));
        outer.start(clock.stopwatch());
        clock.advance(Duration::from_millis(4));
        inner.start(clock.stopwatch());
        clock.advance(Duration::from_millis(1));
        let (left, reached) = inner.wall_time_left();
        assert_eq!(
            (left, reached.scope),
            (Duration::from_millis(5), Scope::Above)
        );
        assert_eq!(reached.limit.value, 10);
        let (left, reached) = outer.wall_time_left();
        assert_eq!(
            (left, reached.scope),
            (Duration::from_millis(5), Scope::Run)
        );
    }
}
