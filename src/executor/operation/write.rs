//! From the values that an operation answered with to JSON text, within the bound on a result.

use std::borrow::Cow;
use std::io::{self, Write};

use wasmtime::component::Val;

use super::shape::{Member, Shape};
use super::text::{self, Step};

/// Why an answer has no JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unwritable {
    /// More bytes than a result may have.
    #[error("the result is larger than it may be")]
    TooLarge,
    /// Not a number, or infinite.
    #[error("at {path}: {number} has no form in JSON")]
    NotFinite {
        /// Where, as a JSON path.
        path: String,
        /// The number.
        number: String,
    },
    /// The engine gave a value of another type than it had announced.
    #[error("at {path}: the value is not of its type")]
    OfAnotherType {
        /// Where, as a JSON path.
        path: String,
    },
}

/// The JSON text of a value, of at most `bytes_max` bytes.
pub(super) fn json(
    value: Option<&Val>,
    shape: &Shape,
    bytes_max: usize,
) -> Result<String, Unwritable> {
    let mut writer = Writer {
        text: Bounded {
            bytes: Vec::new(),
            bytes_max,
        },
        path: Vec::new(),
    };
    writer.value(value, shape)?;
    let path = text::path(&[]);
    String::from_utf8(writer.text.bytes).map_err(|_not_utf8| Unwritable::OfAnotherType { path })
}

/// Bytes up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer<'a> {
    text: Bounded,
    path: Vec<Step<'a>>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, value: Option<&'a Val>, shape: &'a Shape) -> Result<(), Unwritable> {
        match (shape, value) {
            (Shape::Nothing, None) => self.raw("null"),
            (_, Some(value)) => self.some(value, shape),
            (_, None) => Err(self.of_another_type()),
        }
    }

    fn some(&mut self, value: &'a Val, shape: &'a Shape) -> Result<(), Unwritable> {
        match (shape, value) {
            (Shape::Bool, Val::Bool(value)) => self.plain(value),
            (Shape::Integer(_), value) => self.integer(value),
            (Shape::Float32, Val::Float32(value)) if value.is_finite() => self.plain(value),
            (Shape::Float64, Val::Float64(value)) if value.is_finite() => self.plain(value),
            (Shape::Float32, Val::Float32(value)) => Err(self.not_finite(value.to_string())),
            (Shape::Float64, Val::Float64(value)) => Err(self.not_finite(value.to_string())),
            (Shape::Char, Val::Char(value)) => self.plain(value),
            (Shape::String, Val::String(value)) => self.plain(value),
            (Shape::Enum(_), Val::Enum(name)) => self.plain(name),
            (Shape::Flags(_), Val::Flags(names)) => self.plain(names),
            (Shape::List(item), Val::List(values)) => {
                self.items(values.iter().map(|value| (value, &**item)))
            }
            (Shape::Tuple(shapes), Val::Tuple(values)) if shapes.len() == values.len() => {
                self.items(values.iter().zip(shapes))
            }
            (Shape::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
                self.record(fields, values)
            }
            (Shape::Variant(cases), Val::Variant(case, payload)) => {
                let Some(known) = cases.get(case) else {
                    return Err(self.of_another_type());
                };
                match (&known.shape, payload) {
                    (Shape::Nothing, None) => self.plain(case),
                    (shape, payload) => self.tagged(&known.name, payload.as_deref(), shape),
                }
            }
            (Shape::Option(_), Val::Option(None)) => self.raw("null"),
            (Shape::Option(some), Val::Option(Some(value))) => match **some {
                Shape::Option(_) => self.tagged("some", Some(value), some),
                _ => self.some(value, some),
            },
            (Shape::Result(ok, _), Val::Result(Ok(value))) => {
                self.tagged("ok", value.as_deref(), ok)
            }
            (Shape::Result(_, err), Val::Result(Err(value))) => {
                self.tagged("err", value.as_deref(), err)
            }
            _ => Err(self.of_another_type()),
        }
    }

    fn integer(&mut self, value: &Val) -> Result<(), Unwritable> {
        match value {
            Val::S8(value) => self.plain(value),
            Val::S16(value) => self.plain(value),
            Val::S32(value) => self.plain(value),
            Val::S64(value) => self.plain(value),
            Val::U8(value) => self.plain(value),
            Val::U16(value) => self.plain(value),
            Val::U32(value) => self.plain(value),
            Val::U64(value) => self.plain(value),
            _ => Err(self.of_another_type()),
        }
    }

    fn items(
        &mut self,
        items: impl Iterator<Item = (&'a Val, &'a Shape)>,
    ) -> Result<(), Unwritable> {
        self.raw("[")?;
        for (index, (value, shape)) in items.enumerate() {
            if index > 0 {
                self.raw(",")?;
            }
            self.path.push(Step::Index(index));
            self.some(value, shape)?;
            self.path.pop();
        }
        self.raw("]")
    }

    fn record(
        &mut self,
        fields: &'a [Member],
        values: &'a [(String, Val)],
    ) -> Result<(), Unwritable> {
        self.raw("{")?;
        for (index, (field, (_, value))) in fields.iter().zip(values).enumerate() {
            if index > 0 {
                self.raw(",")?;
            }
            self.member(&field.name, Some(value), &field.shape)?;
        }
        self.raw("}")
    }

    fn tagged(
        &mut self,
        key: &'a str,
        value: Option<&'a Val>,
        shape: &'a Shape,
    ) -> Result<(), Unwritable> {
        self.raw("{")?;
        self.member(key, value, shape)?;
        self.raw("}")
    }

    fn member(
        &mut self,
        key: &'a str,
        value: Option<&'a Val>,
        shape: &'a Shape,
    ) -> Result<(), Unwritable> {
        self.plain(key)?;
        self.raw(":")?;
        self.path.push(Step::Key(Cow::Borrowed(key)));
        self.value(value, shape)?;
        self.path.pop();
        Ok(())
    }

    fn plain(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Unwritable> {
        serde_json::to_writer(&mut self.text, value).map_err(|_full| Unwritable::TooLarge)
    }

    fn raw(&mut self, text: &str) -> Result<(), Unwritable> {
        let written = self.text.write_all(text.as_bytes());
        written.map_err(|_full| Unwritable::TooLarge)
    }

    fn not_finite(&self, number: String) -> Unwritable {
        Unwritable::NotFinite {
            path: self.path(),
            number,
        }
    }

    fn of_another_type(&self) -> Unwritable {
        Unwritable::OfAnotherType { path: self.path() }
    }

    fn path(&self) -> String {
        text::path(&self.path)
    }
}
