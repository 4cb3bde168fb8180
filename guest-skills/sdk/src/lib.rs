//! Write skills for skillrun in Rust.
//!
//! A skill is a type that implements [`Skill`], exported once with [`export!`], in a crate of type
//! `cdylib` built for `wasm32-wasip2`:
//!
//! ```ignore
//! use serde::{Deserialize, Serialize};
//! use skillrun_sdk::{Descriptor, Skill, SkillError};
//!
//! struct Greet;
//!
//! #[derive(Deserialize)]
//! struct Input { name: String }
//!
//! #[derive(Serialize)]
//! struct Output { greeting: String }
//!
//! impl Skill for Greet {
//!     type Input = Input;
//!     type Output = Output;
//!
//!     fn describe() -> Descriptor {
//!         Descriptor::new("greet", "1.0.0", "Greets by name")
//!     }
//!
//!     fn run(input: Input) -> Result<Output, SkillError> {
//!         Ok(Output { greeting: format!("Hello, {}!", input.name) })
//!     }
//! }
//!
//! skillrun_sdk::export!(Greet);
//! ```

use std::fmt;
use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "skill",
        pub_export_macro: true,
        default_bindings_module: "skillrun_sdk::bindings",
    });
}

mod error;
pub mod http;
pub mod log;
pub mod recorder;

pub use bindings::skillrun::skill::{approval, handoff, llm, run, tools};
pub use error::SkillError;

/// A skill: one typed input, one typed output.
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
#[derive(Debug, Clone, Default)]
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

/// Parses the input, runs the skill and encodes its result; what [`export!`] calls.
#[doc(hidden)]
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

/// Makes a type that implements [`Skill`] the skill of this component. Once per crate.
#[macro_export]
macro_rules! export {
    ($skill:ty) => {
        const _: () = {
            struct Exported;

            impl $crate::bindings::exports::skillrun::skill::handler::Guest for Exported {
                fn describe() -> $crate::bindings::exports::skillrun::skill::handler::Descriptor {
                    let descriptor = <$skill as $crate::Skill>::describe();
                    $crate::bindings::exports::skillrun::skill::handler::Descriptor {
                        name: descriptor.name,
                        version: descriptor.version,
                        description: descriptor.description,
                        input_schema: descriptor.input_schema,
                        output_schema: descriptor.output_schema,
                    }
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
