//! The attributes of `skillrun-sdk` that make a function a skill and a type an agent. Use them through that
//! crate.

mod agent;
mod arguments;
mod descriptor;
mod expand;
mod signature;

use proc_macro::TokenStream;

/// Makes a function the skill of this component: `fn run(input: Input) -> Result<Output, SkillError>`,
/// once per crate, with any name and types. The input has to implement `Deserialize` and `JsonSchema`, the
/// output `Serialize` and `JsonSchema`; the schemas are part of what the skill says about itself.
///
/// | what | comes from | unless `#[skill(..)]` has |
/// |---|---|---|
/// | name | the package's name | `name = ".."` |
/// | version | the package's version | `version = ".."` |
/// | description | the first paragraph of the function's doc comment, or else the package's description | `description = ".."` |
///
/// Beside the function there is then a type with the name of the skill, `FanOut` for `fan-out`, which
/// implements `Skill`; tests can run it as the host does. The function itself stays what it was.
#[proc_macro_attribute]
pub fn skill(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), item.into(), &package())
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

/// Makes a type the agent of this component. It stands on `impl Agent for Chat { .. }`, once per crate, and adds
/// the function `describe` to it. What the agent says of itself comes from where it comes for a
/// [`macro@skill`], with the doc comment above the `impl` in the place of the function's.
#[proc_macro_attribute]
pub fn agent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    agent::expand(arguments.into(), item.into(), &package())
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

/// What Cargo sets while it compiles the author's crate.
fn package() -> descriptor::Package {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    descriptor::Package {
        name: variable("CARGO_PKG_NAME"),
        version: variable("CARGO_PKG_VERSION"),
        description: variable("CARGO_PKG_DESCRIPTION"),
    }
}
