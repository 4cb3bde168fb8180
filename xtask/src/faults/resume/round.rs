//! One run: started, killed, resumed, killed again, until it ends; and what must hold all the while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::place::{Effects, Moment, Place};
use super::record::{AMBIGUOUS, Called, Growth, Record, member};
use super::scenario::{Answers, Scenario};
use super::wait::Looks;

/// The id of every run that is started here; each is the only one of its home.
const RUN_ID: &str = "run_0190a0a0a0a070008000000000000001";
/// Processes that a run may take. Protects the command from a run that is never done.
const PROCESSES_MAX: usize = 12;
const SIGKILL: i32 = 9;

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kill {
    /// After so many lines have come into the ledgers since it was started.
    Lines(usize),
    /// After so many looks at it, counted from its start.
    Early(u64),
    /// After so many looks at it, counted from its first line.
    Looks(u64),
    /// In a call of a tool, by the tool server.
    InCall(Moment, usize),
}

/// What is done to a run.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// For one process each; those after them are let be.
    pub(super) kills: VecDeque<Kill>,
    /// A question that is open when a process is killed is answered before the next one is started.
    pub(super) is_answered_between: bool,
}

/// What a run came to that nobody killed.
pub(super) struct Expected {
    pub(super) output: String,
    pub(super) shape: BTreeMap<String, usize>,
    pub(super) effects: Effects,
    /// Lines of all its ledgers.
    pub(super) lines: usize,
    /// How often it was looked at from its first line on.
    pub(super) looks: u64,
}

/// What happened to a run.
#[derive(Default)]
pub(super) struct Done {
    pub(super) kills: usize,
    /// Lines in the ledgers when it was killed for the first time.
    pub(super) killed_at: Option<usize>,
    pub(super) resumed: usize,
    pub(super) ambiguous: usize,
    /// It was killed before its first line was whole.
    pub(super) never_started: usize,
    /// It ended in a way that leaves nothing to compare.
    pub(super) is_lost: bool,
    pub(super) violations: Vec<String>,
    /// What was on record after each process.
    pub(super) promises: String,
    pub(super) looks: u64,
    record: Record,
    effects: Effects,
    output: Value,
}

struct Round<'a> {
    place: &'a Place,
    scenario: &'a Scenario,
    plan: Plan,
    /// The last process said that it cannot know whether a call had its effect.
    is_ambiguous: bool,
    /// Somebody has answered the question.
    is_answered: bool,
    /// That somebody.
    answering: Option<Child>,
    done: Done,
}

/// Runs a scenario that nobody disturbs.
pub(super) fn undisturbed(place: &Place, scenario: &Scenario) -> Result<Expected> {
    let done = killed(place, scenario, Plan::default())?;
    if let Some(violation) = done.violations.first() {
        bail!("{} does not run by itself: {violation}", scenario.name);
    }
    Ok(Expected {
        output: done.record.nameless(&done.output.to_string()),
        shape: done.record.shape(),
        lines: done.record.lines(),
        effects: done.effects,
        looks: done.looks,
    })
}

/// Runs a scenario, kills it as planned, and resumes it until it ends.
pub(super) fn killed(place: &Place, scenario: &Scenario, plan: Plan) -> Result<Done> {
    place.empty()?;
    let mut round = Round {
        place,
        scenario,
        plan,
        is_ambiguous: false,
        is_answered: false,
        answering: None,
        done: Done::default(),
    };
    let start = [
        "--json",
        "run",
        scenario.skill,
        "--run-id",
        RUN_ID,
        "--input",
        scenario.input,
    ];
    let mut is_over = round.process(&start)?;
    for _ in 0..PROCESSES_MAX {
        if is_over {
            return Ok(round.done);
        }
        if round.plan.is_answered_between && round.done.record.is_asking(RUN_ID) {
            round.answer()?;
            round.answered()?;
        }
        let mut resume = vec!["--json", "runs", "resume", RUN_ID];
        if round.is_ambiguous {
            resume.push("--retry-ambiguous");
        }
        round.done.resumed += 1;
        is_over = round.process(&resume)?;
    }
    round.done.is_lost = true;
    round.violated(format!("it has not ended after {PROCESSES_MAX} processes"));
    Ok(round.done)
}

