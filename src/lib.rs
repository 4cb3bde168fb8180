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
//!
//! use skillrun::Skillrun;
//! use skillrun::config::Config;
//! use skillrun::runner::{Caller, JsonObject, StartOptions};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Skillrun::builder(Config::load(Path::new("/var/lib/skillrun"))?).build()?;
//!
//! let input = JsonObject::parse(r#"{"name": "Ada"}"#)?;
//! let outcome = host.runner().run(Caller::new(), StartOptions::new("greet", input)).await?;
//! println!("{}: {}", outcome.run_id, outcome.result.output());
//!
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The builder takes a store, skills, tools, models or an executor of your own in place of those that the
//! configuration names. The folder `examples/` of the sources has whole programs: the smallest embedding, tools and
//! a model of one's own, an executor of one's own, and a daemon with the HTTP surface. A process that lives on calls
//! [`Runner::recover`](runner::Runner::recover) when it starts, so that runs which were cut off go on.
//!
//! # The parts
//!
//! * [`assembly`] puts the parts together, from a configuration.
//! * [`runner`] runs skills and keeps the record. Its [`Executor`](runner::Executor) is a trait, so
//!   that an embedder can carry runs out in another way.
//! * [`runtime`] launches agents, prompts them again, stops and shows them.
//! * [`ledger`] is the record: written durably, chained line by line, verified offline.
//! * [`registry`] reads skills from disk.
//! * [`executor`] runs one component, once, within bounds.
//! * [`tools`] calls tools of MCP servers and of the host, [`models`] asks language models.
//! * [`limits`], [`capability`], [`call`], [`schema`], [`outcome`], [`config`], [`clock`], [`id`] and
//!   [`telemetry`] hold the words that all of them share.
//!
//! # Features
//!
//! `cli` brings the command line, `server` the HTTP surface, `api`. `mcp` is named for the MCP surface and adds
//! nothing yet. The library builds without any of them.

#[cfg(feature = "server")]
pub mod api;
pub mod assembly;
pub mod call;
pub mod capability;
pub mod clock;
pub mod config;
pub mod executor;
pub mod histogram;
pub mod id;
mod json_lines;
pub mod ledger;
pub mod limits;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod models;
pub mod outcome;
pub mod registry;
pub mod runner;
pub mod runtime;
pub mod schema;
pub mod telemetry;
mod tls;
pub mod tools;
pub mod trace;
pub mod trace_context;

#[cfg(feature = "cli")]
pub mod cli;

pub use assembly::Skillrun;
