//! The official conformance suite: what each revision requires of servers, and what else it looks at.

use std::collections::BTreeSet;

use super::suite::{Suite, assert_hold, scenarios};

/// Scenarios of each revision, with those that the suite runs and does not score.
const SCENARIOS_2025: usize = 33;
const SCENARIOS_2026: usize = 50;

#[test]
fn what_2025_11_25_requires_holds() {
    let suite = Suite::start();
    let checks = suite.run(&["--requirements", "2025-11-25"]);
    let ran: BTreeSet<&str> = scenarios(&checks);
    assert_eq!(ran.len(), SCENARIOS_2025, "{ran:?}");
    assert_hold(&checks, &[]);
}

#[test]
fn what_2026_07_28_requires_holds() {
    let suite = Suite::start();
    let checks = suite.run(&["--requirements", "2026-07-28"]);
    let ran: BTreeSet<&str> = scenarios(&checks);
    assert_eq!(ran.len(), SCENARIOS_2026, "{ran:?}");
    let known = [(
        "tasks-status-notifications",
        "the suite does not look at them yet",
    )];
    assert_hold(&checks, &known);
}

#[test]
fn tasks_hold() {
    let suite = Suite::start();
    for scenario in [
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    ] {
        suite.holds(scenario, &[], &[]);
    }
}

#[test]
fn skills_hold() {
    let suite = Suite::start();
    for scenario in [
        "sep-2640-skills-enumeration",
        "sep-2640-skills-directory",
        "sep-2640-skills-manifest",
    ] {
        suite.holds(scenario, &[], &[]);
    }
}

#[test]
fn skills_hold_for_clients_with_sessions() {
    let suite = Suite::start();
    let old = ["--spec-version", "2025-11-25", "--force"];
    let why = "lists have no times to live before 2026-07-28";
    let known = [
        ("sep-2640-skills-list-cache-attributes", why),
        ("sep-2640-skills-get-cache-attributes", why),
    ];
    suite.holds("sep-2640-skills-enumeration", &old, &known);
    for scenario in ["sep-2640-skills-directory", "sep-2640-skills-manifest"] {
        suite.holds(scenario, &old, &[]);
    }
}

#[test]
fn headers_and_schemas_hold() {
    let suite = Suite::start();
    for scenario in [
        "http-header-validation",
        "http-custom-header-server-validation",
        "json-schema-2020-12",
    ] {
        suite.holds(scenario, &["--spec-version", "2026-07-28"], &[]);
    }
    for scenario in [
        "server-session-lifecycle",
        "server-sse-polling",
        "json-schema-2020-12",
    ] {
        suite.holds(scenario, &["--spec-version", "2025-11-25"], &[]);
    }
}
