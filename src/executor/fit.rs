//! Whether a component can be compiled and fits the pool, asked before it is compiled, so that the answer
//! can name what it needs, what there is, and the key that changes it.

use wasmparser::{Parser, Payload, TableType};

use super::engine_config::PoolSize;
use super::function_size::Functions;
use super::load_error::LoadError;
use crate::limits::LimitKey;

/// Bytes of a page of memory, unless a memory says otherwise.
const PAGE_BYTES_LOG2: u32 = 16;

// A compilation cannot be stopped, so what would make one endless or fill the host's memory is refused
// before it begins. The bounds protect whoever waits for another component's compilation, and the host.
// Interpreters of Python and JavaScript need less than half of each.

/// Functions of all modules. The compiler holds some KiB for each, however short it is.
const FUNCTIONS_MAX: u64 = 250_000;
/// Types of all modules and components, which may refer to each other.
const TYPES_MAX: u64 = 200_000;
/// Functions that cross from a component to a module or back; each is compiled into glue.
const CROSSINGS_MAX: u64 = 20_000;
/// Modules and components, wherever they lie.
const MODULES_MAX: u64 = 256;
/// Modules and components within each other.
const NESTING_MAX: u64 = 32;

/// Something of which a component may have so many.
pub(super) struct Bound {
    what: &'static str,
    count: u64,
    count_max: u64,
}

impl Bound {
    pub(super) fn new(what: &'static str, count_max: u64) -> Self {
        Self {
            what,
            count: 0,
            count_max,
        }
    }

    pub(super) fn add(&mut self, more: u64) -> Result<(), LoadError> {
        self.count = self.count.saturating_add(more);
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
    let mut bodies = Functions::default();
    let mut modules = Bound::new("modules and components in it", MODULES_MAX);
    let mut nesting = Bound::new("levels of modules and components", NESTING_MAX);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::ModuleSection { .. } => {
                modules.add(1)?;
                nesting.add(1)?;
                bodies.begin_module();
            }
            Payload::ComponentSection { .. } => {
                modules.add(1)?;
                nesting.add(1)?;
            }
            Payload::End(_) => nesting.count = nesting.count.saturating_sub(1),
            Payload::TypeSection(section) => {
                types.add(section.count().into())?;
                bodies.add_types(section)?;
            }
            Payload::ImportSection(section) => bodies.add_imports(section)?,
            Payload::CoreTypeSection(section) => types.add(section.count().into())?,
            Payload::ComponentTypeSection(section) => types.add(section.count().into())?,
            Payload::ComponentCanonicalSection(section) => crossings.add(section.count().into())?,
            Payload::FunctionSection(section) => {
                functions.add(section.count().into())?;
                bodies.add_functions(section)?;
            }
            Payload::CodeSectionEntry(body) => bodies.add(&body)?,
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

pub(super) fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Invalid {
        reason: error.to_string(),
    }
}
