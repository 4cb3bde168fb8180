//! What a schema may cost its reader: a form of it in which every part is paid for before it is looked at.
//!
//! Each subschema becomes `{"if": {COST: ..}, "then": the subschema, "else": false}`, where COST is a keyword of
//! ours that takes units from the budget of the thread and fails once there are none. What remains then
//! is to go back up. References are followed to subschemas of the same document alone, and a schema that
//! comes back to itself without having gone further into the value is refused.

use std::cell::Cell;
use std::collections::HashMap;

use jsonschema::{Keyword, ValidationError};
use regex_syntax::hir::{Hir, HirKind};
use serde_json::{Map, Value, json};

/// The keyword that is paid by.
pub(super) const COST: &str = "skillrun:cost";
/// Units that one check may take; one is the look at one subschema, 0.1 to 1 microseconds. Protects the
/// thread that checks.
const UNITS_MAX: u64 = 500_000;
/// Subschemas of a schema. Protects the stack of whoever compiles it or gives it up.
const SUBSCHEMAS_MAX: usize = 4_096;
/// Subschemas that look at the same value one inside the other. With the depth of values it protects the
/// stack of whoever checks one.
const IN_PLACE_MAX: usize = 32;
/// Subschemas inside each other in one check, those further down in the value included.
const DEPTH_MAX: usize = 512;
/// Positions of all patterns together, where one that repeats counts as often. Protects whoever compiles
/// them.
const POSITIONS_MAX: u64 = 20_000;
/// Positions of a pattern that is written in a way which cannot be counted.
const POSITIONS_UNKNOWN: u64 = 500;
/// Positions for which each pattern counts beside its own when it is compiled.
const POSITIONS_PER_PATTERN: u64 = 50;
/// Bytes of what stands in a subschema, and of a text that is looked at, for one unit.
const BYTES_PER_UNIT: u64 = 64;
/// Steps of a pattern, each one position at one byte, for one unit.
const STEPS_PER_UNIT: u64 = 32;
/// Units of a division, which is carried out in fractions as long as they need to be.
const DIVISION_UNITS: u64 = 100;

/// Keywords that hold a map of names to subschemas, one subschema, or a list of them.
const MAPS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];
const SINGLE: [&str; 10] = [
    "additionalProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose subschemas look at the same value.
const IN_PLACE: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
];
/// Keywords whose cost has no bound that is known before.
const REFUSED: [&str; 6] = [
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Dialects that have `if`, by what their address ends with.
const DIALECTS: [&str; 3] = ["draft-07/schema", "2019-09/schema", "2020-12/schema"];

thread_local! {
    /// What is left to the check that goes on.
    static UNITS: Cell<u64> = const { Cell::new(0) };
}

/// A schema in its bounded form.
pub(super) struct Bounded {
    pub(super) schema: Value,
    /// Subschemas that look at one value, one inside the other.
    pub(super) in_place_max: usize,
}

#[derive(Default)]
struct Places {
    /// From where a subschema was to where it is, and its number.
    known: HashMap<String, (String, usize)>,
    /// By number: those that look at the same value, and a reference.
    in_place: Vec<Vec<usize>>,
    references: Vec<Option<String>>,
    positions: u64,
}

/// A subschema of another: the keyword and the rest of the way to it.
struct Below<'s> {
    keyword: &'s str,
    rest: Option<String>,
    schema: &'s Value,
}

/// The bounded form of a schema.
pub(super) fn bounded(schema: &Value) -> Result<Bounded, String> {
    if let Some(dialect) = schema.get("$schema").and_then(Value::as_str)
        && !DIALECTS
            .iter()
            .any(|known| dialect.trim_end_matches('#').ends_with(known))
    {
        return Err("unknown $schema: expected draft-07, 2019-09 or 2020-12".to_owned());
    }
    let mut places = Places::collect(schema)?;
    places.resolve()?;
    let in_place_max = places.depth()?;
    let mut form = places.wrap(schema, true);
    if let (Some(form), Some(dialect)) = (form.as_object_mut(), schema.get("$schema")) {
        form.insert("$schema".to_owned(), dialect.clone());
    }
    Ok(Bounded {
        schema: form,
        in_place_max,
    })
}

/// Whether a value is too deep to be looked at by so many subschemas at each of its levels.
pub(super) fn is_too_deep(in_place_max: usize, value: &Value) -> bool {
    in_place_max.saturating_mul(levels(value)) > DEPTH_MAX
}

fn levels(value: &Value) -> usize {
    let (mut levels, mut row) = (0, vec![value]);
    while !row.is_empty() {
        levels += 1;
        row = row
            .into_iter()
            .flat_map(|value| match value {
                Value::Array(list) => list.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            })
            .collect();
    }
    levels
}

