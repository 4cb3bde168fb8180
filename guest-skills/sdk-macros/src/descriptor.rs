//! What a component says of itself: from the arguments of the attribute, or else from what is there already.

use proc_macro2::Span;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result};

use crate::arguments::Arguments;

/// Characters of a name, as the host has it.
const NAME_CHARS_MAX: usize = 64;

/// What Cargo says about the crate that the attribute is in.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
}

/// The texts of a descriptor.
pub(crate) struct Descriptor {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
}

impl Descriptor {
    /// From what is said in `#[attribute(..)]` and in the comment above the item, which is a `kind`.
    pub(crate) fn of(
        arguments: Arguments,
        attributes: &[Attribute],
        package: &Package,
        place: &Place,
    ) -> Result<Self> {
        let name = name(&arguments, package, place)?;
        let description = description(&arguments, attributes, package, place)?;
        let version = match arguments.version {
            Some(version) => version.value(),
            None => package.version.clone(),
        };
        Ok(Self {
            name,
            version,
            description,
        })
    }
}

/// Which attribute it is and on what it stands, for what is said to authors.
pub(crate) struct Place {
    pub(crate) attribute: &'static str,
    pub(crate) item: &'static str,
}

fn name(arguments: &Arguments, package: &Package, place: &Place) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = |name: &str| {
        name.len() <= NAME_CHARS_MAX
            && name.chars().all(is_plain)
            && !name.split('-').any(str::is_empty)
    };
    let rule = format!(
        "a skill's name has 1 to {NAME_CHARS_MAX} of a-z, 0-9 and single hyphens between them"
    );
    match &arguments.name {
        Some(name) if is_name(&name.value()) => Ok(name.value()),
        Some(name) => Err(Error::new(name.span(), rule)),
        None if is_name(&package.name) => Ok(package.name.clone()),
        None => {
            let (package, attribute) = (&package.name, place.attribute);
            let message = format!(
                "the package's name {package:?} cannot be the skill's: {rule}; say #[{attribute}(name = \"..\")]"
            );
            Err(Error::new(Span::call_site(), message))
        }
    }
}

fn description(
    arguments: &Arguments,
    attributes: &[Attribute],
    package: &Package,
    place: &Place,
) -> Result<String> {
    let (text, span) = match &arguments.description {
        Some(text) => (text.value(), text.span()),
        None => {
            let paragraph = first_paragraph(attributes);
            let text = paragraph.unwrap_or_else(|| package.description.clone());
            (text, Span::call_site())
        }
    };
    if text.trim().is_empty() {
        let Place { attribute, item } = place;
        let message = format!(
            "a description is missing: write a doc comment above the {item}, or say \
             #[{attribute}(description = \"..\")]"
        );
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
