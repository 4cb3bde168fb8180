//! The files of a new skill, embedded in the binary: a template, the SDK of its language and the
//! interface `wit/`. The SDKs are on no registry, so a project holds a copy.

/// A file as the checkout has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    /// Its path below the folder that the list is of, `/` between the segments.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

macro_rules! files {
    ($base:literal => $($path:literal,)+) => {
        &[$(File {
            path: $path,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $base, $path)),
        },)+]
    };
}

macro_rules! file {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path))
    };
}

/// The workspace of the SDK for Rust, from which its manifests inherit.
pub(super) const RUST_WORKSPACE: &str = file!("guest-skills/Cargo.toml");
/// The versions that the SDK for Rust is tested with.
pub(super) const RUST_LOCK: &str = file!("guest-skills/Cargo.lock");

/// Files that go to one folder of a project.
pub(super) struct Tree {
    /// The folder in the project; empty for the project itself.
    pub(super) folder: &'static str,
    pub(super) files: &'static [File],
}

const fn tree(folder: &'static str, files: &'static [File]) -> Tree {
    Tree { folder, files }
}

/// A skill in Rust.
pub(super) const RUST: &[Tree] = &[
    tree("", TEMPLATE_ANY),
    tree("", TEMPLATE_RUST),
    tree("wit", WIT),
    tree("vendor/sdk", SDK_RUST),
    tree("vendor/sdk-macros", SDK_MACROS),
];

/// A skill in TypeScript.
pub(super) const TS: &[Tree] = &[
    tree("", TEMPLATE_ANY),
    tree("", TEMPLATE_TS),
    tree("wit", WIT),
    tree("vendor/sdk-ts", SDK_TS),
];

/// A skill in Python.
pub(super) const PY: &[Tree] = &[
    tree("", TEMPLATE_ANY),
    tree("", TEMPLATE_PY),
    tree("wit", WIT),
    tree("vendor/sdk-py", SDK_PY),
];

/// The interface between skill and host.
const WIT: &[File] = files!(
    "wit/" =>
    "approval.wit",
    "handler.wit",
    "handoff.wit",
    "llm.wit",
    "log.wit",
    "recorder.wit",
    "run.wit",
    "session-handler.wit",
    "session.wit",
    "tools.wit",
    "types.wit",
    "worlds.wit",
);

/// What a new skill has in every language.
const TEMPLATE_ANY: &[File] = files!(
    "guest-skills/templates/any/" =>
    "README.md",
    "SKILL.md",
    "gitignore",
    "skill.toml",
    "tests/counts.json",
    "tests/refuses.json",
    "tests/without-dictionary.json",
);

/// The sources of a new skill.
const TEMPLATE_RUST: &[File] = files!(
    "guest-skills/templates/rust/" =>
    "Cargo.toml",
    "src/lib.rs",
);

/// The sources of a new skill.
const TEMPLATE_TS: &[File] = files!(
    "guest-skills/templates/ts/" =>
    "package-lock.json",
    "package.json",
    "src/main.ts",
    "tsconfig.json",
);

/// The sources of a new skill.
const TEMPLATE_PY: &[File] = files!(
    "guest-skills/templates/py/" =>
    "app.py",
    "requirements.txt",
);

/// `sdk`.
const SDK_RUST: &[File] = files!(
    "guest-skills/sdk/" =>
    "Cargo.toml",
    "src/agent.rs",
    "src/approval.rs",
    "src/error.rs",
    "src/expansion.rs",
    "src/handoff.rs",
    "src/host/component.rs",
    "src/host/convert.rs",
    "src/host/mocked.rs",
    "src/host/wire.rs",
    "src/host_error.rs",
    "src/http.rs",
    "src/lib.rs",
    "src/llm/answer.rs",
    "src/llm/mod.rs",
    "src/llm/request.rs",
    "src/log.rs",
    "src/mock/active.rs",
    "src/mock/mod.rs",
    "src/mock/record.rs",
    "src/mock/session.rs",
    "src/mock/session/tests.rs",
    "src/mock/tests.rs",
    "src/parallel.rs",
    "src/recorder.rs",
    "src/run.rs",
    "src/schema.rs",
    "src/session.rs",
    "src/tools.rs",
);