impl Done {
    /// Holds what the run came to against what it comes to when nobody kills it.
    pub(super) fn compare(&mut self, expected: &Expected) {
        let mut differences = Vec::new();
        let output = self.record.nameless(&self.output.to_string());
        if output != expected.output {
            differences.push(format!(
                "the output is {output} instead of {}",
                expected.output
            ));
        }
        let shape = self.record.shape();
        let all = shape.keys().chain(expected.shape.keys());
        for event in all.collect::<BTreeSet<_>>() {
            let count = |shape: &BTreeMap<String, usize>| shape.get(event).copied().unwrap_or(0);
            let (is, should) = (count(&shape), count(&expected.shape));
            if is != should {
                differences.push(format!("on record {is} times instead of {should}: {event}"));
            }
        }
        for key in self.effects.keys().chain(expected.effects.keys()) {
            let is_there = (
                self.effects.contains_key(key),
                expected.effects.contains_key(key),
            );
            if is_there != (true, true) {
                differences.push(format!("is there and should be {is_there:?}: effect {key}"));
            }
        }
        self.violations.append(&mut differences);
    }
}

impl Round<'_> {
    fn violated(&mut self, what: impl Into<String>) {
        self.done.violations.push(what.into());
    }

    /// Starts a process, kills it if that is planned, and looks at what it left. Whether the run is over.
    fn process(&mut self, arguments: &[&str]) -> Result<bool> {
        let kill = self.plan.kills.pop_front();
        let moment = match kill {
            Some(Kill::InCall(moment, number)) => Some((moment, number)),
            _ => None,
        };
        self.place.configure(self.scenario.answers, moment)?;
        let mut process = self
            .place
            .start(arguments, matches!(kill, Some(Kill::Lines(_))))?;
        let watched = self.watch(&mut process, kill);
        if watched.is_err() {
            // What could not be watched must not go on by itself; it may have ended.
            let _killed = process.kill();
        }
        let status = process.wait().context("cannot wait for skillrun")?;
        watched?;
        self.answered()?;
        let effects = self.place.effects()?;
        let record = Record::read(&self.place.runs())?;
        let is_killed = status.signal() == Some(SIGKILL);
        if is_killed {
            self.done.kills += 1;
            self.done.killed_at.get_or_insert(record.lines());
        }
        self.effects_hold(&record, &effects);
        self.done.promises.push_str(&record.promises);
        self.done.record = record;
        self.done.effects = effects;
        self.look_at_the_end(is_killed, status)
    }

    /// Looks at a process until it ends.
    fn watch(&mut self, process: &mut Child, kill: Option<Kill>) -> Result<()> {
        let mut growth = Growth::of(&self.place.runs());
        let before = self.done.record.lines();
        let mut looks = Looks::new("the end of a run");
        let mut lines = before;
        let mut first_line = None;
        while process
            .try_wait()
            .context("cannot watch skillrun")?
            .is_none()
        {
            let grown = growth.lines()?;
            if grown > before {
                first_line.get_or_insert(looks.count());
            }
            let since_first = looks.count() - first_line.unwrap_or(looks.count());
            let is_due = match kill {
                Some(Kill::Lines(more)) => grown >= before + more,
                Some(Kill::Early(count)) => looks.count() >= count,
                Some(Kill::Looks(count)) => since_first >= count,
                Some(Kill::InCall(..)) | None => false,
            };
            if is_due {
                return process.kill().context("cannot kill skillrun");
            }
            if grown > lines && self.is_to_answer() {
                lines = grown;
                let record = Record::read(&self.place.runs())?;
                let last = record.last(RUN_ID).map(|last| member(last, "type"));
                let is_late = last.is_some_and(|kind| kind == "run_completed");
                let is_time = is_late || self.scenario.answers == Answers::Person;
                if is_time && record.is_asking(RUN_ID) {
                    self.answer()?;
                }
            }
            looks.again()?;
        }
        self.done.looks = looks.count() - first_line.unwrap_or_default();
        Ok(())
    }

    /// Whether somebody has to answer a question that the run may ask.
    fn is_to_answer(&self) -> bool {
        self.scenario.answers != Answers::Rule && !self.is_answered
    }

    /// Has another process answer the question, once.
    fn answer(&mut self) -> Result<()> {
        if !self.is_answered {
            self.is_answered = true;
            let approve = ["runs", "approve", RUN_ID, "--decision", "approve"];
            let mut command = self.place.skillrun(&approve);
            command.stdout(Stdio::null());
            self.answering = Some(command.spawn().context("cannot start skillrun")?);
        }
        Ok(())
    }

    /// Waits until that process is done.
    fn answered(&mut self) -> Result<()> {
        if let Some(mut answering) = self.answering.take() {
            let status = answering.wait().context("cannot wait for skillrun")?;
            if !status.success() {
                self.violated(format!("the question cannot be answered: {status}"));
            }
        }
        Ok(())
    }

    /// What must hold of effects after each process, beside the record before and after it.
    fn effects_hold(&mut self, record: &Record, effects: &Effects) {
        let earlier: BTreeMap<String, (bool, String)> = self
            .done
            .record
            .calls()
            .into_iter()
            .map(|call| (call.key, (call.is_over, call.effect)))
            .collect();
        let recorded: Vec<String> = record.calls().into_iter().map(|call| call.key).collect();
        for (key, count) in effects {
            let more = count - self.done.effects.get(key).copied().unwrap_or(0);
            let allowed = match earlier.get(key) {
                // I8.
                Some((true, _)) => 0,
                Some((false, effect)) if effect == "write" && !self.is_ambiguous => 0,
                _ => 1,
            };
            if more > allowed {
                self.violated(format!(
                    "I8: {key} happened {more} times in one process, {allowed} allowed"
                ));
            }
            if !recorded.contains(key) {
                self.violated(format!("{key} happened, and is not on record"));
            }
        }
    }

    /// Whether the run is over, by its newest event.
    fn look_at_the_end(&mut self, is_killed: bool, status: ExitStatus) -> Result<bool> {
        self.is_ambiguous = false;
        let Some(last) = self.done.record.last(RUN_ID).cloned() else {
            self.done.is_lost = true;
            if is_killed && self.done.effects.is_empty() {
                self.done.never_started += 1;
            } else {
                self.violated(format!("there is no ledger: {}", self.place.said()));
            }
            return Ok(true);
        };
        let end = member(&last, "payload");
        match (
            member(&last, "type").as_str(),
            member(end, "status").as_str(),
        ) {
            (Some("run_completed"), Some("ok")) => {
                self.ended(end, is_killed)?;
                return Ok(true);
            }
            (Some("run_completed"), Some("interrupted")) if member(end, "code") == AMBIGUOUS => {
                self.done.ambiguous += 1;
                self.is_ambiguous = true;
                let open = |call: &Called| !call.is_over && call.effect == "write";
                if !self.done.record.calls().iter().any(open) {
                    self.violated("ambiguous_call, and no call is without a result");
                }
            }
            (Some("run_completed"), Some("interrupted")) => {}
            _ if is_killed => {}
            _ => {
                let said = self.place.said();
                self.violated(format!(
                    "it ended with {status} and said {said}; the newest event is {last}"
                ));
                self.done.is_lost = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ended(&mut self, end: &Value, is_killed: bool) -> Result<()> {
        self.done.output = member(end, "output").clone();
        if !is_killed {
            let printed = self.place.printed().unwrap_or_default();
            if member(&printed, "output") != &self.done.output {
                self.violated(format!("{printed} was printed"));
            }
        }
        // What the guest had from its clock and from chance is what it was told again each time.
        if let Some(began) = self.done.output.get_mut("began").map(Value::take) {
            let customs = self.done.record.of(RUN_ID, "custom");
            let told: Vec<Value> = customs
                .map(|custom| member(custom, "data").clone())
                .collect();
            if told != [began] {
                self.violated(format!(
                    "the guest was told another time or chance: {told:?}"
                ));
            }
        }
        let ids: Vec<String> = self.done.record.run_ids().cloned().collect();
        for run_id in ids {
            let mut verify = self.place.skillrun(&["runs", "verify", &run_id]);
            let verified = verify.output().context("cannot start skillrun")?;
            if !verified.status.success() {
                let said = String::from_utf8_lossy(&verified.stdout).into_owned();
                self.violated(format!("runs verify {run_id}: {said}"));
            }
        }
        Ok(())
    }
}
