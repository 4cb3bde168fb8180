//! Components that follow no world of ours: each function that they export is an operation, called with
//! JSON arguments and answering with JSON.
//!
//! What a function takes and gives is read from the component's type when it is loaded, within bounds,
//! and kept as a [`Shape`]. Nothing of the component runs for that.

mod command;
mod docs;
mod read;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod text;
mod write;

use serde::Serialize;
use wasmtime::component::types::{ComponentFunc, ComponentInstance, ComponentItem};
use wasmtime::component::{ComponentExportIndex, InstancePre, Val};

use self::command::Exited;
use self::docs::Docs;
use self::shape::{Member, NAME_BYTES_MAX, Refusal, Shape, Shaper};
use self::write::Unwritable;
use super::failure::{self, Failure};
use super::guest_record::{GuestRecord, cut};
use super::load_error::{LoadError, is_http_handler};
use super::state::{HostState, Invocation};
use crate::limits::LimitKey;
use crate::outcome::OutcomeCode;

/// Exported functions of one component. Protects listings, and whoever picks one from them.
const FUNCTIONS_MAX: usize = 256;

/// The code of an error of the caller's: the input does not fit the operation.
const INVALID_INPUT: &str = "invalid_input";
/// The code of an answer that has no form in JSON.
const INVALID_OUTPUT: &str = "invalid_output";
/// The code of an answer that is the `err` of a `result`.
const ERR: &str = "err";
/// The code of a command that ended with another exit code than 0.
const EXIT_CODE: &str = "exit_code";

/// One function that can be called, as it is described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationDescriptor {
    /// Its shortest name.
    pub name: String,
    /// What the component calls it: interface and function.
    pub full_name: String,
    /// What its author says of it; mostly nothing, since few tools put that into a component.
    pub description: String,
    /// JSON Schema of the arguments, an object by parameter name.
    pub input_schema: serde_json::Value,
    /// JSON Schema of the answer; of a `result`, of what `ok` holds.
    pub output_schema: serde_json::Value,
}

/// One function that cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedFunction {
    /// What the component calls it: interface and function.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// A linked component, and what can be called in it.
pub(crate) struct Operations {
    linked: InstancePre<HostState>,
    operations: Vec<Operation>,
    refused: Vec<RefusedFunction>,
}

/// One function that can be called.
pub(crate) struct Operation {
    /// Its own name, where no other function has it.
    own_name: Option<String>,
    /// Its name behind that of its interface, where no other function has that.
    qualified_name: Option<String>,
    full_name: String,
    description: String,
    export: ComponentExportIndex,
    parameters: Vec<Member>,
    /// How many values it gives: none or one.
    results: usize,
    result: Shape,
    is_command: bool,
}

/// An input that was read for an operation: what the function is called with, and what its instance is
/// started with, if it is a command.
type Prepared = (Vec<Val>, Option<Invocation>);

/// How the guest ended an operation.
pub(crate) enum Ended {
    Returned(Vec<Val>),
    Exited(i32),
}

impl Operations {
    /// Finds the operations of a component, whose bytes may say something about them.
    ///
    /// # Errors
    /// There is none, or the component exports too many functions.
    pub(crate) fn find(linked: InstancePre<HostState>, bytes: &[u8]) -> Result<Self, LoadError> {
        let mut found = Self {
            operations: Vec::new(),
            refused: Vec::new(),
            linked,
        };
        found.find_in_component()?;
        if found.operations.is_empty() {
            return Err(found.nothing_to_call());
        }
        let docs = Docs::read(bytes);
        for operation in &mut found.operations {
            operation.description = docs.of(&operation.full_name).to_owned();
        }
        found.give_short_names();
        Ok(found)
    }

