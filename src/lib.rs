//! Runs other people's skills in a WebAssembly sandbox, with every call on the record.
//!
//! A skill is a WASI component. It has nothing but clocks, randomness and its log, unless it asks for
//! more and the operator grants it. Each run leaves one JSONL ledger: the input, every call with its answer, and how it
//! ended.
//!
//! # Embedding
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use skillrun::clock::Clock;
//! use skillrun::config::Config;
//! use skillrun::ledger::{Store, StoreOptions};
//! use skillrun::registry::Registry;
//! use skillrun::runner::{
//!     Caller, JsonObject, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions, StartOptions,
//! };
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::load(Path::new("/var/lib/skillrun"))?;
//! let clock = Clock::system();
//! let skills = Registry::load(&config.skills_dir())?;
//! let options = SkillExecutorOptions::from_config(&config, skills, clock.clone());
//! let executor = SkillExecutor::new(options)?;
//! let runner = Runner::new(RunnerOptions {
//!     store: Store::open(StoreOptions {
//!         runs_dir: config.runs_dir(),
//!         durability: config.durability,
//!         clock: clock.clone(),
//!     })?,
//!     executor: Arc::new(executor),
//!     admission: config.runs,
//!     clock,
//! });
//!
//! let input = JsonObject::parse(r#"{"name": "Ada"}"#)?;
//! let outcome = runner.run(Caller::new(), StartOptions::new("greet", input)).await?;
//! println!("{}: {}", outcome.run_id, outcome.result.output());
//! # Ok(())
//! # }
//! ```
//!
//! # The parts
//!
//! * [`runner`] runs skills and keeps the record. Its [`Executor`](runner::Executor) is a trait, so
//!   that an embedder can carry runs out in another way.
//! * [`ledger`] is the record: written durably, chained line by line, verified offline.
//! * [`registry`] reads skills from disk.
//! * [`executor`] runs one component, once, within bounds.
//! * [`tools`] calls tools of MCP servers and of the host, [`models`] asks language models.
//! * [`limits`], [`capability`], [`call`], [`schema`], [`outcome`], [`config`], [`clock`], [`id`] and
//!   [`telemetry`] hold the words that all of them share.
//!
//! # Features
//!
//! `cli` brings the command line; `server` and `mcp` are named for the HTTP and MCP surfaces and add
//! nothing yet. The library builds without any of them.

#[cfg(feature = "server")]
pub mod api;
pub mod assembly;
pub mod call;
pub mod capability;
pub mod clock;
pub mod config;
pub mod executor;
pub mod id;
pub mod ledger;
pub mod limits;
pub mod models;
pub mod outcome;
pub mod registry;
pub mod runner;
pub mod schema;
pub mod telemetry;
mod tls;
pub mod tools;
pub mod trace;
pub mod trace_context;

#[cfg(feature = "cli")]
pub mod cli;

pub use assembly::Skillrun;
