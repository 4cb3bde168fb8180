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
