//! What implementations become, and what is said of those that cannot be agents.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand;
use crate::descriptor::Package;

fn package(name: &str, description: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        description: description.to_owned(),
    }
}

fn expanded(arguments: TokenStream, item: TokenStream) -> String {
    let expanded = expand(arguments, item, &package("small-talk", "Of the package")).unwrap();
    // It is whole items.
    syn::parse2::<syn::File>(expanded.clone()).unwrap();
    expanded.to_string()
}

#[track_caller]
fn assert_has(text: &str, tokens: TokenStream) {
    assert!(text.contains(&tokens.to_string()), "{tokens}\nin\n{text}");
}

#[test]
fn an_implementation_is_told_to_describe_itself_and_is_exported() {
    let block = quote! {
        impl skillrun_sdk::Agent for talk::Talker {
            fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> { self.say(text) }
        }
    };
    let text = expanded(quote!(), block);
    assert_has(
        &text,
        quote!(
            fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> {
                self.say(text)
            }
        ),
    );
    assert_has(&text, quote!(fn describe() -> ::skillrun_sdk::Descriptor));
    assert_has(&text, quote!("small-talk", "1.2.3", "Of the package"));
    assert_has(&text, quote!(::skillrun_sdk::export_agent!(talk::Talker);));
}

#[test]
fn a_doc_comment_describes_and_an_argument_is_preferred() {
    let block = quote! {
        /// Talks about
        /// the weather.
        ///
        /// At length.
        impl Agent for Talker {}
    };
    let text = expanded(quote!(), block.clone());
    assert_has(
        &text,
        quote!("small-talk", "1.2.3", "Talks about the weather."),
    );
    let arguments = quote!(name = "other", version = "2", description = "Said");
    assert_has(&expanded(arguments, block), quote!("other", "2", "Said"));
}

#[test]
fn what_cannot_be_an_agent_is_told_why() {
    for (arguments, item, message) in [
        (
            quote!(),
            quote!(
                struct Talker;
            ),
            "#[agent] stands on `impl Agent for Chat",
        ),
        (
            quote!(),
            quote!(
                impl Talker {}
            ),
            "these are methods of no trait",
        ),
        (
            quote!(),
            quote!(
                impl<T> Agent for Talker<T> {}
            ),
            "no parameters of types",
        ),
        (
            quote!(),
            quote!(
                impl Agent for Talker {
                    fn describe() -> Descriptor {
                        todo()
                    }
                }
            ),
            "is exported by `export_agent!`",
        ),
        (
            quote!(description = ""),
            quote!(
                impl Agent for Talker {}
            ),
            "write a doc comment above the impl block, or say #[agent(description",
        ),
        (
            quote!(title = "x"),
            quote!(
                impl Agent for Talker {}
            ),
            "unknown key",
        ),
    ] {
        let error = expand(arguments, item, &package("small-talk", "x")).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    let block = quote!(
        impl Agent for Talker {}
    );
    let error = expand(quote!(), block, &package("small_talk", "x")).unwrap_err();
    assert!(
        error.to_string().ends_with("say #[agent(name = \"..\")]"),
        "{error}"
    );
}
