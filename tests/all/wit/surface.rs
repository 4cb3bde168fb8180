//! The SDKs of the other languages, through a skill in each that calls all of it. Both skills answer the
//! same, so what is expected stands here once.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun::clock::Clock;

use super::foreign_skill::{ForeignSkill, PYTHON, TYPESCRIPT, on_record};
use super::{root, succeed, tool};
use crate::harness::Home;

pub(super) const SURFACE_TS: ForeignSkill = ForeignSkill {
    name: "surface-ts",
    source: "tests/all/wit/surface/ts",
    language: &TYPESCRIPT,
};

pub(super) const SURFACE_PY: ForeignSkill = ForeignSkill {
    name: "surface-py",
    source: "tests/all/wit/surface/py",
    language: &PYTHON,
};

/// A skill with the home in which it runs.
struct Surface {
    home: Home,
    skill: String,
}

impl Surface {
    fn of(skill: &ForeignSkill) -> Self {
        Self {
            home: skill.home(),
            skill: skill.build().to_str().unwrap().to_owned(),
        }
    }

    fn run(&self, input: &Value) -> Value {
        self.home.run_json(&self.skill, input).0
    }

    /// What it answers, from a run that ends well.
    #[track_caller]
    fn answers(&self, work: &str) -> Value {
        let document = self.run(&json!({ "do": work }));
        assert_eq!(document["code"], "ok", "{document}");
        document["output"].clone()
    }

    fn is_right(&self, name: &str) {
        self.asks();
        self.records();
        self.logs();
        self.knows_its_run(name);
        self.draws_and_tells_time();
    }

    /// Each function reaches the host with its arguments, and a refusal comes back as it is.
    fn asks(&self) {
        let denied = |capability: &str| format!("denied: denied: {capability} is not granted");
        let [tool, model, approval, skill] =
            ["tool:a__b", "llm:acme/m", "approval", "skill:other"].map(denied);
        assert_eq!(
            self.answers("ask"),
            json!({
                "available": [],
                "each": ["tool:a__b", "tool:a__c"],
                "invoke": tool,
                "invoke_all": tool,
                "generate": model,
                "generate_full": model,
                "generate_as": model,
                "stream": model,
                "request": approval,
                "require": approval,
                "handoff": skill,
                "handoff_all": skill,
                "custom": "invalid: invalid arguments: a name or an id is longer than 128 bytes",
            })
        );
    }

    fn records(&self) {
        let document = self.run(&json!({ "do": "record" }));
        assert_eq!(
            document["output"],
            json!([["step:outer#1", "step:inner#2"], 6, 7, 8, 9, 10, 11])
        );
        let run_id = document["run_id"].as_str().unwrap();
        assert_eq!(
            on_record(&self.home, run_id),
            [
                "host run_started",
                "guest node_enter step:outer#1",
                "guest node_enter step:inner#2",
                "guest node_exit step:inner#2 true",
                "guest node_exit step:outer#1 true",
                r#"guest custom mine {"a":[1,null]}"#,
                "guest error",
                "guest tool_call",
                "guest tool_result",
                "guest llm_call",
                "guest structured_output",
                "host run_completed ok",
            ]
        );
    }

    fn logs(&self) {
        let document = self.run(&json!({ "do": "log" }));
        let run_id = document["run_id"].as_str().unwrap();
        let lines = self.home.events_of(run_id, "log");
        let said = |line: &Value| {
            format!(
                "{} {}",
                line["payload"]["level"], line["payload"]["message"]
            )
        };
        assert_eq!(
            lines.iter().map(said).collect::<Vec<_>>(),
            [
                r#""trace" "1""#,
                r#""debug" "2""#,
                r#""info" "3""#,
                r#""warn" "4""#,
                r#""error" "5""#,
                r#""info" "6 {\"a\":1}""#,
            ]
        );
        assert_eq!(
            lines[2]["payload"]["fields"],
            json!({ "text": "a", "count": "1", "list": "[true]" })
        );
    }

    fn knows_its_run(&self, name: &str) {
        let document = self.run(&json!({ "do": "facts" }));
        assert_eq!(
            document["output"],
            json!({
                "id": document["run_id"],
                "parent_id": null,
                "name": name,
                "body": "\nThe body.\n",
                "has_time": true,
                "attempt": 1,
            })
        );
    }

    /// Numbers differ within a run and from run to run, which have different seeds. An interpreter that
    /// keeps what it drew when it was built gives the same ones every time.
    fn draws_and_tells_time(&self) {
        let began_s = seconds_since_1970();
        let runs = [self.answers("chance"), self.answers("chance")];
        let ended_s = seconds_since_1970();
        for run in &runs {
            assert_eq!(run["different"], 500, "{run}");
            assert_eq!(run["in_range"], true, "{run}");
            let mean = run["mean"].as_f64().unwrap();
            assert!((0.4..0.6).contains(&mean), "{run}");
            for time in run["time_s"].as_array().unwrap() {
                let time = time.as_f64().unwrap();
                assert!((began_s - 1.0..ended_s + 1.0).contains(&time), "{run}");
            }
            let elapsed = run["elapsed_ms"].as_array().unwrap();
            let [before, after] = [0, 1].map(|at| elapsed[at].as_f64().unwrap());
            assert!(0.0 <= before && before < after && after < 60_000.0, "{run}");
        }
        for drawn in ["drawn", "bytes", "unique"] {
            assert_ne!(runs[0][drawn], runs[1][drawn], "{drawn}");
        }
        let ids: BTreeSet<&str> = runs
            .iter()
            .map(|run| run["unique"].as_str().unwrap())
            .collect();
        assert!(
            ids.iter().all(|id| id.len() == 36 && &id[14..15] == "4"),
            "{ids:?}"
        );
    }

