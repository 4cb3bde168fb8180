//! The type of a value, as the host keeps it: a tree within bounds, made once from what the engine says
//! of a component. Reading, writing and describing values all follow it.

use wasmtime::component::Type;

/// Types within each other. Protects the stack, which reading and writing a value go down on, and
/// stays with what JSON adds to a level below the depth that an input may have.
pub(super) const TYPE_DEPTH_MAX: usize = 32;
/// Types, fields, cases and names of one operation. Protects whoever reads its schema.
const OPERATION_PARTS_MAX: usize = 2_048;
/// The same over all operations of a component. Types that are shared in a component are not in a
/// schema, so a few hundred bytes of them could stand for more parts than there is memory.
const COMPONENT_PARTS_MAX: usize = 32_768;
/// Bytes of a name. Protects listings, which show it whole.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// One type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// No value: the payload of a case without one, the result of a function without one.
    Nothing,
    Bool,
    Integer(Integer),
    Float32,
    Float64,
    Char,
    String,
    List(Box<Shape>),
    Record(Vec<Member>),
    Tuple(Vec<Shape>),
    /// A case without a payload has [`Shape::Nothing`].
    Variant(Cases),
    Enum(Vec<String>),
    Option(Box<Shape>),
    Result(Box<Shape>, Box<Shape>),
    Flags(Vec<String>),
}

/// A field, a parameter or a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) shape: Shape,
}

/// The cases of a variant, in the order of their author.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cases {
    pub(super) members: Vec<Member>,
    /// Places in it by name: a guest may answer with many values of a variant with many cases.
    by_name: Vec<usize>,
}

impl Cases {
    pub(super) fn new(members: Vec<Member>) -> Self {
        let mut by_name: Vec<(String, usize)> = members
            .iter()
            .enumerate()
            .map(|(place, case)| (case.name.clone(), place))
            .collect();
        by_name.sort();
        Self {
            members,
            by_name: by_name.into_iter().map(|(_, place)| place).collect(),
        }
    }

    /// The case of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Member> {
        let case = |place: &usize| self.members.get(*place);
        let named = |place: &usize| case(place).map_or("", |case| case.name.as_str());
        let found = self
            .by_name
            .binary_search_by(|place| named(place).cmp(name));
        found
            .ok()
            .and_then(|index| self.by_name.get(index))
            .and_then(case)
    }
}

/// The types of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
}

impl Integer {
    /// The least and the greatest.
    pub(super) fn range(self) -> (i64, u64) {
        match self {
            Self::S8 => (i8::MIN.into(), 0x7f),
            Self::S16 => (i16::MIN.into(), 0x7fff),
            Self::S32 => (i32::MIN.into(), 0x7fff_ffff),
            Self::S64 => (i64::MIN, 0x7fff_ffff_ffff_ffff),
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::U64 => (0, u64::MAX),
        }
    }
}

/// Why a function cannot be called with JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// A handle has no meaning outside of one instance.
    #[error("a resource is among its parameters or results")]
    Resource,
    /// A stream or a future has no end that could be waited for.
    #[error("a stream or a future is among its parameters or results")]
    Stream,
    /// Only the component model's own tools can look into it.
    #[error("an error-context is among its parameters or results")]
    ErrorContext,
    /// A type that the engine knows and does not take yet.
    #[error("a type that has no form in JSON is among its parameters or results")]
    Unknown,
    /// Deeper than [`TYPE_DEPTH_MAX`].
    #[error("its types nest deeper than {TYPE_DEPTH_MAX} levels")]
    Deep,
    /// More than [`OPERATION_PARTS_MAX`].
    #[error("its types have more than {OPERATION_PARTS_MAX} parts")]
    Large,
    /// More than [`COMPONENT_PARTS_MAX`].
    #[error("the types of the component's functions have more than {COMPONENT_PARTS_MAX} parts")]
    ManyLarge,
    /// A name longer than [`NAME_BYTES_MAX`].
    #[error("it or a name in its types is longer than {NAME_BYTES_MAX} bytes")]
    LongName,
    /// A method, a static function or the constructor of a resource.
    #[error("it belongs to a resource")]
    OfResource,
    /// An instance inside an exported one.
    #[error("it is an interface inside an interface")]
    Nested,
    /// The one function by which a component is an HTTP server.
    #[error("it answers HTTP requests, which is not supported")]
    HttpHandler,
}