/// Does something with a budget of its own; tells whether it was enough.
pub(super) fn with_budget<T>(work: impl FnOnce() -> T) -> (T, bool) {
    UNITS.set(UNITS_MAX);
    let done = work();
    (done, UNITS.get() > 0)
}

impl Places {
    fn collect(schema: &Value) -> Result<Self, String> {
        let mut places = Self::default();
        let mut waiting = vec![(schema, String::new(), String::new(), None)];
        while let Some((schema, old, new, above)) = waiting.pop() {
            let number = places.in_place.len();
            if number >= SUBSCHEMAS_MAX {
                return Err(format!("more than {SUBSCHEMAS_MAX} subschemas"));
            }
            places.in_place.push(Vec::new());
            places.references.push(None);
            if let Some(list) = above.and_then(|above: usize| places.in_place.get_mut(above)) {
                list.push(number);
            }
            if let Value::Object(map) = schema {
                if let Some(keyword) = REFUSED.iter().find(|keyword| map.contains_key(**keyword)) {
                    return Err(format!("{keyword} is not supported"));
                }
                if !old.is_empty() && map.contains_key("$id") {
                    return Err("$id is supported at the root alone".to_owned());
                }
                if let Some(reference) = map.get("$ref") {
                    let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
                    let pointer = pointer.map(str::to_owned);
                    let pointer =
                        pointer.ok_or_else(|| format!("$ref {reference}: expected #/.."))?;
                    if let Some(slot) = places.references.last_mut() {
                        *slot = Some(pointer);
                    }
                }
                for below in subschemas(map) {
                    let is_in_place = IN_PLACE.contains(&below.keyword);
                    let way = below.way();
                    let above = is_in_place.then_some(number);
                    let (old, new) = (format!("{old}{way}"), format!("{new}/then{way}"));
                    waiting.push((below.schema, old, new, above));
                }
                let patterns = map.get("patternProperties").and_then(Value::as_object);
                let patterns = patterns.into_iter().flat_map(Map::keys).map(String::as_str);
                let pattern = map.get("pattern").and_then(Value::as_str);
                for pattern in patterns.chain(pattern) {
                    let counted = positions(pattern).saturating_add(POSITIONS_PER_PATTERN);
                    places.positions = places.positions.saturating_add(counted);
                }
            }
            places.known.insert(old, (new, number));
        }
        if places.positions > POSITIONS_MAX {
            return Err(format!("patterns of more than {POSITIONS_MAX} positions"));
        }
        Ok(places)
    }

    /// Follows references.
    fn resolve(&mut self) -> Result<(), String> {
        let both = self.in_place.iter_mut().zip(&self.references);
        for (in_place, reference) in both {
            if let Some(reference) = reference {
                let Some((_, number)) = self.known.get(reference) else {
                    return Err(format!("$ref \"#{reference}\" is no subschema"));
                };
                in_place.push(*number);
            }
        }
        Ok(())
    }

    /// The longest chain of subschemas that look at the same value.
    fn depth(&self) -> Result<usize, String> {
        // Each turn adds one to the chains that go on; a circle would go on for ever.
        let mut ends: Vec<usize> = (0..self.in_place.len()).collect();
        let mut depth = 1;
        loop {
            let next = ends.iter().filter_map(|&number| self.in_place.get(number));
            let mut next: Vec<usize> = next.flatten().copied().collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                return Ok(depth);
            }
            depth += 1;
            if depth > IN_PLACE_MAX {
                return Err(format!(
                    "comes back to itself without going further into the value, or has more than \
                     {IN_PLACE_MAX} subschemas for one value inside each other"
                ));
            }
            ends = next;
        }
    }

    fn wrap(&self, schema: &Value, is_root: bool) -> Value {
        let Value::Object(map) = schema else {
            return schema.clone();
        };
        let mut form = map.clone();
        let mut own_bytes = 0;
        for (keyword, value) in &mut form {
            match (keyword.as_str(), &mut *value) {
                ("$ref", Value::String(reference)) => {
                    let known = self.known.get(reference.trim_start_matches('#'));
                    *reference = known.map_or_else(String::new, |(new, _)| format!("#{new}"));
                }
                (keyword, Value::Object(below)) if MAPS.contains(&keyword) => {
                    for (name, value) in below {
                        own_bytes += name.len() / 8;
                        if is_schema(value) {
                            *value = self.wrap(value, false);
                        }
                    }
                }
                (keyword, Value::Array(list)) if LISTS.contains(&keyword) => {
                    for value in list {
                        *value = self.wrap(value, false);
                    }
                }
                (keyword, value) if SINGLE.contains(&keyword) && is_schema(value) => {
                    *value = self.wrap(value, false);
                }
                (_, value) => own_bytes += value.to_string().len(),
            }
        }
        if is_root {
            form.shift_remove("$id");
        }
        form.shift_remove("$schema");
        let own_bytes = u64::try_from(own_bytes).unwrap_or(u64::MAX);
        let mut base = 1 + own_bytes / BYTES_PER_UNIT;
        if map.contains_key("multipleOf") {
            base += DIVISION_UNITS;
        }
        let of_text = map
            .get("pattern")
            .and_then(Value::as_str)
            .map_or(0, positions);
        let of_keys = map.get("patternProperties").and_then(Value::as_object);
        let of_keys = of_keys.into_iter().flat_map(Map::keys);
        let of_keys: u64 = of_keys.map(|pattern| positions(pattern)).sum();
        let is_unique = map.get("uniqueItems") == Some(&Value::Bool(true));
        json!({
            "if": { COST: [base, of_text, of_keys, is_unique || own_bytes > BYTES_PER_UNIT] },
            "then": form,
            "else": false,
        })
    }
}

fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

impl Below<'_> {
    /// The way to it, as in a JSON pointer.
    fn way(&self) -> String {
        match &self.rest {
            Some(rest) => {
                let rest = rest.replace('~', "~0").replace('/', "~1");
                format!("/{}/{rest}", self.keyword)
            }
            None => format!("/{}", self.keyword),
        }
    }
}

fn subschemas(map: &Map<String, Value>) -> Vec<Below<'_>> {
    let mut all = Vec::new();
    for (keyword, value) in map {
        let keyword = keyword.as_str();
        match value {
            Value::Object(names) if MAPS.contains(&keyword) => {
                let names = names.iter().filter(|(_, value)| is_schema(value));
                all.extend(names.map(|(name, schema)| Below {
                    keyword,
                    rest: Some(name.clone()),
                    schema,
                }));
            }
            Value::Array(list) if LISTS.contains(&keyword) => {
                all.extend(list.iter().enumerate().map(|(index, schema)| Below {
                    keyword,
                    rest: Some(index.to_string()),
                    schema,
                }));
            }
            schema if SINGLE.contains(&keyword) && is_schema(schema) => all.push(Below {
                keyword,
                rest: None,
                schema,
            }),
            _ => {}
        }
    }
    all
}

/// The places in a pattern at which a match can be.
fn positions(pattern: &str) -> u64 {
    fn count(hir: &Hir) -> u64 {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
            HirKind::Literal(literal) => u64::try_from(literal.0.len()).unwrap_or(u64::MAX),
            HirKind::Repetition(repetition) => {
                let times = repetition.max.unwrap_or(repetition.min).max(repetition.min);
                count(&repetition.sub).saturating_mul(u64::from(times.max(1)))
            }
            HirKind::Capture(capture) => count(&capture.sub),
            HirKind::Concat(list) | HirKind::Alternation(list) => {
                list.iter().map(count).fold(0, u64::saturating_add)
            }
        }
    }
    regex_syntax::parse(pattern).map_or(POSITIONS_UNKNOWN, |hir| count(&hir))
}

/// What one look at a value costs.
pub(super) struct Cost {
    base: u64,
    of_text: u64,
    of_keys: u64,
    is_deep: bool,
}

impl Cost {
    /// From the value of the keyword. One that stands where it does not belong costs all.
    pub(super) fn of(value: &Value) -> Self {
        let number = |index: usize| value.get(index).and_then(Value::as_u64);
        Self {
            base: number(0).unwrap_or(UNITS_MAX),
            of_text: number(1).unwrap_or(UNITS_MAX),
            of_keys: number(2).unwrap_or(UNITS_MAX),
            is_deep: value.get(3) == Some(&Value::Bool(true)),
        }
    }

    fn units(&self, value: &Value) -> u64 {
        let bytes = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
        let steps = |bytes: u64, positions: u64| {
            bytes / BYTES_PER_UNIT + bytes.saturating_mul(positions) / STEPS_PER_UNIT
        };
        let deep = if self.is_deep { size(value) / 4 } else { 0 };
        let shallow = match value {
            Value::String(text) => steps(bytes(text), self.of_text),
            Value::Object(map) => map.keys().map(|key| steps(bytes(key), self.of_keys)).fold(
                u64::try_from(map.len()).unwrap_or(u64::MAX) / 8,
                u64::saturating_add,
            ),
            _ => 0,
        };
        self.base.saturating_add(deep).saturating_add(shallow)
    }

    fn pay(&self, value: &Value) -> bool {
        let left = UNITS.get();
        // Nothing is measured that could not be paid.
        let left = match left {
            0 => 0,
            left => left.saturating_sub(self.units(value)),
        };
        UNITS.set(left);
        left > 0
    }
}

/// Values inside a value, itself included.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.iter().map(size).fold(1, u64::saturating_add),
        Value::Object(map) => map.values().map(size).fold(1, u64::saturating_add),
        _ => 1,
    }
}

impl<'i> Keyword<'i> for Cost {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.pay(value) {
            true => Ok(()),
            false => Err(ValidationError::custom("too costly")),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.pay(value)
    }
}
