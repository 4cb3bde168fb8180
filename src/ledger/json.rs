//! JSON text that is kept as its author spelled it, and plain text that may be long.
//!
//! What a caller or a guest hands over is never parsed into a tree and printed again: key order,
//! number spelling, duplicate keys and escapes stay. Only white space between tokens is dropped, so
//! that a line of a ledger stays one line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::digest::Digest;

/// How a reference to a blob begins. A value of someone else's that begins so is itself stored as a
/// blob, whatever its size; a reference that stands in a line was therefore made by the host.
const REFERENCE_PREFIX: &str = "{\"blob\":";

/// Bytes of a value that are shown in place of one that is stored as a blob.
pub(super) const PREVIEW_BYTES_MAX: usize = 1024;

/// One JSON value as compact text.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Takes over `text`, dropping white space between tokens.
    ///
    /// # Errors
    /// `text` is not exactly one JSON value.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::from_raw(serde_json::from_str(text)?)
    }

    pub(super) fn from_raw(value: &RawValue) -> Result<Self, JsonError> {
        match compact(value.get()) {
            Cow::Borrowed(_) => Ok(Self(value.to_owned())),
            Cow::Owned(text) => Ok(Self(RawValue::from_string(text)?)),
        }
    }

    /// As [`Json::parse`], for bytes as they came.
    ///
    /// # Errors
    /// `bytes` are not UTF-8, or not exactly one JSON value.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, JsonError> {
        Self::parse(std::str::from_utf8(bytes)?)
    }

    /// The JSON text of a value of the host's own.
    ///
    /// # Errors
    /// The value's own serialization fails, or it has map keys that are no strings.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Ok(Self(serde_json::value::to_raw_value(value)?))
    }

    /// `text` as a JSON string.
    pub fn string(text: &str) -> Self {
        // A string always has a JSON form, so the default is never taken.
        Self::from_serialize(text).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value as a tree, which loses what a tree cannot hold: duplicate keys and the spelling of
    /// numbers.
    ///
    /// # Errors
    /// A number out of range, an unpaired surrogate, or nesting deeper than the parser allows.
    pub fn to_value(&self) -> Result<serde_json::Value, JsonError> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    /// The blob that stands for this value in a line, if it was too large to stand there itself.
    pub fn blob(&self) -> Option<BlobRef> {
        self.looks_like_a_reference()
            .then(|| serde_json::from_str(self.as_str()).ok())
            .flatten()
    }

    pub(super) fn looks_like_a_reference(&self) -> bool {
        self.as_str().starts_with(REFERENCE_PREFIX)
    }
}

impl Default for Json {
    /// `null`.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Json {
    /// Two values are equal when they are spelled alike.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({})", preview(self.as_str(), PREVIEW_BYTES_MAX))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    /// Compacts as [`Json::parse`] does. Only `serde_json` can supply a value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        match compact(value.get()) {
            Cow::Borrowed(_) => Ok(Self(value)),
            Cow::Owned(text) => RawValue::from_string(text)
                .map(Self)
                .map_err(de::Error::custom),
        }
    }
}

/// For fields where JSON's `null` is a value and not the absence of one.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Plain text: it stands in a line as a JSON string or, when it is too large for that, as a reference
/// to a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// Where the text is; only readers meet this.
    Blob(BlobRef),
}

impl Text {
    /// The text, or as much of it as stands in the line.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Blob(reference) => &reference.preview,
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Inline(text.to_owned())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inline(text) => serializer.serialize_str(text),
            Self::Blob(reference) => reference.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringOrReference;

        impl<'de> Visitor<'de> for StringOrReference {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a reference to a blob")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
                Ok(text.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                BlobRef::deserialize(MapAccessDeserializer::new(map)).map(Text::Blob)
            }
        }

        deserializer.deserialize_any(StringOrReference)
    }
}