/// Makes shapes, and counts what they are made of over all functions of a component.
#[derive(Debug, Default)]
pub(super) struct Shaper {
    /// Parts of the operations so far.
    component_parts: usize,
    /// Parts of the operation at hand.
    parts: usize,
}

impl Shaper {
    /// Begins the next operation. What a refused one was made of is not kept, and not counted.
    pub(super) fn begin(&mut self) {
        self.parts = 0;
    }

    /// Ends an operation that is kept.
    pub(super) fn keep(&mut self) {
        self.component_parts = self.component_parts.saturating_add(self.parts);
    }

    /// The shape of a type that `depth` others are around.
    pub(super) fn shape(&mut self, ty: &Type, depth: usize) -> Result<Shape, Refusal> {
        self.count()?;
        if depth >= TYPE_DEPTH_MAX {
            return Err(Refusal::Deep);
        }
        let depth = depth + 1;
        Ok(match ty {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::Float32,
            Type::Float64 => Shape::Float64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => Shape::List(self.boxed(&list.ty(), depth)?),
            Type::Record(record) => {
                let fields = record.fields();
                let fields = fields.map(|field| self.member(field.name, Some(&field.ty), depth));
                Shape::Record(fields.collect::<Result<_, _>>()?)
            }
            Type::Tuple(tuple) => {
                let types = tuple.types().map(|ty| self.shape(&ty, depth));
                Shape::Tuple(types.collect::<Result<_, _>>()?)
            }
            Type::Variant(variant) => {
                let cases = variant.cases();
                let cases = cases.map(|case| self.member(case.name, case.ty.as_ref(), depth));
                Shape::Variant(Cases::new(cases.collect::<Result<_, _>>()?))
            }
            Type::Enum(cases) => Shape::Enum(self.names(cases.names())?),
            Type::Option(option) => Shape::Option(self.boxed(&option.ty(), depth)?),
            Type::Result(result) => {
                let ok = self.payload(result.ok().as_ref(), depth)?;
                let err = self.payload(result.err().as_ref(), depth)?;
                Shape::Result(Box::new(ok), Box::new(err))
            }
            Type::Flags(flags) => Shape::Flags(self.names(flags.names())?),
            Type::Own(_) | Type::Borrow(_) => return Err(Refusal::Resource),
            Type::Future(_) | Type::Stream(_) => return Err(Refusal::Stream),
            Type::ErrorContext => return Err(Refusal::ErrorContext),
            Type::Map(_) | Type::FixedLengthList(_) => return Err(Refusal::Unknown),
        })
    }

    /// A field, a parameter or a case.
    pub(super) fn member(
        &mut self,
        name: &str,
        ty: Option<&Type>,
        depth: usize,
    ) -> Result<Member, Refusal> {
        Ok(Member {
            name: self.name(name)?,
            shape: self.payload(ty, depth)?,
        })
    }

    fn payload(&mut self, ty: Option<&Type>, depth: usize) -> Result<Shape, Refusal> {
        ty.map_or(Ok(Shape::Nothing), |ty| self.shape(ty, depth))
    }

    fn boxed(&mut self, ty: &Type, depth: usize) -> Result<Box<Shape>, Refusal> {
        self.shape(ty, depth).map(Box::new)
    }

    fn names<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Refusal> {
        names.map(|name| self.name(name)).collect()
    }

    fn name(&mut self, name: &str) -> Result<String, Refusal> {
        self.count()?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Refusal::LongName);
        }
        Ok(name.to_owned())
    }

    fn count(&mut self) -> Result<(), Refusal> {
        self.parts = self.parts.saturating_add(1);
        if self.parts > OPERATION_PARTS_MAX {
            return Err(Refusal::Large);
        }
        if self.component_parts.saturating_add(self.parts) > COMPONENT_PARTS_MAX {
            return Err(Refusal::ManyLarge);
        }
        Ok(())
    }
}
