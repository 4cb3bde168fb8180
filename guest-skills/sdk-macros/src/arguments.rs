//! What stands in the parentheses of `#[skill(..)]`.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Lit, LitStr, MetaNameValue, Result, Token};

/// The keys that there are.
const KEYS: &str = "`name`, `version` and `description`";

/// The values that were given.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens);
        let pairs = pairs.map_err(|error| {
            Error::new(error.span(), format!("expected key = \"text\", of {KEYS}"))
        })?;
        let mut arguments = Self::default();
        for pair in pairs {
            let key = pair.path.get_ident().map(ToString::to_string);
            let place = match key.as_deref() {
                Some("name") => &mut arguments.name,
                Some("version") => &mut arguments.version,
                Some("description") => &mut arguments.description,
                _ => {
                    let message = format!("unknown key: there are {KEYS}");
                    return Err(Error::new_spanned(&pair.path, message));
                }
            };
            if place.is_some() {
                return Err(Error::new_spanned(&pair.path, "this key is given twice"));
            }
            *place = Some(text(&pair.value)?);
        }
        Ok(arguments)
    }
}

fn text(value: &Expr) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, "expected a text in quotes")),
    }
}
