//! Write skills for skillrun in Rust.
//!
//! A skill is one function, marked with [`#[skill]`](macro@skill), in a crate of type `cdylib` that is
//! built for `wasm32-wasip2`. Its input and its result are types of your own; their JSON Schemas are
//! derived.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use skillrun_sdk::{SkillError, log, recorder, skill, tools};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Input {
//!     #[schemars(length(min = 1))]
//!     city: String,
//! }
//!
//! #[derive(Debug, PartialEq, Serialize, JsonSchema)]
//! struct Output {
//!     forecast: String,
//! }
//!
//! /// Tells what the weather will be.
//! #[skill(name = "weather")]
//! fn run(input: Input) -> Result<Output, SkillError> {
//!     let answer = recorder::step("ask", || {
//!         let arguments = serde_json::json!({ "city": input.city });
//!         tools::invoke("weather__forecast", &arguments)?.check()
//!     })?;
//!     log::info("asked");
//!     Ok(Output { forecast: answer.text() })
//! }
//!
//! // What follows belongs into a test; it needs the feature `mock`, as a dev-dependency has it.
//! use skillrun_sdk::mock::Mock;
//!
//! let mock = Mock::new().tool("weather__forecast", |arguments| {
//!     Ok(format!("rain in {}", arguments["city"].as_str().unwrap_or("?")))
//! });
//! let record = mock.run(|| run(Input { city: "Oslo".to_owned() }));
//! assert_eq!(record.result, Ok(Output { forecast: "rain in Oslo".to_owned() }));
//! assert_eq!(record.steps(), [("ask", true)]);
//!
//! // `Weather` is the type behind the function; the host parses the input before it calls.
//! let record = mock.run_skill::<Weather>(&serde_json::json!({ "town": "Oslo" }));
//! assert_eq!(record.error_code(), Some("invalid_input"));
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`mod@agent`], [`session`] | a component that is prompted many times and keeps what it knows, and what it says to whoever watches |
//! | [`tools`], [`llm`], [`approval`], [`handoff`], [`http`] | what the host does for a skill that was granted it; a refusal is a [`HostError`], which `?` turns into a [`SkillError`] |
//! | [`recorder`], [`log`] | what the skill itself puts into the ledger of the run |
//! | [`run`] | the run that the code is part of, and the text of its SKILL.md |
//! | [`schema`] | JSON Schemas of Rust types |
//! | `mock` | a host for tests, with the feature of that name; it changes nothing on wasm |
//!
//! An agent is a type instead of a function, and marked with [`#[agent]`](macro@agent::agent): see [`mod@agent`].
//!
//! Off wasm and without the feature `mock` there is no host, and a call of one panics.

use std::fmt;
use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The world as it is generated from `wit/`. What the rest of the crate offers is made of it; it is here
/// for whoever has to hand over what the types elsewhere refuse, such as text that is no JSON.
#[expect(missing_docs, reason = "documented in wit/")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "skill",
        pub_export_macro: true,
        default_bindings_module: "skillrun_sdk::bindings",
    });
}

/// The same for agents: what their world has beyond that of skills.
#[expect(missing_docs, reason = "documented in wit/")]
pub mod agent_bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "agent",
        with: {
            "skillrun:skill/types@0.1.0": crate::bindings::skillrun::skill::types,
            "skillrun:skill/run@0.1.0": crate::bindings::skillrun::skill::run,
            "skillrun:skill/recorder@0.1.0": crate::bindings::skillrun::skill::recorder,
            "skillrun:skill/log@0.1.0": crate::bindings::skillrun::skill::log,
            "skillrun:skill/tools@0.1.0": crate::bindings::skillrun::skill::tools,
            "skillrun:skill/llm@0.1.0": crate::bindings::skillrun::skill::llm,
            "skillrun:skill/approval@0.1.0": crate::bindings::skillrun::skill::approval,
            "skillrun:skill/handoff@0.1.0": crate::bindings::skillrun::skill::handoff,
        },
        pub_export_macro: true,
        default_bindings_module: "skillrun_sdk::agent_bindings",
    });
}

pub mod agent;
pub mod approval;
mod error;
pub mod handoff;
mod host_error;
pub mod http;
pub mod llm;
pub mod log;
#[cfg(all(feature = "mock", not(target_family = "wasm")))]
pub mod mock;
mod parallel;
pub mod recorder;
pub mod run;
pub mod schema;
pub mod session;
pub mod tools;

