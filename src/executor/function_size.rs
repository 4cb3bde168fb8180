//! How much of the compiler's time and memory a component's functions can take, counted in one pass over
//! their instructions.
//!
//! The compiler gives every local that is set on some way to a place where ways meet a value of its own
//! there, and every branch to that place hands it over. A few KiB of nested loops around many locals so
//! become millions of values. It also has a table of all blocks for each local.

use wasmparser::{
    BlockType, Catch, CompositeInnerType, FunctionBody, FunctionSectionReader, ImportSectionReader,
    Operator, TryTable, TypeRef, TypeSectionReader,
};

use super::fit::{Bound, malformed};
use super::load_error::LoadError;

// Whoever waits for another component's compilation is protected by these, and the host. Each says what the
// components need that were measured: CPython, an interpreter of JavaScript, and skills in Rust.

/// Bytes of one function.
const FUNCTION_BYTES_MAX: u64 = 1024 * 1024;
/// Blocks of one function, a place to which a table jumps counted as one. The compiler's time grows with
/// their square: as many as this take it some seconds, and ten times as many a quarter of an hour.
const BLOCKS_MAX: u64 = 50_000;
/// Blocks of all functions that are long enough for that to matter.
const BLOCKS_SUM_MAX: u64 = 200_000;
/// From this length on, in bytes, a function is long.
const LONG_FUNCTION_BYTES: usize = 64 * 1024;

/// Blocks and branches of one function times its locals. The largest function of CPython needs
/// 195,000, one in Rust 400,000. As many as this take the compiler up to two seconds and 150 MB.
const BLOCKS_BY_LOCALS_MAX: u64 = 2_000_000;
/// The same, of all functions. CPython needs 4,480,000.
const BLOCKS_BY_LOCALS_SUM_MAX: u64 = 20_000_000;

/// Values that the branches of one function hand over. The largest function of CPython needs 44,000,
/// one in Rust 74,000. As many as this take the compiler up to ten seconds and 350 MB.
const HANDED_MAX: u64 = 300_000;
/// The same, of all functions. CPython needs 1,502,000, an interpreter of JavaScript 410,000.
const HANDED_SUM_MAX: u64 = 6_000_000;
/// The same, of functions that hand over many, for which the time grows faster than their
/// number. CPython needs 107,000.
const HANDED_BY_MANY_SUM_MAX: u64 = 400_000;
/// From this number on, a function hands over many.
const HANDED_BY_MANY: u64 = 20_000;

/// Locals of one function, its parameters included. CPython needs 271. Those that live at once cost the
/// compiler time in code without a single branch as well.
const LOCALS_MAX: u64 = 5_000;

/// What a type says of a block or a function that has it.
#[derive(Clone, Copy, Default)]
struct Arity {
    params: u64,
    results: u64,
}

/// A block that is open, as far as it was read.
#[derive(Default)]
struct Open {
    /// The position at which it begins.
    position: u64,
    /// Branches to it.
    branches: u64,
    /// Values that every branch to it hands over, besides locals.
    values: u64,
    /// Exceptions that it catches, each in a place of its own.
    catches: u64,
    /// Locals that are set in it, less those that are counted in a block around it already: the number of
    /// one block is the sum of this in it and in all within it.
    locals_set: i64,
    /// Calls in it, counted in the same way; each may throw what it catches.
    calls: u64,
}

/// The functions of a component, as far as they were read.
pub(super) struct Functions {
    types: Vec<Arity>,
    /// The parameters of the module's own functions, which are locals too.
    params: Vec<u64>,
    /// The functions that it imports, which come before its own.
    imported: u32,
    /// The module that is read, and the function in it that is next.
    module: Option<u32>,
    function: u32,
    /// Instructions of all functions so far.
    position: u64,
    /// The position at which each local was set last, be it in another function.
    set_at: Vec<u64>,
    blocks: Bound,
    blocks_by_locals: Bound,
    handed: Bound,
    handed_by_many: Bound,
}

impl Default for Functions {
    fn default() -> Self {
        Self {
            types: Vec::new(),
            params: Vec::new(),
            imported: 0,
            module: None,
            function: 0,
            position: 0,
            set_at: Vec::new(),
            blocks: Bound::new("blocks in long functions", BLOCKS_SUM_MAX),
            blocks_by_locals: Bound::new(
                "blocks and branches times locals in all functions",
                BLOCKS_BY_LOCALS_SUM_MAX,
            ),
            handed: Bound::new(
                "values handed over by branches in all functions",
                HANDED_SUM_MAX,
            ),
            handed_by_many: Bound::new(
                "values handed over by branches in functions of more than 20000",
                HANDED_BY_MANY_SUM_MAX,
            ),
        }
    }
}