    /// How a run ends that throws something, and where in the details the place is.
    fn ends_with_what_was_thrown(&self, place: &str) {
        let document = self.run(&json!({ "do": "fail" }));
        assert_eq!(document["error"], "on purpose");
        assert_eq!(
            document["output"],
            json!({ "code": "some_code", "details": { "a": [1] } })
        );
        let document = self.run(&json!({ "do": "output" }));
        assert_eq!(document["output"]["code"], "invalid_output", "{document}");
        let document = self.run(&json!({ "do": "raise" }));
        assert_eq!(document["code"], "skill_error", "{document}");
        assert_eq!(document["error"], "TypeError: by accident");
        assert_eq!(document["output"]["code"], "exception");
        let details = document["output"]["details"].to_string();
        assert!(details.contains(place), "{details}");
    }
}

fn seconds_since_1970() -> f64 {
    let micros = Clock::system().now().unix_micros();
    Duration::from_micros(u64::try_from(micros).unwrap()).as_secs_f64()
}

#[test]
fn the_sdk_for_typescript_does_what_it_says() {
    let surface = Surface::of(&SURFACE_TS);
    surface.is_right("surface-ts");
    surface.ends_with_what_was_thrown("skill.js:");
}

#[test]
fn the_sdk_for_python_does_what_it_says() {
    let surface = Surface::of(&SURFACE_PY);
    surface.is_right("surface-py");
    surface.ends_with_what_was_thrown("in blunder");
}

/// An author's own tools are older than the interpreter in the component.
#[test]
fn an_older_python_reads_the_sdk() {
    succeed(tool("python/bin/python").args(["-c", PARSE]).args([
        "guest-skills/sdk-py",
        "guest-skills/greet-py",
        "guest-skills/triage-py",
    ]));
}

const PARSE: &str = "
import ast, pathlib, sys
found = [file for folder in sys.argv[1:] for file in pathlib.Path(folder).rglob('*.py')]
assert len(found) > 10, found
for file in found:
    ast.parse(file.read_text(), str(file), feature_version=(3, 10))
";

/// A line of TypeScript that makes an agent with this `start`.
fn agent(start: &str) -> String {
    format!("sdk.agent({{ name: \"a\", version: \"1\", description: \"b\", {start} }});")
}

/// What the compiler must refuse, so that a green build means something.
#[test]
fn the_compiler_refuses_what_does_not_fit_the_sdk() {
    SURFACE_TS.build();
    let folder = tempfile::tempdir().unwrap();
    let base = root().join(SURFACE_TS.language.sdk);
    let types = root().join("target/guests/surface-ts/types");
    let config = json!({
        "extends": base.join("tsconfig.base.json"),
        "compilerOptions": { "paths": { "skillrun-sdk": [base.join("src/index.ts")] } },
        "include": ["*.ts", types],
    });
    std::fs::write(folder.path().join("tsconfig.json"), config.to_string()).unwrap();
    let refused = |line: &str| {
        let text = format!("import * as sdk from \"skillrun-sdk\";\n{line}\n");
        std::fs::write(folder.path().join("main.ts"), text).unwrap();
        let mut compiler: Command = tool("node_modules/.bin/tsc");
        let output = compiler
            .arg("--project")
            .arg(folder.path())
            .output()
            .unwrap();
        !output.status.success()
    };
    for line in [
        "sdk.log.info(sdk.tools.invoke(\"a\", {}).text);",
        &agent("start: () => ({ prompt: (text) => sdk.session.emitText(text) })"),
        &agent("start: () => ({ prompt: () => \"refusal\", finish: () => {} })"),
    ] {
        assert!(!refused(line), "{line}");
    }
    for line in [
        &agent("start: () => ({})"),
        &agent("start: () => ({ prompt: () => \"tired\" })"),
        &agent("start: () => ({ async prompt() {} })"),
        "sdk.session.plan([{ description: \"a\" }]);",
        "sdk.session.requestPermission(\"a\", [\"allow\"]);",
        "sdk.tools.invoke(\"a\", 1);",
        "sdk.llm.generate({ model: \"a/b\" });",
        "sdk.log.info(1);",
        "const text: string = sdk.handoff.invoke(\"a\", {});",
        "sdk.approval.request(\"May I?\").aproved;",
    ] {
        assert!(refused(line), "{line}");
    }
}