/// `sdk-macros`.
const SDK_MACROS: &[File] = files!(
    "guest-skills/sdk-macros/" =>
    "Cargo.toml",
    "src/agent.rs",
    "src/agent/tests.rs",
    "src/arguments.rs",
    "src/descriptor.rs",
    "src/expand.rs",
    "src/expand/tests.rs",
    "src/lib.rs",
    "src/signature.rs",
);

/// `sdk-ts`.
const SDK_TS: &[File] = files!(
    "guest-skills/sdk-ts/" =>
    "build.sh",
    "package.json",
    "src/agent.ts",
    "src/approval.ts",
    "src/error.ts",
    "src/handoff.ts",
    "src/index.ts",
    "src/json.ts",
    "src/llm.ts",
    "src/log.ts",
    "src/platform.ts",
    "src/recorder.ts",
    "src/results.ts",
    "src/run.ts",
    "src/session.ts",
    "src/skill.ts",
    "src/tools.ts",
    "tsconfig.base.json",
    "wit/deps/wasi-random.wit",
    "wit/world.wit",
);

/// `sdk-py`.
const SDK_PY: &[File] = files!(
    "guest-skills/sdk-py/" =>
    "build.sh",
    "skillrun_sdk/__init__.py",
    "skillrun_sdk/approval.py",
    "skillrun_sdk/authoring.py",
    "skillrun_sdk/encoding.py",
    "skillrun_sdk/errors.py",
    "skillrun_sdk/handoff.py",
    "skillrun_sdk/llm.py",
    "skillrun_sdk/log.py",
    "skillrun_sdk/recorder.py",
    "skillrun_sdk/results.py",
    "skillrun_sdk/run.py",
    "skillrun_sdk/tools.py",
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{
        File, SDK_MACROS, SDK_PY, SDK_RUST, SDK_TS, TEMPLATE_ANY, TEMPLATE_PY, TEMPLATE_RUST,
        TEMPLATE_TS, WIT,
    };

    fn walk(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if ["__pycache__", "node_modules", "target"].contains(&name.as_str()) {
                continue;
            }
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{prefix}{name}/"), found);
            } else {
                found.insert(format!("{prefix}{name}"));
            }
        }
    }

    #[test]
    fn every_file_of_the_sdks_and_templates_is_embedded() {
        let lists: [(&str, &[File]); 9] = [
            ("wit", WIT),
            ("guest-skills/templates/any", TEMPLATE_ANY),
            ("guest-skills/templates/rust", TEMPLATE_RUST),
            ("guest-skills/templates/ts", TEMPLATE_TS),
            ("guest-skills/templates/py", TEMPLATE_PY),
            ("guest-skills/sdk", SDK_RUST),
            ("guest-skills/sdk-macros", SDK_MACROS),
            ("guest-skills/sdk-ts", SDK_TS),
            ("guest-skills/sdk-py", SDK_PY),
        ];
        for (folder, embedded) in lists {
            let mut found = BTreeSet::new();
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            walk(&folder, "", &mut found);
            let embedded: BTreeSet<String> =
                embedded.iter().map(|file| file.path.to_owned()).collect();
            assert_eq!(embedded, found, "{}", folder.display());
        }
    }

    /// The tests have more tools than a project needs, and those of a project are among them.
    #[test]
    fn a_project_gets_the_tools_that_the_tests_use() {
        let text = |path: &str| {
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
        };
        let json = |path: &str| serde_json::from_str::<serde_json::Value>(&text(path)).unwrap();
        let lock = |folder: &str| json(&format!("{folder}/package-lock.json"));
        let (project, tested) = (lock("guest-skills/templates/ts"), lock("tests/toolchains"));
        for (path, package) in project["packages"].as_object().unwrap() {
            if !path.is_empty() {
                let tested = &tested["packages"][path];
                for key in ["version", "integrity"] {
                    assert_eq!(package[key], tested[key], "{path}");
                }
            }
        }
        let requirements = text("guest-skills/templates/py/requirements.txt");
        let tested = text("tests/toolchains/requirements.txt");
        for line in requirements.lines().filter(|line| !line.starts_with('#')) {
            let line = line.trim_end_matches('\\').trim();
            assert!(tested.contains(line), "{line}");
        }
    }
}
