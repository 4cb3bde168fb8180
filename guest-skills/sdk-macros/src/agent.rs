//! From an implementation of `Agent` to the agent of a component.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, ImplItem, ItemImpl, Result, parse_quote};

use crate::arguments::Arguments;
use crate::descriptor::{Descriptor, Package, Place};

/// Where the attribute stands, as every error says.
const EXPECTED: &str =
    "#[agent] stands on `impl Agent for Chat { .. }`, Chat being a type of yours";

const PLACE: Place = Place {
    attribute: "agent",
    item: "impl block",
};

/// The implementation with `describe` added to it, and the type exported.
pub(crate) fn expand(
    arguments: TokenStream,
    item: TokenStream,
    package: &Package,
) -> Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    let mut block: ItemImpl =
        syn::parse2(item).map_err(|error| Error::new(error.span(), EXPECTED))?;
    if let Some((tokens, what)) = unfit(&block) {
        return Err(Error::new_spanned(tokens, format!("{what}: {EXPECTED}")));
    }
    let Descriptor {
        name,
        version,
        description,
    } = Descriptor::of(arguments, &block.attrs, package, &PLACE)?;
    block.items.push(parse_quote! {
        fn describe() -> ::skillrun_sdk::Descriptor {
            ::skillrun_sdk::Descriptor::new(#name, #version, #description)
        }
    });
    let agent = &block.self_ty;
    Ok(quote! {
        #block

        ::skillrun_sdk::export_agent!(#agent);
    })
}

/// The part of a block that makes it no implementation of an agent.
fn unfit(block: &ItemImpl) -> Option<(TokenStream, &'static str)> {
    let generics = &block.generics;
    if !generics.params.is_empty() {
        let tokens = generics.params.to_token_stream();
        return Some((tokens, "an agent has no parameters of types"));
    }
    if block.trait_.is_none() {
        let tokens = block.self_ty.to_token_stream();
        return Some((tokens, "these are methods of no trait"));
    }
    block.items.iter().find_map(|item| match item {
        ImplItem::Fn(function) if function.sig.ident == "describe" => Some((
            function.sig.ident.to_token_stream(),
            "an agent that describes itself is exported by `export_agent!`",
        )),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