    /// Whether the component's bytes said something of a function.
    pub(crate) fn have_docs(&self) -> bool {
        let mut operations = self.operations.iter();
        operations.any(|operation| !operation.description.is_empty())
    }

    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        self.linked.engine()
    }

    fn find_in_component(&mut self) -> Result<(), LoadError> {
        let component = self.linked.component().clone();
        let engine = component.engine();
        let mut shaper = Shaper::default();
        for (name, item) in component.component_type().exports(engine) {
            let export = component.get_export_index(None, name);
            match (item.ty, export) {
                (ComponentItem::ComponentFunc(function), Some(export)) => {
                    self.add(&mut shaper, "", name, &function, export)?;
                }
                (ComponentItem::ComponentInstance(interface), Some(export)) => {
                    self.find_in_interface(&mut shaper, name, &interface, export)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn find_in_interface(
        &mut self,
        shaper: &mut Shaper,
        interface: &str,
        ty: &ComponentInstance,
        index: ComponentExportIndex,
    ) -> Result<(), LoadError> {
        let component = self.linked.component().clone();
        for (name, item) in ty.exports(component.engine()) {
            match item.ty {
                ComponentItem::ComponentFunc(function) => {
                    if let Some(export) = component.get_export_index(Some(&index), name) {
                        self.add(shaper, interface, name, &function, export)?;
                    }
                }
                ComponentItem::ComponentInstance(_) => {
                    self.refuse(full_name(interface, name), Refusal::Nested)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a function to those that can be called, or to the others.
    fn add(
        &mut self,
        shaper: &mut Shaper,
        interface: &str,
        name: &str,
        ty: &ComponentFunc,
        export: ComponentExportIndex,
    ) -> Result<(), LoadError> {
        let full_name = full_name(interface, name);
        shaper.begin();
        let (mut parameters, mut result) = match signature(shaper, interface, name, ty) {
            Ok(signature) => signature,
            Err(refusal) => return self.refuse(full_name, refusal),
        };
        shaper.keep();
        let is_command = command::is_command(interface, name, &result);
        if is_command {
            (parameters, result) = (command::parameters(), command::result());
        }
        self.bounded()?;
        self.operations.push(Operation {
            own_name: Some(name.to_owned()),
            qualified_name: Some(qualified_name(interface, name)),
            full_name,
            description: String::new(),
            export,
            parameters,
            results: ty.results().len(),
            result,
            is_command,
        });
        Ok(())
    }

    fn refuse(&mut self, name: String, refusal: Refusal) -> Result<(), LoadError> {
        self.bounded()?;
        self.refused.push(RefusedFunction {
            name: shortened(&name),
            reason: refusal.to_string(),
        });
        Ok(())
    }

    /// Whether there is room for one more.
    fn bounded(&self) -> Result<(), LoadError> {
        if self.operations.len() + self.refused.len() < FUNCTIONS_MAX {
            Ok(())
        } else {
            Err(LoadError::ManyFunctions {
                functions_max: FUNCTIONS_MAX,
            })
        }
    }

    /// Takes the short names back that more than one function has. A function without an interface
    /// keeps its name, since it has no other.
    fn give_short_names(&mut self) {
        let of = |name: fn(&Operation) -> &Option<String>| -> Vec<String> {
            self.operations
                .iter()
                .filter_map(|o| name(o).clone())
                .collect()
        };
        let own = of(|operation| &operation.own_name);
        let qualified = of(|operation| &operation.qualified_name);
        let is_taken = |names: &[String], name: &String| {
            names.iter().filter(|other| *other == name).count() > 1
        };
        for operation in &mut self.operations {
            operation.own_name.take_if(|name| is_taken(&own, name));
            operation
                .qualified_name
                .take_if(|name| is_taken(&qualified, name));
        }
    }

    fn nothing_to_call(&self) -> LoadError {
        let component = self.linked.component().component_type();
        let exports = component.exports(self.engine());
        let refused = self.refused.iter();
        let found = if self.refused.is_empty() {
            text::listed(exports.map(|(name, _)| shortened(name)))
        } else {
            text::listed(refused.map(|function| format!("{} ({})", function.name, function.reason)))
        };
        LoadError::NothingToCall {
            found: if found.is_empty() {
                "none".to_owned()
            } else {
                found
            },
        }
    }

    /// The operation of that name; without a name, the only one.
    ///
    /// # Errors
    /// There is none of that name, or there are several and none is named.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<&Operation, Failure> {
        let found = match (name, self.operations.as_slice()) {
            (Some(name), operations) => operations.iter().find(|o| o.is_called(name)),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.ok_or_else(|| {
            let asked = name.map_or("no operation named".to_owned(), |name| {
                format!("unknown operation {:?}", cut(name, NAME_BYTES_MAX))
            });
            let names = self.operations.iter().map(|o| o.name().to_owned());
            let message = format!("{asked}: expected one of {}", text::listed(names));
            Failure {
                hint: Some("skillrun skills inspect shows the operations of a skill".to_owned()),
                ..Failure::new(OutcomeCode::NotFound, message)
            }
        })
    }

    pub(crate) fn describe(&self) -> Vec<OperationDescriptor> {
        let described = self.operations.iter().map(|operation| OperationDescriptor {
            name: operation.name().to_owned(),
            full_name: operation.full_name.clone(),
            description: operation.description.clone(),
            input_schema: schema::of_parameters(&operation.parameters),
            output_schema: schema::of_result(&operation.result),
        });
        described.collect()
    }

    pub(crate) fn refused(&self) -> &[RefusedFunction] {
        &self.refused
    }

    /// Calls an operation in a fresh instance in `store`.
    pub(crate) async fn run(
        &self,
        store: &mut wasmtime::Store<HostState>,
        operation: &Operation,
        arguments: &[Val],
        record: &GuestRecord,
    ) -> Result<Ended, Failure> {
        let instance = self.linked.instantiate_async(&mut *store).await;
        let instance = instance.map_err(|error| failure::from_instantiation(&error, record))?;
        let function = instance
            .get_func(&mut *store, operation.export)
            .ok_or_else(|| {
                let message = format!("the component has no function {}", operation.full_name);
                Failure::new(OutcomeCode::Internal, message)
            })?;
        let mut results = vec![Val::Bool(false); operation.results];
        let called = function.call_async(store, arguments, &mut results).await;
        match called {
            Ok(()) => Ok(Ended::Returned(results)),
            Err(error) => match command::ended_itself(&error).filter(|_| operation.is_command) {
                Some(code) => Ok(Ended::Exited(code)),
                None => Err(failure::from_engine(&error, record)),
            },
        }
    }
}

/// What a function takes and gives.
fn signature(
    shaper: &mut Shaper,
    interface: &str,
    name: &str,
    ty: &ComponentFunc,
) -> Result<(Vec<Member>, Shape), Refusal> {
    if is_http_handler(interface) {
        return Err(Refusal::HttpHandler);
    }
    if name.starts_with('[') {
        return Err(Refusal::OfResource);
    }
    if name.len() > NAME_BYTES_MAX || interface.len() > NAME_BYTES_MAX {
        return Err(Refusal::LongName);
    }
    let parameters = ty.params();
    let parameters = parameters.map(|(name, ty)| shaper.member(name, Some(&ty), 0));
    let parameters = parameters.collect::<Result<_, _>>()?;
    let result = match ty.results().next() {
        Some(ty) => shaper.shape(&ty, 0)?,
        None => Shape::Nothing,
    };
    Ok((parameters, result))
}

/// `acme:shop/orders@1.2.0.place`, or the function's name where it has no interface.
fn full_name(interface: &str, function: &str) -> String {
    match interface {
        "" => function.to_owned(),
        interface => format!("{interface}.{function}"),
    }
}

/// `orders.place`, or the function's name where it has no interface.
fn qualified_name(interface: &str, function: &str) -> String {
    let name = interface.rsplit('/').next().unwrap_or(interface);
    full_name(name.split('@').next().unwrap_or(name), function)
}

fn shortened(name: &str) -> String {
    let shown = cut(name, NAME_BYTES_MAX);
    if shown.len() < name.len() {
        format!("{shown}…")
    } else {
        shown.to_owned()
    }
}

impl Operation {
    /// Its shortest name.
    fn name(&self) -> &str {
        let short = self.own_name.as_ref().or(self.qualified_name.as_ref());
        short.unwrap_or(&self.full_name)
    }

    fn is_called(&self, name: &str) -> bool {
        let short = [&self.own_name, &self.qualified_name];
        self.full_name == name || short.into_iter().flatten().any(|short| short == name)
    }

    /// Reads an input. `skill_name` is what a command finds in front of its arguments.
    ///
    /// # Errors
    /// The input does not fit; the guest is not started then.
    pub(crate) fn prepare(&self, input: &str, skill_name: &str) -> Result<Prepared, Failure> {
        let arguments = read::arguments(input, &self.parameters).map_err(|misfit| {
            let details = serde_json::json!({
                "path": misfit.path,
                "expected": misfit.expected,
                "found": misfit.found,
            });
            failure::of_the_skill(INVALID_INPUT, &misfit.to_string(), &details.to_string())
        })?;
        Ok(if self.is_command {
            let invocation = command::invocation(skill_name, arguments);
            (Vec::new(), Some(invocation))
        } else {
            (arguments, None)
        })
    }

    /// The JSON text of the answer.
    ///
    /// # Errors
    /// It is an error of the skill's own, has no form in JSON, or is larger than a result may be.
    pub(crate) fn answer(
        &self,
        ended: Ended,
        stdout: &[u8],
        record: &GuestRecord,
    ) -> Result<String, Failure> {
        if self.is_command {
            let exited = Exited::new(ended.exit_code(), stdout);
            let code = exited.exit_code();
            let text = write_bounded(Some(&exited.value()), &self.result, record)?;
            if code == 0 {
                return Ok(text);
            }
            let message = format!("the command ended with exit code {code}");
            return Err(failure::of_the_skill(EXIT_CODE, &message, &text));
        }
        let Ended::Returned(results) = ended else {
            return Err(Failure::new(OutcomeCode::Internal, "a function exited"));
        };
        match (&self.result, results.first()) {
            (Shape::Result(ok, _), Some(Val::Result(Ok(value)))) => {
                write_bounded(value.as_deref(), ok, record)
            }
            (Shape::Result(_, err), Some(Val::Result(Err(value)))) => {
                let details = write_bounded(value.as_deref(), err, record)?;
                let message = match value.as_deref() {
                    Some(Val::String(message)) => message.clone(),
                    Some(_) => format!("{} answered err: {details}", self.name()),
                    None => format!("{} answered err", self.name()),
                };
                Err(failure::of_the_skill(ERR, &message, &details))
            }
            (shape, value) => write_bounded(value, shape, record),
        }
    }
}

impl Ended {
    fn exit_code(&self) -> i32 {
        match self {
            Self::Returned(results) => command::returned(results),
            Self::Exited(code) => *code,
        }
    }
}

fn write_bounded(
    value: Option<&Val>,
    shape: &Shape,
    record: &GuestRecord,
) -> Result<String, Failure> {
    let bytes_max = record.limits().value(LimitKey::OutputBytes);
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    write::json(value, shape, bytes_max).map_err(|unwritable| match unwritable {
        Unwritable::TooLarge => record.reached(LimitKey::OutputBytes).into(),
        Unwritable::NotFinite { .. } => {
            failure::of_the_skill(INVALID_OUTPUT, &unwritable.to_string(), "null")
        }
        Unwritable::OfAnotherType { .. } => {
            Failure::new(OutcomeCode::Internal, unwritable.to_string())
        }
    })
}
