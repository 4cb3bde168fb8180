//! The function that may be a skill.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, FnArg, ItemFn, Result, ReturnType, Signature, Type};

/// What a skill's function looks like, as every error says.
const EXPECTED: &str = "a skill is `fn run(input: Input) -> Result<Output, SkillError>`";

/// The types of a function, or why it can be no skill.
pub(crate) fn types(function: &ItemFn) -> Result<(&Type, &Type)> {
    let signature = &function.sig;
    if let Some((tokens, what)) = unfit(signature) {
        return Err(Error::new_spanned(tokens, format!("{what}: {EXPECTED}")));
    }
    let mut inputs = signature.inputs.iter();
    let input = match (inputs.next(), inputs.next()) {
        (Some(FnArg::Typed(input)), None) => &*input.ty,
        (None, _) => {
            let message = format!("an input is missing: {EXPECTED}");
            return Err(Error::new_spanned(&signature.ident, message));
        }
        (Some(FnArg::Receiver(receiver)), _) => {
            let message = format!("a method is no skill: {EXPECTED}");
            return Err(Error::new_spanned(receiver, message));
        }
        (_, Some(second)) => {
            let message = format!("there is one input, an object: {EXPECTED}");
            return Err(Error::new_spanned(second, message));
        }
    };
    match &signature.output {
        ReturnType::Type(_, output) => Ok((input, output)),
        ReturnType::Default => {
            let message = format!("a result is missing: {EXPECTED}");
            Err(Error::new_spanned(&signature.ident, message))
        }
    }
}

/// The part of a signature that no skill can have.
fn unfit(signature: &Signature) -> Option<(TokenStream, &'static str)> {
    let generics = &signature.generics;
    [
        (
            signature.asyncness.to_token_stream(),
            "a skill waits in its host calls and is not async",
        ),
        (signature.safety.to_token_stream(), "a skill is not unsafe"),
        (signature.abi.to_token_stream(), "a skill has no ABI"),
        (
            generics.params.to_token_stream(),
            "a skill has no parameters of types",
        ),
        (
            signature.variadic.to_token_stream(),
            "a skill has one input",
        ),
    ]
    .into_iter()
    .find(|(tokens, _)| !tokens.is_empty())
}
