//! From JSON text to the values that an operation is called with. Strict: what does not fit the type is
//! refused with its place, and nothing is guessed, cut, rounded to a whole number or left out.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use wasmtime::component::Val;

use super::shape::{Integer, Member, Shape};
use super::text::{self, Step};
use crate::executor::guest_record::cut;

/// Values of one call, fields and elements counted. Protects the host's heap, where each takes some 40
/// bytes beside its text, and two characters of an input are enough for one.
const VALUES_MAX: usize = 500_000;
/// Names that are looked at for the price of a value. Protects the thread that reads: a list of names
/// may have thousands, and be gone through for each value.
const LOOKS_PER_VALUE: usize = 64;
/// Bytes of a value that a message shows.
const FOUND_BYTES_MAX: usize = 60;

/// Why an input does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {path}: expected {expected}, found {found}")]
pub(super) struct Misfit {
    /// Where, as a JSON path.
    pub(super) path: String,
    /// What should stand there.
    pub(super) expected: String,
    /// What stands there.
    pub(super) found: String,
}

/// The arguments in a JSON object, in the order of the parameters.
pub(super) fn arguments(input: &str, parameters: &[Member]) -> Result<Vec<Val>, Misfit> {
    let walk = Walk::default();
    let mut json = serde_json::Deserializer::from_str(input);
    let read = json
        .deserialize_any(Fields {
            fields: parameters,
            walk: &walk,
        })
        .and_then(|fields| json.end().map(|()| fields));
    match read {
        Ok(fields) => Ok(fields.into_iter().map(|(_, value)| value).collect()),
        Err(error) => Err(walk.into_misfit(&error)),
    }
}

/// One value of a shape.
#[cfg(test)]
pub(super) fn value(json: &str, shape: &Shape) -> Result<Val, Misfit> {
    let walk = Walk::default();
    let mut json = serde_json::Deserializer::from_str(json);
    let read = Reader { shape, walk: &walk }.deserialize(&mut json);
    let read = read.and_then(|value| json.end().map(|()| value));
    read.map_err(|error| walk.into_misfit(&error))
}

/// Where in the text reading is, and what was wrong there.
#[derive(Default)]
struct Walk {
    path: RefCell<Vec<Step<'static>>>,
    misfit: RefCell<Option<Misfit>>,
    values: Cell<usize>,
}

impl Walk {
    /// Goes down one step, and up again unless reading failed below: the path then says where.
    fn within<T, E>(
        &self,
        step: Step<'static>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.path.borrow_mut().push(step);
        let value = read()?;
        self.path.borrow_mut().pop();
        Ok(value)
    }

    fn refuse<E: Error>(&self, expected: impl Into<String>, found: impl Into<String>) -> E {
        let misfit = Misfit {
            path: self.path(),
            expected: expected.into(),
            found: found.into(),
        };
        let refused = E::custom(&misfit);
        *self.misfit.borrow_mut() = Some(misfit);
        refused
    }

    fn path(&self) -> String {
        text::path(&self.path.borrow())
    }

    fn count<E: Error>(&self, values: usize) -> Result<(), E> {
        self.values.set(self.values.get().saturating_add(values));
        if self.values.get() > VALUES_MAX {
            return Err(self.refuse(format!("at most {VALUES_MAX} values in all"), "more"));
        }
        Ok(())
    }

    /// Looks for a name in a list, which counts like values as the list is long.
    fn find<'a, T, E: Error>(
        &self,
        list: &'a [T],
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<Option<(usize, &'a T)>, E> {
        let found = list.iter().enumerate().find(|(_, item)| is_wanted(item));
        let looked_at = found.map_or(list.len(), |(index, _)| index);
        self.count(looked_at / LOOKS_PER_VALUE)?;
        Ok(found)
    }

    /// The misfit that was met, or what the parser said of text that is no JSON, or none that a string
    /// can hold.
    fn into_misfit(self, error: &serde_json::Error) -> Misfit {
        let path = self.path();
        self.misfit.into_inner().unwrap_or_else(|| Misfit {
            path,
            expected: "JSON text".to_owned(),
            found: error.to_string(),
        })
    }
}

fn quoted(value: &str) -> String {
    let shown = cut(value, FOUND_BYTES_MAX);
    let quoted = text::json_string(shown);
    if shown.len() < value.len() {
        format!("{quoted}…")
    } else {
        quoted
    }
}

fn shortened(text: &str) -> String {
    let shown = cut(text, FOUND_BYTES_MAX);
    if shown.len() < text.len() {
        format!("{shown}…")
    } else {
        shown.to_owned()
    }
}

/// A number as JSON spells it.
fn spelled(number: f64) -> String {
    serde_json::Value::from(number).to_string()
}

/// Reads one value of a shape.
#[derive(Clone, Copy)]
struct Reader<'a> {
    shape: &'a Shape,
    walk: &'a Walk,
}

impl<'a> Reader<'a> {
    fn of(self, shape: &'a Shape) -> Self {
        Self { shape, ..self }
    }