#[cfg(not(all(feature = "mock", not(target_family = "wasm"))))]
#[path = "host/component.rs"]
mod host;
#[cfg(all(feature = "mock", not(target_family = "wasm")))]
#[path = "host/mocked.rs"]
mod host;

pub use agent::Agent;
pub use error::{DENIED, REJECTED, SkillError};
pub use host_error::HostError;
pub use skillrun_sdk_macros::skill;

#[doc(hidden)]
pub mod expansion;

/// A skill: one typed input, one typed output. [`#[skill]`](macro@skill) implements it; by hand it is
/// implemented where a skill has to describe itself in another way, and exported with [`export!`].
pub trait Skill {
    /// What the input object is parsed into. Input that does not fit ends the run as a skill error
    /// with the code `invalid_input`, before [`Skill::run`] is called.
    type Input: DeserializeOwned;
    /// What the result is made of.
    type Output: Serialize;

    /// Says what the skill is. No capability is granted here.
    fn describe() -> Descriptor;

    /// Does the work.
    ///
    /// # Errors
    /// The error ends the run and reaches the caller.
    fn run(input: Self::Input) -> Result<Self::Output, SkillError>;
}

/// What a skill says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// 1 to 64 of `a-z`, `0-9` and `-`, the same as the folder's.
    pub name: String,
    /// The skill's own version.
    pub version: String,
    /// One or two sentences for whoever chooses among skills.
    pub description: String,
    /// JSON Schema 2020-12 of the input; empty: any object.
    pub input_schema: String,
    /// JSON Schema 2020-12 of the result; empty: any JSON.
    pub output_schema: String,
}

impl Descriptor {
    /// A descriptor without schemas.
    pub fn new(name: &str, version: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            description: description.to_owned(),
            ..Self::default()
        }
    }

    /// Adds the JSON Schemas of input and result.
    #[must_use]
    pub fn with_schemas(mut self, input: &str, output: &str) -> Self {
        input.clone_into(&mut self.input_schema);
        output.clone_into(&mut self.output_schema);
        self
    }
}

impl From<Descriptor> for bindings::skillrun::skill::types::Descriptor {
    fn from(descriptor: Descriptor) -> Self {
        Self {
            name: descriptor.name,
            version: descriptor.version,
            description: descriptor.description,
            input_schema: descriptor.input_schema,
            output_schema: descriptor.output_schema,
        }
    }
}

/// Parses the input, runs the skill and encodes its result; what [`export!`] calls.
///
/// # Errors
/// The input does not fit (`invalid_input`), the result cannot be encoded (`invalid_output`), or the
/// skill's own.
pub fn run_json<S: Skill>(input: &str) -> Result<String, SkillError> {
    let input = serde_json::from_str(input).map_err(|error| invalid_input(&error))?;
    let output = S::run(input);
    // A last line without a break stays in the buffer otherwise, for no exit of a process flushes it.
    // Where nobody reads it there is nothing to be told.
    let _unread = std::io::stdout().flush();
    let output = output?;
    serde_json::to_string(&output).map_err(|error| {
        SkillError::new(format!("cannot encode the result: {error}")).with_code("invalid_output")
    })
}

fn invalid_input(error: &impl fmt::Display) -> SkillError {
    SkillError::new(format!("the input does not fit: {error}")).with_code("invalid_input")
}

/// Makes a type that implements [`Skill`] the skill of this component. Once per crate; off wasm nothing
/// is exported. [`#[skill]`](macro@skill) does it by itself.
#[macro_export]
macro_rules! export {
    ($skill:ty) => {
        // Off wasm this is the only use of a skill that has no tests.
        #[cfg(not(target_family = "wasm"))]
        const _: (
            fn() -> $crate::Descriptor,
            fn(&str) -> Result<String, $crate::SkillError>,
        ) = (
            <$skill as $crate::Skill>::describe,
            $crate::run_json::<$skill>,
        );

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            impl $crate::bindings::exports::skillrun::skill::handler::Guest for Exported {
                fn describe() -> $crate::bindings::exports::skillrun::skill::handler::Descriptor {
                    <$skill as $crate::Skill>::describe().into()
                }

                fn run(
                    input: String,
                ) -> Result<String, $crate::bindings::exports::skillrun::skill::handler::SkillError>
                {
                    $crate::run_json::<$skill>(&input).map_err(Into::into)
                }
            }

    $crate::bindings::export!(Exported with_types_in $crate::bindings);
        };
    };
}
