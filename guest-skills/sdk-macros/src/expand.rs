//! From a function to a skill.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, Error, Expr, ExprLit, Ident, ItemFn, Lit, LitStr, Meta, Result};

use crate::arguments::Arguments;
use crate::signature;

/// Characters of a name, as the host has it.
const NAME_CHARS_MAX: usize = 64;

/// What Cargo says about the crate that the function is in.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
}

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
    let name = name(arguments.name, package)?;
    let description = description(arguments.description, &function, package)?;
    let version = match arguments.version {
        Some(version) => version.value(),
        None => package.version.clone(),
    };
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

fn name(given: Option<LitStr>, package: &Package) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = |name: &str| {
        name.len() <= NAME_CHARS_MAX
            && name.chars().all(is_plain)
            && !name.split('-').any(str::is_empty)
    };
    let rule = format!(
        "a skill's name has 1 to {NAME_CHARS_MAX} of a-z, 0-9 and single hyphens between them"
    );
    match given {
        Some(name) if is_name(&name.value()) => Ok(name.value()),
        Some(name) => Err(Error::new(name.span(), rule)),
        None if is_name(&package.name) => Ok(package.name.clone()),
        None => {
            let package = &package.name;
            let message = format!(
                "the package's name {package:?} cannot be the skill's: {rule}; say #[skill(name = \"..\")]"
            );
            Err(Error::new(Span::call_site(), message))
        }
    }
}

fn description(given: Option<LitStr>, function: &ItemFn, package: &Package) -> Result<String> {
    let (text, span) = match given {
        Some(text) => (text.value(), text.span()),
        None => {
            let paragraph = first_paragraph(&function.attrs);
            let text = paragraph.unwrap_or_else(|| package.description.clone());
            (text, Span::call_site())
        }
    };
    if text.trim().is_empty() {
        let message = "a description is missing: write a doc comment above the function, or say \
                       #[skill(description = \"..\")]";
        return Err(Error::new(span, message));
    }
    Ok(text)
}

/// The doc comment up to its first empty line, as one line.
fn first_paragraph(attributes: &[Attribute]) -> Option<String> {
    let lines: Vec<String> = attributes
        .iter()
        .filter_map(doc)
        .flat_map(|text| {
            let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
            // An empty comment line has no line of text, and ends the paragraph nevertheless.
            if lines.is_empty() {
                vec![String::new()]
            } else {
                lines
            }
        })
        .skip_while(String::is_empty)
        .take_while(|line| !line.is_empty())
        .collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

fn doc(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
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
