//! Finds the words that a text uses most and, where there is a dictionary, says what the first one means.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use skillrun_sdk::log::{self, Level};
use skillrun_sdk::{HostError, SkillError, recorder, skill, tools};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1, max = 100_000))]
    text: String,
    /// How many words are wanted.
    #[serde(default = "top_default")]
    #[schemars(range(min = 1, max = 100))]
    top: u16,
}

fn top_default() -> u16 {
    3
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Output {
    words: Vec<Word>,
    /// What the first word means; null where nobody can say.
    definition: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Word {
    word: String,
    count: u32,
}

/// Finds the words that a text uses most.
#[skill(name = "new-skill")]
fn top_words(input: Input) -> Result<Output, SkillError> {
    let words = recorder::step("count", || Ok::<_, SkillError>(count(&input.text, input.top)))?;
    let Some(first) = words.first() else {
        return Err(SkillError::new("the text has no words").with_code("no_words"));
    };
    let fields = [("first", first.word.as_str())];
    log::write(Level::Info, "counted the words", &fields);
    let definition = define(&first.word)?;
    Ok(Output { words, definition })
}

/// The words that are used most, the most frequent first.
fn count(text: &str, top: u16) -> Vec<Word> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut words: Vec<Word> = counts
        .into_iter()
        .map(|(word, count)| Word { word, count })
        .collect();
    // Those that are used equally often stay in the order of the alphabet.
    words.sort_by_key(|word| std::cmp::Reverse(word.count));
    words.truncate(top.into());
    words
}

/// What a word means. The skill is of use without it, so neither a dictionary that was not granted nor
/// one that fails stops it.
fn define(word: &str) -> Result<Option<String>, SkillError> {
    match tools::invoke("dictionary__define", &json!({ "word": word })) {
        Ok(answer) if !answer.is_error => Ok(Some(answer.text())),
        Ok(answer) => {
            log::write(Level::Warn, "no definition", &[("error", &answer.text())]);
            Ok(None)
        }
        Err(HostError::Denied(_) | HostError::NotFound(_) | HostError::Failed(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillrun_sdk::HostError;
    use skillrun_sdk::mock::Mock;
    use skillrun_sdk::tools::Answer;

    use super::NewSkill;

    #[test]
    fn it_counts_and_defines() {
        let mock = Mock::new().tool("dictionary__define", |arguments| {
            Ok(format!("what {} means", arguments["word"]))
        });
        let record = mock.run_skill::<NewSkill>(&json!({ "text": "to be or not to be", "top": 2 }));
        let words = json!([{ "word": "be", "count": 2 }, { "word": "to", "count": 2 }]);
        let expected = json!({ "words": words, "definition": "what \"be\" means" });
        assert_eq!(record.result, Ok(expected));
        assert_eq!(record.steps(), [("count", true)]);
        assert_eq!(record.log_messages(), ["counted the words"]);
    }

    #[test]
    fn it_does_without_a_dictionary() {
        let mock = Mock::new().tool("dictionary__define", |_arguments| {
            Err::<Answer, _>(HostError::Denied("tool:dictionary__define".to_owned()))
        });
        let record = mock.run_skill::<NewSkill>(&json!({ "text": "Hello", "top": 1 }));
        let words = json!([{ "word": "hello", "count": 1 }]);
        assert_eq!(record.result, Ok(json!({ "words": words, "definition": null })));
    }

    #[test]
    fn a_text_without_words_is_an_error() {
        let record = Mock::new().run_skill::<NewSkill>(&json!({ "text": "?!" }));
        assert_eq!(record.error_code(), Some("no_words"));
    }
}
