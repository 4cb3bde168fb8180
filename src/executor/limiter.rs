//! The bound on a guest's memories and tables, each summed over all that the guest has.

use wasmtime::ResourceLimiter;

use crate::limits::{Limit, LimitKey, LimitReached, Limits, Scope};

/// Instances, memories and tables of one component, as counted by the store.
const INSTANCES_MAX: usize = 64;

/// Refuses growth beyond the limits. It ends the guest: one that could go on after a refused growth
/// would have no outcome that tells of it.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    memory: Sum,
    tables: Sum,
}

#[derive(Debug)]
struct Sum {
    key: LimitKey,
    limit: Limit,
    used: u64,
    /// The growth that was last allowed, to be given back should the engine not carry it out.
    last: u64,
}

impl Sum {
    fn new(limits: &Limits, key: LimitKey) -> Self {
        Self {
            key,
            limit: limits.get(key),
            used: 0,
            last: 0,
        }
    }

    fn grow(&mut self, current: usize, desired: usize) -> Result<bool, LimitReached> {
        let growth = u64::try_from(desired.saturating_sub(current)).unwrap_or(u64::MAX);
        let sum = self.used.saturating_add(growth);
        if sum > self.limit.value {
            return Err(LimitReached {
                key: self.key,
                limit: self.limit,
                scope: Scope::Run,
            });
        }
        self.used = sum;
        self.last = growth;
        Ok(true)
    }

    fn give_back(&mut self) {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.last));
    }
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: Sum::new(limits, LimitKey::MemoryBytes),
            tables: Sum::new(limits, LimitKey::TableElements),
        }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.memory.grow(current, desired)?)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.tables.grow(current, desired)?)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.give_back();
        Ok(())
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables.give_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn memories(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        INSTANCES_MAX
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::MemoryLimiter;
    use crate::limits::{LimitOverrides, Limits, Source};

    #[test]
    fn memories_are_summed() {
        let overrides = LimitOverrides::from([("memory_bytes".to_owned(), 300)]);
        let limits = Limits::default().with(Source::Call, &overrides).unwrap();
        let mut limiter = MemoryLimiter::new(&limits);
        assert!(limiter.memory_growing(0, 100, None).is_ok());
        assert!(limiter.memory_growing(0, 100, None).is_ok());
        assert!(limiter.memory_growing(100, 200, None).is_ok());
        assert!(limiter.memory_growing(0, 1, None).is_err());
        limiter
            .memory_grow_failed(wasmtime::format_err!("no room"))
            .unwrap();
        assert!(limiter.memory_growing(0, 100, None).is_ok());
        assert!(limiter.memory_growing(0, usize::MAX, None).is_err());
    }
}
