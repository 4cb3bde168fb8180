//! The only [`wasmtime::Config`].
//!
//! It knows nothing else of this crate, so that the benchmark can mount the same file and hold a raw
//! call under the same settings beside ours.

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Guest stack, in bytes. Protects the host's stack, which lies behind it on the same fiber.
pub(super) const WASM_STACK_BYTES_MAX: usize = 512 * 1024;
/// A fiber: the guest's stack and 1.5 MiB for the host functions it calls.
const FIBER_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of a memory that stay mapped between two runs when the kernel can tell which of them were
/// touched (`PAGEMAP_SCAN`): a run then causes no page fault.
const KEEP_RESIDENT_SCANNED_BYTES: usize = 1024 * 1024;
/// The same without that help, when keeping means clearing.
const KEEP_RESIDENT_CLEARED_BYTES: usize = 64 * 1024;
const TABLE_KEEP_RESIDENT_BYTES: usize = 64 * 1024;

/// Core modules of one component: the main one and the shims and adapters around it.
const CORE_INSTANCES_PER_COMPONENT_MAX: u32 = 32;
/// Memories and tables of one component; composed components bring several.
const MEMORIES_PER_COMPONENT_MAX: u32 = 4;
const TABLES_PER_COMPONENT_MAX: u32 = 8;
/// Metadata of one component instance; ordinary ones need a few KiB.
const INSTANCE_METADATA_BYTES_MAX: usize = 1024 * 1024;
/// Memories that a process can reserve: each takes 4 GiB of addresses, of which there are 128 TiB.
const MEMORIES_MAX: u32 = 16_000;

/// How large the pool of instances is.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolSize {
    /// Component instances at once.
    pub(super) instances_max: u32,
    /// Bytes of one linear memory.
    pub(super) memory_bytes_max: usize,
    /// Elements of one table.
    pub(super) table_elements_max: usize,
}

impl PoolSize {
    /// Memories at once.
    pub(super) fn memories_max(self) -> u32 {
        self.instances_max
            .saturating_mul(MEMORIES_PER_COMPONENT_MAX)
            .min(MEMORIES_MAX)
            .max(self.instances_max)
    }
}

/// The settings of an engine. `concurrency` is for components that use the component model's `async`;
/// it costs every call a few microseconds, so others are kept on an engine without it.
pub(super) fn engine_config(size: PoolSize, concurrency: bool) -> Config {
    let instances = size.instances_max;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(instances)
        .total_stacks(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_PER_COMPONENT_MAX))
        .total_memories(size.memories_max())
        .total_tables(instances.saturating_mul(TABLES_PER_COMPONENT_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT_MAX)
        .max_memories_per_component(MEMORIES_PER_COMPONENT_MAX)
        .max_tables_per_component(TABLES_PER_COMPONENT_MAX)
        .max_memories_per_module(MEMORIES_PER_COMPONENT_MAX)
        .max_tables_per_module(TABLES_PER_COMPONENT_MAX)
        .max_core_instance_size(INSTANCE_METADATA_BYTES_MAX)
        .max_component_instance_size(INSTANCE_METADATA_BYTES_MAX)
        .max_memory_size(size.memory_bytes_max)
        .table_elements(size.table_elements_max)
        .max_unused_warm_slots(instances)
        .linear_memory_keep_resident(if PoolingAllocationConfig::is_pagemap_scan_available() {
            KEEP_RESIDENT_SCANNED_BYTES
        } else {
            KEEP_RESIDENT_CLEARED_BYTES
        })
        .table_keep_resident(TABLE_KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);

    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .memory_init_cow(true)
        .epoch_interruption(true)
        .consume_fuel(true)
        .max_wasm_stack(WASM_STACK_BYTES_MAX)
        .async_stack_size(FIBER_BYTES)
        .concurrency_support(concurrency);
    config
}