    fn refuse<E: Error>(self, found: impl Into<String>) -> E {
        self.walk.refuse(text::expected(self.shape), found)
    }

    fn integer<E: Error>(self, value: i128) -> Result<Val, E> {
        let Shape::Integer(integer) = self.shape else {
            return Err(self.refuse(value.to_string()));
        };
        let out_of_range = |_error| self.refuse(value.to_string());
        Ok(match integer {
            Integer::S8 => Val::S8(value.try_into().map_err(out_of_range)?),
            Integer::S16 => Val::S16(value.try_into().map_err(out_of_range)?),
            Integer::S32 => Val::S32(value.try_into().map_err(out_of_range)?),
            Integer::S64 => Val::S64(value.try_into().map_err(out_of_range)?),
            Integer::U8 => Val::U8(value.try_into().map_err(out_of_range)?),
            Integer::U16 => Val::U16(value.try_into().map_err(out_of_range)?),
            Integer::U32 => Val::U32(value.try_into().map_err(out_of_range)?),
            Integer::U64 => Val::U64(value.try_into().map_err(out_of_range)?),
        })
    }

    /// The number of a float that is nearest to what the text says. The parser's own numbers can be off
    /// by the last bit.
    fn float<E: Error>(self, text: &str) -> Result<Val, E> {
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let number = match self.shape {
            Shape::Float32 => text.parse().ok().map(Val::Float32),
            _ => text.parse().ok().map(Val::Float64),
        };
        number
            .filter(|number| is_number && is_finite(number))
            .ok_or_else(|| match text.as_bytes().first() {
                Some(b'{') => self.refuse("an object"),
                Some(b'[') => self.refuse("an array"),
                _ => self.refuse(shortened(text)),
            })
    }
}

