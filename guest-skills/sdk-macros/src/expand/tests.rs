//! What functions become, and what is said of those that cannot be skills.

use proc_macro2::TokenStream;
use quote::quote;

use super::{expand, type_name};
use crate::descriptor::Package;

fn package(name: &str, description: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        description: description.to_owned(),
    }
}

fn expanded(arguments: TokenStream, item: TokenStream) -> String {
    let expanded = expand(arguments, item, &package("fan-out", "Of the package")).unwrap();
    // It is whole items.
    syn::parse2::<syn::File>(expanded.clone()).unwrap();
    expanded.to_string()
}

#[track_caller]
fn assert_has(text: &str, tokens: TokenStream) {
    assert!(text.contains(&tokens.to_string()), "{tokens}\nin\n{text}");
}

#[track_caller]
fn assert_refused(arguments: TokenStream, item: TokenStream, message: &str) {
    let error = expand(arguments, item, &package("fan-out", "Of the package")).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn a_function_stays_and_a_skill_stands_beside_it() {
    let function = quote! {
        pub fn call(Input { a, b }: Input) -> Result<Vec<u8>, SkillError> { Ok(vec![a, b]) }
    };
    let text = expanded(quote!(), function.clone());
    assert_has(&text, function);
    assert_has(
        &text,
        quote!(
            pub struct FanOut;
        ),
    );
    assert_has(&text, quote!(impl ::skillrun_sdk::Skill for FanOut));
    assert_has(
        &text,
        quote!(
            type Input = Input;
        ),
    );
    assert_has(
        &text,
        quote!(<Result<Vec<u8>, SkillError> as ::skillrun_sdk::expansion::Outcome>::Output),
    );
    assert_has(&text, quote!("fan-out", "1.2.3", "Of the package",));
    assert_has(&text, quote!(into_result(call(input))));
    assert_has(&text, quote!(::skillrun_sdk::export!(FanOut);));
}

#[test]
fn a_doc_comment_describes_and_an_argument_is_preferred() {
    let function = quote! {
        /// Calls a tool
        /// many times.
        ///
        /// # Errors
        /// Some.
        fn run(input: Input) -> Result<Output, SkillError> { todo() }
    };
    let text = expanded(quote!(), function.clone());
    assert_has(
        &text,
        quote!("fan-out", "1.2.3", "Calls a tool many times.",),
    );
    let text = expanded(
        quote!(name = "other", version = "2", description = "Said"),
        function,
    );
    assert_has(&text, quote!("other", "2", "Said",));
    assert_has(
        &text,
        quote!(
            struct Other;
        ),
    );
}

#[test]
fn what_cannot_be_a_skill_is_told_why() {
    for (item, message) in [
        (
            quote!(
                struct Run;
            ),
            "#[skill] stands on a function",
        ),
        (
            quote!(
                async fn run(i: I) -> Result<O, E> {}
            ),
            "a skill waits in its host calls and is not async: a skill is `fn run(input: Input)",
        ),
        (
            "unsafe fn run(i: I) -> R {}".parse().unwrap(),
            "a skill is not unsafe",
        ),
        (
            quote!(
                extern "C" fn run(i: I) -> R {}
            ),
            "a skill has no ABI",
        ),
        (
            quote!(
                fn run<T>(i: T) -> R {}
            ),
            "no parameters of types",
        ),
        (
            quote!(
                fn run() -> R {}
            ),
            "an input is missing",
        ),
        (
            quote!(
                fn run(&self) -> R {}
            ),
            "a method is no skill",
        ),
        (
            quote!(
                fn run(a: A, b: B) -> R {}
            ),
            "there is one input",
        ),
        (
            quote!(
                fn run(i: I) {}
            ),
            "a result is missing",
        ),
    ] {
        assert_refused(quote!(), item, message);
    }
}

#[test]
fn arguments_are_known_texts() {
    let function = quote!(
        fn run(i: I) -> R {}
    );
    for (arguments, message) in [
        (quote!(title = "x"), "unknown key: there are `name`"),
        (quote!(name = 1), "expected a text in quotes"),
        (quote!(name = "a", name = "b"), "this key is given twice"),
        (quote!(name), "expected key = \"text\""),
        (quote!(name = "Fan Out"), "a skill's name has 1 to 64"),
        (quote!(name = "a--b"), "single hyphens"),
        (quote!(name = ""), "single hyphens"),
        (quote!(description = " "), "a description is missing"),
    ] {
        assert_refused(arguments, function.clone(), message);
    }
}

#[test]
fn a_package_that_is_no_skill_needs_arguments() {
    let function = quote!(
        fn run(i: I) -> R {}
    );
    let refused = |package: Package, arguments: TokenStream| {
        expand(arguments, function.clone(), &package)
            .unwrap_err()
            .to_string()
    };
    let message = refused(package("my_skill", "x"), quote!());
    assert!(
        message.starts_with("the package's name \"my_skill\" cannot be the skill's"),
        "{message}"
    );
    let message = refused(package("my_skill", ""), quote!(name = "my-skill"));
    assert!(message.starts_with("a description is missing"), "{message}");
}

#[test]
fn a_name_becomes_a_type() {
    for (name, expected) in [
        ("greet", "Greet"),
        ("fan-out", "FanOut"),
        ("a-2d", "A2d"),
        ("2d", "Skill2d"),
    ] {
        assert_eq!(type_name(name), expected);
    }
}