impl Functions {
    /// Begins with a module; types and functions are counted anew in each.
    pub(super) fn begin_module(&mut self) {
        self.types.clear();
        self.params.clear();
        self.imported = 0;
        self.module = Some(self.module.map_or(0, |module| module.saturating_add(1)));
        self.function = 0;
    }

    /// Takes note of a module's types.
    pub(super) fn add_types(&mut self, section: TypeSectionReader<'_>) -> Result<(), LoadError> {
        for group in section {
            for sub in group.map_err(malformed)?.into_types() {
                self.types.push(match sub.composite_type.inner {
                    CompositeInnerType::Func(function) => Arity {
                        params: length(function.params().len()),
                        results: length(function.results().len()),
                    },
                    _ => Arity::default(),
                });
            }
        }
        Ok(())
    }

    /// Takes note of the functions that a module imports.
    pub(super) fn add_imports(
        &mut self,
        section: ImportSectionReader<'_>,
    ) -> Result<(), LoadError> {
        for import in section.into_imports() {
            if let TypeRef::Func(_) | TypeRef::FuncExact(_) = import.map_err(malformed)?.ty {
                self.imported = self.imported.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Takes note of the types of a module's own functions.
    pub(super) fn add_functions(
        &mut self,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), LoadError> {
        for index in section {
            let params = self.arity(index.map_err(malformed)?).params;
            self.params.push(params);
        }
        Ok(())
    }

    /// Counts what is in the next function.
    pub(super) fn add(&mut self, body: &FunctionBody<'_>) -> Result<(), LoadError> {
        let bytes = body.as_bytes().len();
        self.at_most("bytes in one function", length(bytes), FUNCTION_BYTES_MAX)?;
        let mut locals = self
            .params
            .get(index(self.function))
            .copied()
            .unwrap_or_default();
        for run in body.get_locals_reader().map_err(malformed)? {
            locals = locals.saturating_add(run.map_err(malformed)?.0.into());
        }
        self.at_most("locals in one function", locals, LOCALS_MAX)?;
        let counted = self.read(body, locals)?;
        let by_locals = counted.branching.saturating_mul(locals);
        self.at_most("blocks in one function", counted.blocks, BLOCKS_MAX)?;
        self.at_most(
            "blocks and branches times locals in one function",
            by_locals,
            BLOCKS_BY_LOCALS_MAX,
        )?;
        self.at_most(
            "values handed over by branches in one function",
            counted.handed,
            HANDED_MAX,
        )?;
        if bytes > LONG_FUNCTION_BYTES {
            self.blocks.add(counted.blocks)?;
        }
        self.blocks_by_locals.add(by_locals)?;
        self.handed.add(counted.handed)?;
        if counted.handed > HANDED_BY_MANY {
            self.handed_by_many.add(counted.handed)?;
        }
        self.function = self.function.saturating_add(1);
        Ok(())
    }

    /// Counts what is in a function with so many locals.
    fn read(&mut self, body: &FunctionBody<'_>, locals: u64) -> Result<Counted, LoadError> {
        self.position = self.position.saturating_add(1);
        let mut reading = Reading {
            open: vec![Open {
                position: self.position,
                ..Open::default()
            }],
            counted: Counted::default(),
        };
        for operator in body.get_operators_reader().map_err(malformed)? {
            self.position = self.position.saturating_add(1);
            match operator.map_err(malformed)? {
                Operator::Block { blockty } => {
                    reading.begin(self.position, self.block(blockty).results);
                }
                Operator::If { blockty } => {
                    let arity = self.block(blockty);
                    reading.begin(self.position, arity.params.saturating_add(arity.results));
                    reading.branch(0);
                }
                Operator::Loop { blockty } => {
                    let arity = self.block(blockty);
                    reading.begin(self.position, arity.params.saturating_add(arity.results));
                }
                Operator::TryTable { try_table } => self.begin_try(&mut reading, &try_table),
                Operator::Else => reading.counted.block(1),
                Operator::End => reading.end(),
                Operator::Br { relative_depth }
                | Operator::BrIf { relative_depth }
                | Operator::BrOnNull { relative_depth }
                | Operator::BrOnNonNull { relative_depth }
                | Operator::BrOnCast { relative_depth, .. }
                | Operator::BrOnCastFail { relative_depth, .. } => {
                    reading.branch(relative_depth);
                }
                Operator::BrTable { targets } => {
                    reading.counted.block(targets.len().into());
                    reading.branch(targets.default());
                    for target in targets.targets() {
                        reading.branch(target.map_err(malformed)?);
                    }
                }
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index }
                    if u64::from(local_index) < locals =>
                {
                    reading.set(self.set(local_index));
                }
                Operator::Call { .. } | Operator::CallRef { .. } | Operator::Throw { .. } => {
                    reading.call();
                }
                Operator::CallIndirect { .. } => {
                    reading.counted.branching = reading.counted.branching.saturating_add(1);
                    reading.call();
                }
                _ => {}
            }
        }
        Ok(reading.counted)
    }

    fn at_most(&self, what: &'static str, count: u64, count_max: u64) -> Result<(), LoadError> {
        if count <= count_max {
            return Ok(());
        }
        Err(LoadError::FunctionTooComplex {
            module: self.module.unwrap_or_default(),
            function: self.imported.saturating_add(self.function),
            what,
            count,
            count_max,
        })
    }

    /// Begins a block whose calls may throw; what is caught there is a branch to a block around it.
    fn begin_try(&self, reading: &mut Reading, try_table: &TryTable) {
        for catch in &try_table.catches {
            let (Catch::One { label, .. }
            | Catch::OneRef { label, .. }
            | Catch::All { label }
            | Catch::AllRef { label }) = *catch;
            reading.branch(label);
        }
        reading.begin(self.position, self.block(try_table.ty).results);
        if let Some(open) = reading.open.last_mut() {
            open.catches = length(try_table.catches.len());
        }
    }

    /// Notes that a local is set here; answers where it was set before.
    fn set(&mut self, local: u32) -> u64 {
        let local = index(local);
        if self.set_at.len() <= local {
            self.set_at.resize(local.saturating_add(1), 0);
        }
        self.set_at
            .get_mut(local)
            .map_or(0, |set_at| std::mem::replace(set_at, self.position))
    }

    fn block(&self, block: BlockType) -> Arity {
        match block {
            BlockType::Empty => Arity::default(),
            BlockType::Type(_) => Arity {
                params: 0,
                results: 1,
            },
            BlockType::FuncType(index) => self.arity(index),
        }
    }

    fn arity(&self, of: u32) -> Arity {
        self.types.get(index(of)).copied().unwrap_or_default()
    }
}

/// What one function has.
#[derive(Default)]
struct Counted {
    /// Blocks, and places to which tables jump.
    blocks: u64,
    /// Blocks, and instructions after which the compiler begins one.
    branching: u64,
    /// Values that branches hand over.
    handed: u64,
}

impl Counted {
    fn block(&mut self, more: u64) {
        self.blocks = self.blocks.saturating_add(more);
        self.branching = self.branching.saturating_add(more);
    }
}

/// One function, as far as it was read.
struct Reading {
    /// The blocks that are open, of which the first is the function.
    open: Vec<Open>,
    counted: Counted,
}

impl Reading {
    fn begin(&mut self, position: u64, values: u64) {
        self.counted.block(1);
        self.open.push(Open {
            position,
            values,
            ..Open::default()
        });
    }

    /// Counts a branch to the block that is so many further out.
    fn branch(&mut self, depth: u32) {
        self.counted.branching = self.counted.branching.saturating_add(1);
        let block = self.open.len().checked_sub(index(depth).saturating_add(1));
        if let Some(open) = block.and_then(|block| self.open.get_mut(block)) {
            open.branches = open.branches.saturating_add(1);
        }
    }

    /// Counts a local for every open block in which it was not set since `before`.
    fn set(&mut self, before: u64) {
        let counted = self.open.partition_point(|open| open.position <= before);
        if counted == self.open.len() {
            return;
        }
        if let Some(open) = self.open.last_mut() {
            open.locals_set = open.locals_set.saturating_add(1);
        }
        let around = counted.checked_sub(1);
        if let Some(open) = around.and_then(|around| self.open.get_mut(around)) {
            open.locals_set = open.locals_set.saturating_sub(1);
        }
    }

    fn call(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.calls = open.calls.saturating_add(1);
        }
    }

    /// Ends a block: where ways meet, each hands over what differs between them.
    fn end(&mut self) {
        let Some(block) = self.open.pop() else {
            return;
        };
        // What leaves a function leaves its locals.
        let Some(around) = self.open.last_mut() else {
            return;
        };
        around.locals_set = around.locals_set.saturating_add(block.locals_set);
        around.calls = around.calls.saturating_add(block.calls);
        let caught = block.calls.saturating_mul(block.catches);
        let branches = block.branches.saturating_add(caught);
        if branches > 0 {
            let locals_set = u64::try_from(block.locals_set).unwrap_or_default();
            let values = block.values.saturating_add(locals_set);
            let ways = branches.saturating_add(1);
            self.counted.handed = self
                .counted
                .handed
                .saturating_add(values.saturating_mul(ways));
        }
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn index(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