fn is_finite(value: &Val) -> bool {
    match value {
        Val::Float32(number) => number.is_finite(),
        Val::Float64(number) => number.is_finite(),
        _ => true,
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Val;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Val, D::Error> {
        self.walk.count(1)?;
        match self.shape {
            Shape::Option(_) => json.deserialize_option(self),
            Shape::Float32 | Shape::Float64 => {
                let text: &RawValue = serde::Deserialize::deserialize(json)?;
                self.float(text.get())
            }
            _ => json.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::expected(self.shape))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Val, E> {
        match self.shape {
            Shape::Bool => Ok(Val::Bool(value)),
            _ => Err(self.refuse(value.to_string())),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Val, E> {
        self.integer(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Val, E> {
        self.integer(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Val, E> {
        /// Beyond it, not every whole number is one of these.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        let is_whole = value.fract() == 0.0 && value.abs() <= EXACT_MAX;
        match format!("{value:.0}").parse() {
            Ok(whole) if is_whole => self.integer(whole),
            _ => Err(self.refuse(spelled(value))),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Val, E> {
        let refuse = || self.refuse(quoted(value));
        match self.shape {
            Shape::String => Ok(Val::String(value.to_owned())),
            Shape::Char => {
                let mut characters = value.chars();
                match (characters.next(), characters.next()) {
                    (Some(character), None) => Ok(Val::Char(character)),
                    _ => Err(refuse()),
                }
            }
            Shape::Enum(names) => match self.walk.find(names, |name| name == value)? {
                Some(_) => Ok(Val::Enum(value.to_owned())),
                None => Err(refuse()),
            },
            Shape::Variant(cases) => match cases.get(value) {
                Some(case) if case.shape == Shape::Nothing => {
                    Ok(Val::Variant(value.to_owned(), None))
                }
                _ => Err(refuse()),
            },
            _ => Err(refuse()),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Val, E> {
        match self.shape {
            Shape::Option(_) => Ok(Val::Option(None)),
            // Where there is nothing, no value is passed on either; see [`payload`].
            Shape::Nothing => Ok(Val::Option(None)),
            _ => Err(self.refuse("null")),
        }
    }

    fn visit_none<E: Error>(self) -> Result<Val, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Val, D::Error> {
        let Shape::Option(some) = self.shape else {
            return json.deserialize_any(self);
        };
        let value = if matches!(**some, Shape::Option(_)) {
            // An object around the inner one tells `some(none)` from `none`.
            let choose = |key: &str| (key == "some").then_some(&**some);
            json.deserialize_map(Tagged {
                reader: self,
                choose,
            })?
            .1
        } else {
            self.of(some).deserialize(json)?
        };
        Ok(Val::Option(Some(Box::new(value))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Val, A::Error> {
        match self.shape {
            Shape::List(item) => {
                let mut values = Vec::new();
                while let Some(value) = self.item(&mut items, values.len(), item)? {
                    values.push(value);
                }
                Ok(Val::List(values))
            }
            Shape::Tuple(shapes) => {
                let mut values = Vec::new();
                for shape in shapes {
                    match self.item(&mut items, values.len(), shape)? {
                        Some(value) => values.push(value),
                        None => return Err(self.refuse(format!("{} values", values.len()))),
                    }
                }
                match items.next_element::<IgnoredAny>()? {
                    None => Ok(Val::Tuple(values)),
                    Some(_) => Err(self.refuse("more values")),
                }
            }
            Shape::Flags(names) => self.flags(items, names),
            _ => Err(self.refuse("an array")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Val, A::Error> {
        let walk = self.walk;
        match self.shape {
            Shape::Record(fields) => Fields { fields, walk }.visit_map(map).map(Val::Record),
            Shape::Variant(cases) => {
                let choose = |key: &str| {
                    let shape = cases.get(key).map(|case| &case.shape);
                    shape.filter(|shape| **shape != Shape::Nothing)
                };
                let (case, value) = Tagged {
                    reader: self,
                    choose,
                }
                .visit_map(map)?;
                Ok(Val::Variant(case, Some(Box::new(value))))
            }
            Shape::Result(ok, err) => {
                let choose = |key: &str| match key {
                    "ok" => Some(&**ok),
                    "err" => Some(&**err),
                    _ => None,
                };
                let (case, value) = Tagged {
                    reader: self,
                    choose,
                }
                .visit_map(map)?;
                Ok(Val::Result(match case.as_str() {
                    "ok" => Ok(payload(ok, value)),
                    _ => Err(payload(err, value)),
                }))
            }
            _ => Err(self.refuse("an object")),
        }
    }
}

/// What was read for a payload; none where the type has none.
fn payload(shape: &Shape, value: Val) -> Option<Box<Val>> {
    (*shape != Shape::Nothing).then(|| Box::new(value))
}

impl Reader<'_> {
    fn item<'de, A: SeqAccess<'de>>(
        self,
        items: &mut A,
        index: usize,
        shape: &Shape,
    ) -> Result<Option<Val>, A::Error> {
        let reader = Reader {
            shape,
            walk: self.walk,
        };
        self.walk
            .within(Step::Index(index), || items.next_element_seed(reader))
    }

    fn flags<'de, A: SeqAccess<'de>>(
        self,
        mut items: A,
        names: &[String],
    ) -> Result<Val, A::Error> {
        let mut flags: Vec<String> = Vec::new();
        let shape = Shape::Enum(names.to_vec());
        while let Some(Val::Enum(flag)) = self.item(&mut items, flags.len(), &shape)? {
            if flags.contains(&flag) {
                return Err(self.refuse(format!("{} twice", quoted(&flag))));
            }
            flags.push(flag);
        }
        Ok(Val::Flags(flags))
    }
}

/// Reads an object with exactly one key, which `choose` knows the shape for.
struct Tagged<'a, C> {
    reader: Reader<'a>,
    choose: C,
}

impl<'a, 'de, C: Fn(&str) -> Option<&'a Shape>> Visitor<'de> for Tagged<'a, C> {
    type Value = (String, Val);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reader.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(self.reader.refuse("an object without a key"));
        };
        let Some(shape) = (self.choose)(&key) else {
            return Err(self.reader.refuse(format!("the key {}", quoted(&key))));
        };
        let value = self
            .reader
            .walk
            .within(Step::Key(Cow::Owned(key.clone())), || {
                map.next_value_seed(self.reader.of(shape))
            })?;
        match map.next_key::<String>()? {
            None => Ok((key, value)),
            Some(_) => Err(self.reader.refuse("an object with more than one key")),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Err(self.reader.refuse(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Err(self.reader.refuse(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Err(self.reader.refuse(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Err(self.reader.refuse(spelled(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Err(self.reader.refuse(quoted(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _items: A) -> Result<Self::Value, A::Error> {
        Err(self.reader.refuse("an array"))
    }
}

/// Reads an object by field names.
struct Fields<'a> {
    fields: &'a [Member],
    walk: &'a Walk,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<(String, Val)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { fields, walk } = self;
        let mut values: Vec<Option<Val>> = fields.iter().map(|_| None).collect();
        while let Some(key) = map.next_key::<String>()? {
            let found = walk.find(fields, |field| field.name == key)?;
            let place = found.and_then(|(index, field)| Some((field, values.get_mut(index)?)));
            let Some((field, place)) = place else {
                let found = format!("the key {}", quoted(&key));
                return Err(walk.refuse(text::object_with(fields), found));
            };
            if place.is_some() {
                let found = format!("{} twice", quoted(&key));
                return Err(walk.refuse("each key once", found));
            }
            let shape = &field.shape;
            *place = Some(walk.within(Step::Key(Cow::Owned(key)), || {
                map.next_value_seed(Reader { shape, walk })
            })?);
        }
        let members = fields.iter().zip(values);
        let filled = members.map(|(field, value)| match (value, &field.shape) {
            (Some(value), _) => Ok((field.name.clone(), value)),
            (None, Shape::Option(_)) => Ok((field.name.clone(), Val::Option(None))),
            (None, _) => {
                let found = format!("none named {}", quoted(&field.name));
                Err(walk.refuse(text::object_with(fields), found))
            }
        });
        filled.collect()
    }
}
