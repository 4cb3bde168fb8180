//! Whether a component fits the pool, asked before it is compiled, so that the answer can name what it
//! needs, what there is, and the key that changes it.

use wasmparser::{Parser, Payload, TableType};

use super::engine_config::PoolSize;
use super::load_error::LoadError;
use crate::limits::LimitKey;

/// Bytes of a page of memory, unless a memory says otherwise.
const PAGE_BYTES_LOG2: u32 = 16;

/// Checks every memory and every table of every module in the component against the pool.
pub(super) fn check(bytes: &[u8], pool: PoolSize) -> Result<(), LoadError> {
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
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

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Invalid {
        reason: error.to_string(),
    }
}
