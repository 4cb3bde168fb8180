//! The attribute of `skillrun-sdk` that makes a function a skill. Use it through that crate.

mod arguments;
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
    let package = expand::Package {
        name: std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
        version: std::env::var("CARGO_PKG_VERSION").unwrap_or_default(),
        description: std::env::var("CARGO_PKG_DESCRIPTION").unwrap_or_default(),
    };
    expand::expand(arguments.into(), item.into(), &package)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
