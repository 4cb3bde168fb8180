//! Runs that are killed, resumed, killed again and resumed, until they end.
//!
//! Each kind of run is let run to its end once, and after that is killed at every boundary of two events,
//! before and after the effect of every call, and at random moments. Whatever was done to it, it ends with the
//! same output and the same events, and no effect that has a result on record, or that nobody may repeat,
//! happens again. The effects are counted by `tests/all/resume/counting.py`.

mod place;
mod record;
mod round;
mod scenario;
mod wait;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use self::place::{Moment, Place};
use self::round::{Done, Expected, Kill, Plan, killed, undisturbed};
use self::scenario::{Answers, SCENARIOS, Scenario};
use super::driver::{Driver, Fault};
use super::kill::Chance;
use super::{Tally, scratch};
use crate::process::{complain, root, say, target_folder};
use crate::{guest_toolchains, triage_demo, wasm_target};

/// What the moments are drawn from that are left to chance.
const SEED: u64 = 3;
/// How often a boundary is tried until a process is killed exactly there, and not a line later.
const TRIES_MAX: usize = 5;
/// Kills of one run at random, at most; what it is killed in after the first one is being resumed.
const KILLS_MAX: u64 = 4;
/// Lines after which a process that resumes is killed, at most.
const LINES_MAX: u64 = 12;

/// Violations of one run that are shown, and how much of each. Protects whoever reads.
const SHOWN_MAX: usize = 5;
const SHOWN_CHARS_MAX: usize = 1000;

/// Runs that are kept at most. Protects the disk.
const KEPT_MAX: usize = 50;

/// One line of the table.
#[derive(Default)]
struct Row {
    kills: usize,
    boundaries: BTreeSet<usize>,
    resumed: usize,
    ambiguous: usize,
    never_started: usize,
    violations: usize,
}

struct Campaign<'a> {
    driver: &'a Driver,
    place: Place,
    chance: Chance,
    tally: Tally,
    /// Runs that were kept because something was wrong with them.
    kept: usize,
}

/// Kills runs at least so often, prints a table, and answers how many violations there were.
pub(super) fn kill_and_resume(driver: &Driver, kills: usize) -> Result<usize> {
    wasm_target::ensure()?;
    guest_toolchains::ensure_python()?;
    let (_model, url) = triage_demo::start_model(&root().join("examples/triage/model.py"))?;
    let home = scratch(driver)?;
    let mut campaign = Campaign {
        driver,
        place: Place::new(&home, &target_folder().join("debug/skillrun"), url)?,
        chance: Chance::new(SEED),
        tally: Tally::default(),
        kept: 0,
    };
    say(&format!("  seed {SEED}, at least {kills} kills"))?;
    let mut rows = Vec::new();
    let mut expected = Vec::new();
    for scenario in &SCENARIOS {
        expected.push(undisturbed(&campaign.place, scenario)?);
        rows.push(Row::default());
    }
    let parts = || SCENARIOS.iter().zip(&expected);
    for ((scenario, expected), row) in parts().zip(&mut rows) {
        campaign.at_each_boundary(scenario, expected, row)?;
        campaign.in_each_call(scenario, expected, row)?;
    }
    while rows.iter().map(|row| row.kills).sum::<usize>() < kills {
        for ((scenario, expected), row) in parts().zip(&mut rows) {
            let plan = campaign.plan(expected);
            campaign.round(scenario, expected, plan, row)?;
        }
    }
    print(&rows, &expected, &campaign.tally)?;
    fs::remove_dir_all(&home).context("cannot remove the home")?;
    Ok(rows.iter().map(|row| row.violations).sum())
}

