//! The name of a skill, which is also the name of its folder.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::grammar::{Fault, Part, column, cut};

/// Characters of a skill's name, by the rules of agentskills.io.
const SKILL_NAME_CHARS_MAX: usize = 64;

/// The name of a skill, by the rules of agentskills.io: 1 to 64 of `a-z 0-9 -`, no hyphen at either
/// end and no two in a row. It can stand as the name of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(Box<str>);

impl SkillName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name as near to `text` as the rules allow: letters in lower case, a hyphen for whatever may
    /// not stand, cut at the end. Text that has nothing usable becomes `skill`.
    pub fn sanitised(text: &str) -> Self {
        let mut name = String::new();
        for character in text.chars() {
            let character = character.to_ascii_lowercase();
            if character.is_ascii_lowercase() || character.is_ascii_digit() {
                name.push(character);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
            if name.len() == SKILL_NAME_CHARS_MAX {
                break;
            }
        }
        match name.trim_end_matches('-') {
            "" => Self("skill".into()),
            name => Self(name.into()),
        }
    }
}

impl FromStr for SkillName {
    type Err = SkillNameError;

    fn from_str(text: &str) -> Result<Self, SkillNameError> {
        let part = Part { text, offset: 0 };
        parse(part).map_err(|fault| SkillNameError {
            given: cut(text),
            column: column(text, fault.offset),
            expected: fault.expected,
        })
    }
}

impl TryFrom<String> for SkillName {
    type Error = SkillNameError;

    fn try_from(text: String) -> Result<Self, SkillNameError> {
        text.parse()
    }
}

impl From<SkillName> for String {
    fn from(name: SkillName) -> Self {
        name.0.into()
    }
}

impl Deref for SkillName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SkillName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not the name of a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed skill name {given:?}: expected {expected} at character {column}")]
pub struct SkillNameError {
    /// The text, cut after 80 characters.
    pub given: String,
    /// The first character that is wrong, counted from 1.
    pub column: usize,
    /// What should stand there.
    pub expected: &'static str,
}

/// Reads a name that stands alone or in a capability.
pub(super) fn parse(part: Part<'_>) -> Result<SkillName, Fault> {
    let name = part.made_of("a name of a-z, 0-9 and -", |character| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
    })?;
    if name.len() > SKILL_NAME_CHARS_MAX {
        return Err(part.fault_at(SKILL_NAME_CHARS_MAX, "at most 64 characters"));
    }
    if name.starts_with('-') {
        return Err(part.fault("a letter or digit"));
    }
    if let Some(index) = name.find("--") {
        return Err(part.fault_at(index + 1, "no two hyphens in a row"));
    }
    if name.ends_with('-') {
        return Err(part.fault_at(name.len() - 1, "a letter or digit"));
    }
    Ok(SkillName(name.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SkillName;

    proptest! {
        #[test]
        fn any_text_becomes_a_name_by_the_rules(text in ".{0,100}") {
            let name = SkillName::sanitised(&text);
            prop_assert_eq!(name.as_str().parse(), Ok(name.clone()));
        }
    }

    #[test]
    fn a_name_has_at_most_64_characters() {
        assert!("a".repeat(64).parse::<SkillName>().is_ok());
        let refused = "a".repeat(65).parse::<SkillName>().unwrap_err();
        assert_eq!(
            (refused.column, refused.expected),
            (65, "at most 64 characters")
        );
    }
}
