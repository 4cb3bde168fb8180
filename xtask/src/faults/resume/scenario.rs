//! Which runs are killed: the example skills, and a conversation with a model.

/// One kind of run.
pub(super) struct Scenario {
    /// What the table calls it.
    pub(super) name: &'static str,
    pub(super) skill: &'static str,
    /// JSON.
    pub(super) input: &'static str,
    /// Who answers questions.
    pub(super) answers: Answers,
}

/// Who answers questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// A rule, at once.
    Rule,
    /// Another process.
    Person,
    /// Another process, after the run was suspended.
    LatePerson,
}

impl Answers {
    /// What the configuration says of it.
    pub(super) fn config(self) -> &'static str {
        match self {
            Self::Rule => "policy = \"yes\"",
            Self::Person => "policy = \"ask\"",
            Self::LatePerson => "policy = \"ask\"\nsuspend_after_ms = 1",
        }
    }
}

/// The skills that are installed, and what each asks for and is granted beyond what its manifest says.
pub(super) const SKILLS: [(&str, Option<&str>); 5] = [
    ("fan-out", None),
    ("greet", None),
    (
        "handoff",
        Some(r#"["skill:greet", "skill:fan-out", "skill:handoff"]"#),
    ),
    // All tools but the one that kills.
    (
        "probe",
        Some(
            r#"["tool:tickets__idempotent", "tool:tickets__read", "tool:tickets__search",
                "tool:tickets__set_priority", "tool:tickets__write", "llm:*/*"]"#,
        ),
    ),
    ("triage", None),
];

/// Every call that has an effect has arguments that no other call of the run has.
pub(super) const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "triage, approved by rule",
        skill: "triage",
        input: r#"{"id":"T-1","text":"Checkout is down"}"#,
        answers: Answers::Rule,
    },
    Scenario {
        name: "triage, approved by a person",
        skill: "triage",
        input: r#"{"id":"T-2","text":"All data is lost"}"#,
        answers: Answers::Person,
    },
    Scenario {
        name: "triage, suspended",
        skill: "triage",
        input: r#"{"id":"T-3","text":"The server is on fire"}"#,
        answers: Answers::LatePerson,
    },
    Scenario {
        name: "fan-out, writing",
        skill: "fan-out",
        input: r#"{"tool":"tickets__write","parallel_max":3,"calls":[{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6}]}"#,
        answers: Answers::Rule,
    },
    Scenario {
        name: "fan-out, idempotent",
        skill: "fan-out",
        input: r#"{"tool":"tickets__idempotent","calls":[{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6}]}"#,
        answers: Answers::Rule,
    },
    Scenario {
        name: "handoff, one by one",
        skill: "handoff",
        input: r#"{"steps":[
            {"skill":"fan-out","input":{"tool":"tickets__write","calls":[{"n":1},{"n":2}]}},
            {"skill":"greet","input":{"name":"Ada"}},
            {"skill":"handoff","input":{"steps":[
                {"skill":"fan-out","input":{"tool":"tickets__read","calls":[{"n":3}]}},
                {"skill":"fan-out","input":{"tool":"tickets__write","calls":[{"n":4}]}}]}}]}"#,
        answers: Answers::Rule,
    },
    Scenario {
        name: "handoff, all at once",
        skill: "handoff",
        input: r#"{"parallel":true,"steps":[
            {"skill":"fan-out","input":{"tool":"tickets__write","calls":[{"n":1},{"n":2}]}},
            {"skill":"greet","input":{"name":"Ada"}},
            {"skill":"fan-out","input":{"tool":"tickets__idempotent","calls":[{"n":3}]}}]}"#,
        answers: Answers::Rule,
    },
    Scenario {
        name: "a conversation",
        skill: "probe",
        input: r#"{"verb":"converse","lines":["What is there?","And then?","What is left?"]}"#,
        answers: Answers::Rule,
    },
];