impl Campaign<'_> {
    fn at_each_boundary(
        &mut self,
        scenario: &Scenario,
        expected: &Expected,
        row: &mut Row,
    ) -> Result<()> {
        // A question can be open at one of them, and is answered before the run goes on, or after.
        let ways: &[bool] = match scenario.answers {
            Answers::Rule => &[false],
            Answers::Person | Answers::LatePerson => &[true, false],
        };
        for lines in 1..expected.lines {
            for is_answered_between in ways.iter().copied() {
                for _ in 0..TRIES_MAX {
                    let plan = Plan {
                        kills: [Kill::Lines(lines)].into(),
                        is_answered_between,
                    };
                    if self.round(scenario, expected, plan, row)? == Some(lines) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn in_each_call(
        &mut self,
        scenario: &Scenario,
        expected: &Expected,
        row: &mut Row,
    ) -> Result<()> {
        for number in 1..=expected.effects.len() {
            for moment in [Moment::Before, Moment::After] {
                let plan = Plan {
                    kills: [Kill::InCall(moment, number)].into(),
                    is_answered_between: false,
                };
                self.round(scenario, expected, plan, row)?;
            }
        }
        Ok(())
    }

    fn plan(&mut self, expected: &Expected) -> Plan {
        let looks = self.chance.up_to(expected.looks);
        let first = match self.chance.up_to(8) {
            1 => Kill::Early(looks),
            _ => Kill::Looks(looks),
        };
        let mut kills = vec![first];
        for _ in 1..self.chance.up_to(KILLS_MAX) {
            let number = usize::try_from(self.chance.up_to(LINES_MAX)).unwrap_or_default();
            kills.push(match self.chance.up_to(6) {
                1 => Kill::InCall(Moment::Before, 1),
                2 => Kill::InCall(Moment::After, 1),
                3 | 4 => Kill::Lines(number),
                _ => Kill::Looks(self.chance.up_to(expected.looks)),
            });
        }
        Plan {
            kills: kills.into(),
            is_answered_between: self.chance.up_to(2) == 1,
        }
    }

    /// Carries out a plan and checks what came of it. Where the run was killed first, in lines.
    fn round(
        &mut self,
        scenario: &Scenario,
        expected: &Expected,
        plan: Plan,
        row: &mut Row,
    ) -> Result<Option<usize>> {
        let described = format!("{}, {plan:?}", scenario.name);
        let mut done = killed(&self.place, scenario, plan)
            .with_context(|| format!("cannot carry out {described}"))?;
        if !done.is_lost {
            done.compare(expected);
        }
        self.promises_hold(&mut done)?;
        row.kills += done.kills;
        row.boundaries.extend(done.killed_at);
        row.resumed += done.resumed;
        row.ambiguous += done.ambiguous;
        row.never_started += done.never_started;
        row.violations += done.violations.len();
        if !done.violations.is_empty() {
            complain(&described);
            for violation in done.violations.iter().take(SHOWN_MAX) {
                let shown: String = violation.chars().take(SHOWN_CHARS_MAX).collect();
                complain(&format!("  {shown}"));
            }
            self.keep()?;
        }
        Ok(done.killed_at)
    }

    /// Keeps the ledgers of a run with which something is wrong, and says where.
    fn keep(&mut self) -> Result<()> {
        if self.kept < KEPT_MAX {
            self.kept += 1;
            let name = format!("broken-{}", self.kept);
            self.driver.keep_as(&name, &self.place.runs())?;
            complain(&format!("  kept as target/faults/{name}"));
        }
        Ok(())
    }

    /// I1 to I7, by the checker of all parts.
    fn promises_hold(&mut self, done: &mut Done) -> Result<()> {
        fs::write(self.driver.promises(), &done.promises).context("cannot write the promises")?;
        let before = (self.tally.violations, self.tally.closed);
        self.driver
            .check(&self.place.runs(), Fault::Killed, &mut self.tally)?;
        if self.tally.violations > before.0 {
            done.violations.push("a promise was broken".to_owned());
        }
        if self.tally.closed > before.1 && !done.is_lost {
            done.violations
                .push("I7: a run was left without an end".to_owned());
        }
        Ok(())
    }
}

fn print(rows: &[Row], expected: &[Expected], tally: &Tally) -> Result<()> {
    say(&format!(
        "\n  {:30} {:>6} {:>11} {:>8} {:>10} {:>14} {:>11}",
        "run", "kills", "boundaries", "resumed", "ambiguous", "never started", "violations"
    ))?;
    for ((scenario, expected), row) in SCENARIOS.iter().zip(expected).zip(rows) {
        let all = 1..expected.lines;
        let hit = row.boundaries.iter().filter(|lines| all.contains(lines));
        say(&format!(
            "  {:30} {:>6} {:>11} {:>8} {:>10} {:>14} {:>11}",
            scenario.name,
            row.kills,
            format!("{} of {}", hit.count(), all.len()),
            row.resumed,
            row.ambiguous,
            row.never_started,
            row.violations
        ))?;
    }
    let kills: usize = rows.iter().map(|row| row.kills).sum();
    say(&format!(
        "  {kills} kills, {} ledgers, {} promises checked, {} violations",
        tally.runs, tally.promises, tally.violations
    ))
}
