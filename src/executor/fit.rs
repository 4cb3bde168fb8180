//! Whether a component can be compiled and fits the pool, asked before it is compiled, so that the answer
//! can name what it needs, what there is, and the key that changes it.

use wasmparser::{FunctionBody, Operator, Parser, Payload, TableType};

use super::engine_config::PoolSize;
use super::load_error::LoadError;
use crate::limits::LimitKey;

/// Bytes of a page of memory, unless a memory says otherwise.
const PAGE_BYTES_LOG2: u32 = 16;

// A compilation cannot be stopped, so what would make one endless or fill the host's memory is refused
// before it begins. The bounds protect whoever waits for another component's compilation, and the host.
// Interpreters of Python and JavaScript need less than half of each.

/// Functions of all modules. The compiler holds some KiB for each, however short it is.
const FUNCTIONS_MAX: u64 = 250_000;
/// Bytes of one function.
const FUNCTION_BYTES_MAX: u64 = 1024 * 1024;
/// Blocks of one function, a place to which a table jumps counted as one. The compiler's time grows with
/// their square: as many as this take it some seconds, and ten times as many a quarter of an hour.
const BLOCKS_MAX: u64 = 50_000;
/// Blocks of all functions that are long enough for that to matter.
const BLOCKS_SUM_MAX: u64 = 200_000;
/// From this length on, in bytes, the blocks of a function are counted.
const LONG_FUNCTION_BYTES: usize = 64 * 1024;
/// Types of all modules and components, which may refer to each other.
const TYPES_MAX: u64 = 200_000;
/// Functions that cross from a component to a module or back; each is compiled into glue.
const CROSSINGS_MAX: u64 = 20_000;
/// Modules and components, wherever they lie.
const MODULES_MAX: u64 = 256;
/// Modules and components within each other.
const NESTING_MAX: u64 = 32;

/// Something of which a component may have so many.
struct Bound {
    what: &'static str,
    count: u64,
    count_max: u64,
}

impl Bound {
    fn new(what: &'static str, count_max: u64) -> Self {
        Self {
            what,
            count: 0,
            count_max,
        }
    }

    fn add(&mut self, more: u32) -> Result<(), LoadError> {
        self.count = self.count.saturating_add(u64::from(more));
        if self.count <= self.count_max {
            return Ok(());
        }
        Err(LoadError::TooComplex {
            what: self.what,
            count: self.count,
            count_max: self.count_max,
        })
    }
}

/// Checks every module of the component against what the compiler is given, and every memory and every
/// table against the pool.
pub(super) fn check(bytes: &[u8], pool: PoolSize) -> Result<(), LoadError> {
    let mut functions = Bound::new("functions", FUNCTIONS_MAX);
    let mut types = Bound::new("types", TYPES_MAX);
    let mut crossings = Bound::new("functions that cross its boundaries", CROSSINGS_MAX);
    let mut blocks_sum = Bound::new("blocks in long functions", BLOCKS_SUM_MAX);
    let mut modules = Bound::new("modules and components in it", MODULES_MAX);
    let mut nesting = Bound::new("levels of modules and components", NESTING_MAX);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                modules.add(1)?;
                nesting.add(1)?;
            }
            Payload::End(_) => nesting.count = nesting.count.saturating_sub(1),
            Payload::TypeSection(section) => types.add(section.count())?,
            Payload::CoreTypeSection(section) => types.add(section.count())?,
            Payload::ComponentTypeSection(section) => types.add(section.count())?,
            Payload::ComponentCanonicalSection(section) => crossings.add(section.count())?,
            Payload::FunctionSection(section) => functions.add(section.count())?,
            Payload::CodeSectionEntry(body) => {
                let bytes = body.as_bytes().len();
                Bound::new("bytes in one function", FUNCTION_BYTES_MAX)
                    .add(u32::try_from(bytes).unwrap_or(u32::MAX))?;
                if bytes > LONG_FUNCTION_BYTES {
                    blocks_sum.add(blocks(&body)?)?;
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    let memory = memory.map_err(malformed)?;
                    let page_bytes_log2 = memory.page_size_log2.unwrap_or(PAGE_BYTES_LOG2);
                    let needed = memory.initial.saturating_mul(1 << page_bytes_log2.min(32));
                    within(LimitKey::MemoryBytes, needed, pool.memory_bytes_max)?;
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    let TableType { initial, .. } = table.map_err(malformed)?.ty;
                    within(LimitKey::TableElements, initial, pool.table_elements_max)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The blocks of a function.
fn blocks(body: &FunctionBody<'_>) -> Result<u32, LoadError> {
    let mut blocks = Bound::new("blocks in one function", BLOCKS_MAX);
    for operator in body.get_operators_reader().map_err(malformed)? {
        blocks.add(match operator.map_err(malformed)? {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::TryTable { .. } => 1,
            Operator::BrTable { targets } => targets.len(),
            _ => 0,
        })?;
    }
    Ok(u32::try_from(blocks.count).unwrap_or(u32::MAX))
}

fn within(key: LimitKey, needed: u64, allowed: usize) -> Result<(), LoadError> {
    let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
    if needed <= allowed {
        Ok(())
    } else {
        Err(LoadError::DoesNotFit {
            key,
            needed,
            allowed,
        })
    }
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Invalid {
        reason: error.to_string(),
    }
}