/// What stands in a line for a value that is stored whole beside the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The digest of the stored bytes, which is also their file's name.
    pub blob: Digest,
    /// How many bytes are stored: those of the JSON text of a JSON value, of the UTF-8 text of a text.
    pub bytes: u64,
    /// The beginning of the value, cut at a character boundary.
    pub preview: String,
    /// Always true: the line does not hold the value.
    pub truncated: bool,
}

impl BlobRef {
    pub(super) fn to_value(value: &str, blob: Digest) -> Self {
        Self {
            blob,
            bytes: Self::len(value.as_bytes()),
            preview: preview(value, PREVIEW_BYTES_MAX).to_owned(),
            truncated: true,
        }
    }

    pub(super) fn len(value: &[u8]) -> u64 {
        u64::try_from(value.len()).unwrap_or(u64::MAX)
    }
}

/// The longest beginning of `text` that has at most `bytes_max` bytes and ends between characters.
pub(super) fn preview(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}

/// Drops white space between the tokens of a valid JSON text.
fn compact(json: &str) -> Cow<'_, str> {
    let mut kept: Option<String> = None;
    let mut run_start = 0;
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in json.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            kept.get_or_insert_with(|| String::with_capacity(json.len()))
                .push_str(json.get(run_start..at).unwrap_or_default());
            run_start = at + 1;
        } else {
            in_string = byte == b'"';
        }
    }
    match kept {
        None => Cow::Borrowed(json),
        Some(mut kept) => {
            kept.push_str(json.get(run_start..).unwrap_or_default());
            Cow::Owned(kept)
        }
    }
}

/// Why something is not a JSON value.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The bytes are not text.
    #[error("JSON is not UTF-8")]
    NotUtf8(#[from] std::str::Utf8Error),
    /// The text is not one JSON value, or has no tree form.
    #[error("malformed JSON")]
    Malformed(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::{BlobRef, Digest, Json, Text, compact, preview};

    #[test]
    fn what_a_tree_would_lose_is_kept() {
        let spelled = concat!(
            r#"{"a":1e400,"a":0.10,"z":123456789012345678901234567890,"s":"\ud800 \u2028 \/","#,
            "\"raw\":\"\u{2028}\"}"
        );
        let spaced = spelled.replace(',', " ,\r\n\t").replace(':', " : ");
        assert_eq!(Json::parse(&spaced).unwrap().as_str(), spelled);
        let read: Json = serde_json::from_str(&spaced).unwrap();
        assert_eq!(read.as_str(), spelled);
    }

    #[test]
    fn only_whole_values_are_taken() {
        for bad in ["", " ", "{", "1 2", "nul", "\"\u{1}\"", "[1,]", "\"\\x\""] {
            assert!(Json::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Json::from_slice(b"\"\xff\"").is_err());
    }

    #[test]
    fn deep_nesting_is_text_like_any_other() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(Json::parse(&deep).unwrap().as_str(), deep);
    }

    #[test]
    fn a_reference_is_told_from_a_value() {
        let reference = BlobRef::to_value("hello", Digest::of(b"hello"));
        let text = serde_json::to_string(&reference).unwrap();
        assert_eq!(Json::parse(&text).unwrap().blob(), Some(reference.clone()));
        assert_eq!(
            serde_json::from_str::<Text>(&text).unwrap(),
            Text::Blob(reference)
        );
        assert_eq!(Json::parse(r#"{"blob":"x"}"#).unwrap().blob(), None);
        assert_eq!(Json::string("hello").blob(), None);
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,12}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((".{0,6}", inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn compaction_drops_white_space_and_nothing_else(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let compacted = compact(&pretty);
            prop_assert_eq!(&compacted, &serde_json::to_string(&value).unwrap());
            prop_assert!(matches!(compact(&compacted), Cow::Borrowed(_)));
        }

        #[test]
        fn a_preview_is_the_longest_beginning_that_fits(text in "\\PC{0,40}", max in 0_usize..50) {
            let cut = preview(&text, max);
            prop_assert!(cut.len() <= max && text.starts_with(cut));
            let next = text[cut.len()..].chars().next().map_or(0, char::len_utf8);
            prop_assert!(next == 0 || cut.len() + next > max);
        }
    }
}
