//! The part of YAML that front matter needs: texts, lists and mappings, each with its place.
//!
//! Anchors, aliases and tags have no use in so small a text and are refused, which also leaves nothing
//! that could grow when it is read.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::finding::{Position, Problem};

/// Levels of lists and mappings within each other; protects the stack.
const NESTING_MAX: usize = 8;

/// A value and where it begins.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// Any scalar, as it is written.
    Text {
        text: String,
        /// Whether it is nothing, `~` or `null`, without quotes.
        is_null: bool,
        /// Whether it stands there without quotes, so that it may be a number.
        is_plain: bool,
    },
    List(Vec<Node>),
    /// In the order of the file, duplicates included.
    Mapping(Vec<(Node, Node)>),
}

impl Value {
    /// What it is, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "a text",
            Self::List(_) => "a list",
            Self::Mapping(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value as JSON, by the core schema of YAML 1.2: what is not quoted and looks like a number, a truth value or
    /// nothing is that. Of two entries with one key the later stays.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text { is_null: true, .. } => serde_json::Value::Null,
            Value::Text { text, is_plain, .. } => {
                let number = is_plain.then(|| plain(text)).flatten();
                number.unwrap_or_else(|| text.as_str().into())
            }
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Mapping(entries) => {
                let entry = |(key, value): &(Self, Self)| match key.to_json() {
                    serde_json::Value::String(key) => (key, value.to_json()),
                    other => (other.to_string(), value.to_json()),
                };
                serde_json::Value::Object(entries.iter().map(entry).collect())
            }
        }
    }
}

/// What a text without quotes stands for, if not for itself. What JSON has no number for is a text.
fn plain(text: &str) -> Option<serde_json::Value> {
    match text {
        "true" | "True" | "TRUE" => return Some(true.into()),
        "false" | "False" | "FALSE" => return Some(false.into()),
        _ => {}
    }
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix)?;
        let is_digits = digits.chars().all(|digit| digit.is_digit(radix));
        is_digits.then(|| u64::from_str_radix(digits, radix).ok())?
    };
    if let Some(number) = radix("0o", 8).or_else(|| radix("0x", 16)) {
        return Some(number.into());
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    let looks_so = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let number = text.bytes().all(looks_so).then(|| text.parse().ok())??;
    serde_json::Number::from_f64(number).map(Into::into)
}

/// Why the text is refused; reading ends there.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) position: Position,
    pub(super) problem: Problem,
}

/// Reads one document. `lines_before` is added to every line; an empty document is an empty mapping.
pub(super) fn parse(text: &str, lines_before: usize) -> Result<Node, Fault> {
    let mut events = Events {
        parser: Parser::new_from_str(text),
        lines_before,
        last: Position {
            line: lines_before + 1,
            column: 1,
        },
    };
    let root = loop {
        let (event, position) = events.next()?;
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
            Event::StreamEnd => {
                return Ok(Node {
                    position,
                    value: Value::Mapping(Vec::new()),
                });
            }
            event => break node(&mut events, event, position, 0)?,
        }
    };
    loop {
        let (event, position) = events.next()?;
        match event {
            Event::Nothing | Event::DocumentEnd => {}
            Event::StreamEnd => return Ok(root),
            _ => return Err(refused("a second document", position)),
        }
    }
}

struct Events<'t> {
    parser: Parser<'t, StrInput<'t>>,
    lines_before: usize,
    last: Position,
}

impl<'t> Events<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Position), Fault> {
        let syntax = |position, message: &str| Fault {
            position,
            problem: Problem::Syntax {
                language: "YAML",
                message: message.to_owned(),
            },
        };
        match self.parser.next() {
            Some(Ok((event, span))) => {
                self.last = self.position(&span.start);
                Ok((event, self.last))
            }
            Some(Err(error)) => Err(syntax(self.position(error.marker()), error.info())),
            None => Err(syntax(self.last, "unexpected end")),
        }
    }

    fn position(&self, marker: &Marker) -> Position {
        Position {
            line: marker.line() + self.lines_before,
            column: marker.col() + 1,
        }
    }
}

fn refused(construct: &'static str, position: Position) -> Fault {
    Fault {
        position,
        problem: Problem::RefusedYaml { construct },
    }
}

fn node(
    events: &mut Events<'_>,
    event: Event<'_>,
    position: Position,
    depth: usize,
) -> Result<Node, Fault> {
    if depth > NESTING_MAX {
        return Err(refused("deep nesting", position));
    }
    let value = match event {
        Event::Alias(_) => return Err(refused("an alias", position)),
        Event::Scalar(_, _, 1.., _)
        | Event::SequenceStart(1.., _)
        | Event::MappingStart(1.., _) => {
            return Err(refused("an anchor", position));
        }
        Event::Scalar(_, _, _, Some(_))
        | Event::SequenceStart(_, Some(_))
        | Event::MappingStart(_, Some(_)) => return Err(refused("a tag", position)),
        Event::Scalar(text, style, ..) => Value::Text {
            is_null: style == ScalarStyle::Plain
                && matches!(&*text, "" | "~" | "null" | "Null" | "NULL"),
            is_plain: style == ScalarStyle::Plain,
            text: text.into_owned(),
        },
        Event::SequenceStart(..) => Value::List(list(events, depth)?),
        Event::MappingStart(..) => Value::Mapping(mapping(events, depth)?),
        _ => return Err(refused("an incomplete value", position)),
    };
    Ok(Node { position, value })
}

fn list(events: &mut Events<'_>, depth: usize) -> Result<Vec<Node>, Fault> {
    let mut items = Vec::new();
    loop {
        match events.next()? {
            (Event::SequenceEnd, _) => return Ok(items),
            (event, position) => items.push(node(events, event, position, depth + 1)?),
        }
    }
}

fn mapping(events: &mut Events<'_>, depth: usize) -> Result<Vec<(Node, Node)>, Fault> {
    let mut entries = Vec::new();
    loop {
        let key = match events.next()? {
            (Event::MappingEnd, _) => return Ok(entries),
            (event, position) => node(events, event, position, depth + 1)?,
        };
        let (event, position) = events.next()?;
        entries.push((key, node(events, event, position, depth + 1)?));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn what_is_not_quoted_is_what_it_looks_like() {
        let text = "a: 1.0\nb: '1.0'\nc: [0o17, 0x1f, -3, +4, 1e3, .5]\nd: ~\ne: True\nf: 2026-01-02\n\
                    g: .inf\nh: nan\ni: {1: no}\nj: |\n  12\nk: 0x\nl: 1-2\n";
        let expected = json!({
            "a": 1.0, "b": "1.0", "c": [15, 31, -3, 4, 1000.0, 0.5], "d": null, "e": true,
            "f": "2026-01-02", "g": ".inf", "h": "nan", "i": { "1": "no" }, "j": "12\n", "k": "0x",
            "l": "1-2",
        });
        assert_eq!(parse(text, 0).unwrap().to_json(), expected);
    }
}
