//! From a function to a skill.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Ident, ItemFn, Result};

use crate::arguments::Arguments;
use crate::descriptor::{Descriptor, Package, Place};
use crate::signature;

const PLACE: Place = Place {
    attribute: "skill",
    item: "function",
};

/// The function as it was, and beside it a type that implements `Skill` and is exported.
pub(crate) fn expand(
    arguments: TokenStream,
    item: TokenStream,
    package: &Package,
) -> Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    let function: ItemFn = syn::parse2(item.clone())
        .map_err(|error| Error::new(error.span(), "#[skill] stands on a function"))?;
    let (input, outcome) = signature::types(&function)?;
    let Descriptor {
        name,
        version,
        description,
    } = Descriptor::of(arguments, &function.attrs, package, &PLACE)?;
    let (visibility, run) = (&function.vis, &function.sig.ident);
    let skill = Ident::new(&type_name(&name), run.span());
    let docs = format!("The skill `{name}`: what `{run}` does, as the host calls it.");
    let output = quote!(<#outcome as ::skillrun_sdk::expansion::Outcome>::Output);
    Ok(quote! {
        #item

        #[doc = #docs]
        #visibility struct #skill;

        impl ::skillrun_sdk::Skill for #skill {
            type Input = #input;
            type Output = #output;

            fn describe() -> ::skillrun_sdk::Descriptor {
                ::skillrun_sdk::expansion::descriptor::<#input, #output>(
                    #name, #version, #description,
                )
            }

            fn run(
                input: #input,
            ) -> ::core::result::Result<#output, ::skillrun_sdk::SkillError> {
                ::skillrun_sdk::expansion::Outcome::into_result(#run(input))
            }
        }

        ::skillrun_sdk::export!(#skill);
    })
}

/// `fan-out` as `FanOut`, `2d` as `Skill2d`.
fn type_name(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    let name: String = words.collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("Skill{name}");
    }
    name
}

#[cfg(test)]
mod tests;
