//! Which module may import which.

use super::assert_clean;
use super::paths::{self, NamedPath};
use super::tree::{RustFile, TextFile, root, rust_files, text_files};

/// What a module must never import: modules of this crate and, by name, other crates.
struct Rule {
    module: &'static str,
    forbidden: &'static [&'static str],
}

const FOUNDATION: &[&str] = &[
    "ledger", "registry", "executor", "tools", "models", "runner", "runtime", "api", "mcp", "cli",
    "wasmtime", "axum", "rmcp", "clap",
];

const RULES: &[Rule] = &[
    Rule {
        module: "id",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "clock",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "capability",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "limits",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "schema",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "call",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "json_lines",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "outcome",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "config",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "histogram",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "telemetry",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "tls",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "trace_context",
        forbidden: FOUNDATION,
    },
    Rule {
        module: "trace",
        forbidden: &[
            "registry", "executor", "tools", "models", "runner", "runtime", "api", "mcp", "cli",
            "wasmtime", "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "ledger",
        forbidden: &[
            "registry", "executor", "tools", "models", "runner", "runtime", "api", "mcp", "cli",
            "wasmtime", "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "registry",
        forbidden: &[
            "ledger", "executor", "tools", "models", "runner", "runtime", "api", "mcp", "cli",
            "wasmtime",
        ],
    },
    Rule {
        module: "executor",
        forbidden: &[
            "ledger", "registry", "tools", "models", "runner", "runtime", "api", "mcp", "cli",
            "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "tools",
        forbidden: &[
            "ledger", "registry", "executor", "models", "runner", "runtime", "api", "mcp", "cli",
            "wasmtime", "axum", "clap",
        ],
    },
    Rule {
        module: "models",
        forbidden: &[
            "ledger", "registry", "executor", "tools", "runner", "runtime", "api", "mcp", "cli",
            "wasmtime", "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "runner",
        forbidden: &[
            "runtime", "api", "mcp", "cli", "wasmtime", "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "assembly",
        forbidden: &["api", "mcp", "cli", "wasmtime", "axum", "rmcp", "clap"],
    },
    Rule {
        module: "runtime",
        forbidden: &[
            "executor", "api", "mcp", "cli", "wasmtime", "axum", "rmcp", "clap",
        ],
    },
    Rule {
        module: "api",
        forbidden: &[
            "executor",
            "ledger::store",
            "mcp",
            "cli",
            "wasmtime",
            "clap",
        ],
    },
    Rule {
        module: "mcp",
        forbidden: &[
            "executor",
            "ledger::store",
            "api",
            "cli",
            "wasmtime",
            "clap",
        ],
    },
    Rule {
        module: "cli",
        forbidden: &["executor", "api", "mcp"],
    },
    // The binary only hands over to `cli`.
    Rule {
        module: "main",
        forbidden: &["executor", "api", "mcp"],
    },
];

/// What of `cli` starts servers, and which: the daemon, as a file and a folder, the MCP server of its own, and where
/// the tools come from that runs of every command have.
const SERVER_STARTERS: [(&str, &[&str]); 4] = [
    ("src/cli/commands/serve.rs", &["api", "mcp"]),
    ("src/cli/commands/serve/", &["api", "mcp"]),
    ("src/cli/commands/mcp.rs", &["mcp"]),
    ("src/cli/assemble.rs", &["mcp"]),
];

/// Modules of this crate among the forbidden names; the others are crates.
const MODULES: [&str; 11] = [
    "ledger",
    "registry",
    "executor",
    "tools",
    "models",
    "runner",
    "runtime",
    "api",
    "mcp",
    "cli",
    "ledger::store",
];

fn check(files: &[RustFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        let Some(module) = file.top_module().filter(|module| *module != "lib") else {
            continue;
        };
        let Some(rule) = RULES.iter().find(|rule| rule.module == module) else {
            complaints.push(format!(
                "{}: module {module} has no rule in arrows.rs",
                file.path
            ));
            continue;
        };
        for path in paths::of(file) {
            for name in rule.forbidden.iter().filter(|name| imports(&path, name)) {
                let starts_a_server = SERVER_STARTERS.iter().any(|(starter, servers)| {
                    file.path.starts_with(starter) && servers.contains(name)
                });
                if !starts_a_server {
                    let (file, line) = (&file.path, path.line);
                    complaints.push(format!("{file}:{line}: {module} must not import {name}"));
                }
            }
        }
    }
    complaints
}

fn imports(path: &NamedPath, forbidden: &str) -> bool {
    let Some((first, rest)) = path.segments.split_first() else {
        return false;
    };
    if MODULES.contains(&forbidden) {
        let wanted: Vec<&str> = forbidden.split("::").collect();
        return ["crate", "skillrun"].contains(&first.as_str())
            && rest.len() >= wanted.len()
            && rest
                .iter()
                .zip(&wanted)
                .all(|(name, wanted)| name == wanted);
    }
    // `wasmtime` stands for its family of crates too. A word alone is a variable or a macro.
    let is_of_crate = first == forbidden || first.starts_with(&format!("{forbidden}_"));
    is_of_crate && !rest.is_empty()
}

/// One row of the table in ARCHITECTURE.md: the modules it is about and the names it forbids.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    modules: Vec<String>,
    forbidden: Vec<String>,
}

/// The rows of the table whose first column is headed `module`.
fn table(text: &str) -> Vec<Row> {
    text.lines()
        .skip_while(|line| !line.starts_with("| module |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let names = |cell: Option<&&str>| {
                let inside_backticks = cell
                    .copied()
                    .unwrap_or_default()
                    .split('`')
                    .skip(1)
                    .step_by(2);
                inside_backticks.map(str::to_owned).collect()
            };
            Row {
                modules: names(cells.first()),
                forbidden: names(cells.last()),
            }
        })
        .collect()
}

fn check_table(rows: &[Row], modules: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for module in modules {
        let forbidden: Vec<&str> = RULES
            .iter()
            .filter(|rule| rule.module == module)
            .flat_map(|rule| rule.forbidden.iter().copied())
            .collect();
        let Some(row) = rows.iter().find(|row| row.modules.contains(module)) else {
            complaints.push(format!("ARCHITECTURE.md has no row for module `{module}`"));
            continue;
        };
        let differs = forbidden.len() != row.forbidden.len()
            || !forbidden
                .iter()
                .all(|name| row.forbidden.iter().any(|other| other == name));
        if differs {
            let expected = forbidden.join("`, `");
            complaints.push(format!(
                "ARCHITECTURE.md: `{module}` must never import `{expected}`"
            ));
        }
    }
    for module in rows.iter().flat_map(|row| &row.modules) {
        if !modules.contains(module) {
            complaints.push(format!(
                "ARCHITECTURE.md has a row for `{module}`, which src/ lacks"
            ));
        }
    }
    complaints
}

fn modules_of(files: &[TextFile]) -> Vec<String> {
    let mut modules: Vec<String> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("src/"))
        .filter_map(|below| below.split('/').next())
        .map(|first| first.trim_end_matches(".rs").to_owned())
        .filter(|module| !["lib", "main"].contains(&module.as_str()))
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

#[test]
fn no_module_imports_what_its_layer_forbids() {
    assert_clean(&check(&rust_files().unwrap()));
}

#[test]
fn the_table_in_architecture_md_is_the_one_enforced() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let modules = modules_of(&text_files(&[".rs"]).unwrap());
    assert_clean(&check_table(&table(&text), &modules));
}

#[test]
fn a_forbidden_arrow_is_seen() {
    for (path, text) in [
        ("src/ledger/bus.rs", "use crate::executor::Engine;"),
        (
            "src/ledger/bus.rs",
            "use super::super::{id::RunId, registry};",
        ),
        (
            "src/runner/mod.rs",
            "fn f() { let _ = wasmtime_wasi::WasiCtx::new(); }",
        ),
        (
            "src/clock.rs",
            "fn f() { tracing::info!(\"{}\", crate::runner::x()); }",
        ),
        (
            "src/api/dto.rs",
            "use crate::ledger::{Event, store::Store};",
        ),
        ("src/cli/run.rs", "use crate::api;"),
        ("src/main.rs", "use skillrun::executor::Engine;"),
        ("src/surprise.rs", "fn f() {}"),
    ] {
        let file = RustFile::parse(path, text).unwrap();
        assert_eq!(check(&[file]).len(), 1, "{path}: {text}");
    }
}

#[test]
fn an_allowed_arrow_is_let_through() {
    for (path, text) in [
        (
            "src/runner/mod.rs",
            "use crate::{executor::Outcome, ledger::Store, registry};",
        ),
        (
            "src/executor/engine.rs",
            "use wasmtime::Config; use crate::limits::Limits;",
        ),
        ("src/cli/commands/serve.rs", "use crate::{api, mcp};"),
        ("src/api/dto.rs", "use crate::ledger::Event;"),
        (
            "src/ledger/bus.rs",
            "fn f(clap: u8, executor: u8) -> u8 { clap + executor }",
        ),
    ] {
        let file = RustFile::parse(path, text).unwrap();
        assert_clean(&check(&[file]));
    }
}

#[test]
fn a_table_that_differs_is_seen() {
    let text = "\
| module | what it holds | must never import |
|---|---|---|
| `cli` | arguments | `executor`, `api` |
| `gone` | nothing | `cli` |
";
    let rows = table(text);
    let complaints = check_table(&rows, &["cli".to_owned(), "runner".to_owned()]);
    assert_eq!(complaints.len(), 3, "{complaints:?}");
}
