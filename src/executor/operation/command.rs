//! A plain command, which exports `wasi:cli/run`: it is given arguments and standard input, and answers
//! with an exit code and what it wrote to standard output.

use bytes::Bytes;
use wasmtime::component::Val;
use wasmtime_wasi::I32Exit;

use super::shape::{Integer, Member, Shape};
use crate::executor::state::Invocation;

/// The interface, whose version does not matter here: the function has not changed.
const INTERFACE: &str = "wasi:cli/run@";
/// The function in it.
const FUNCTION: &str = "run";

/// Whether a function is the one by which a command is run.
pub(super) fn is_command(interface: &str, function: &str, result: &Shape) -> bool {
    let nothing = Shape::Result(Box::new(Shape::Nothing), Box::new(Shape::Nothing));
    interface.starts_with(INTERFACE) && function == FUNCTION && *result == nothing
}

/// What a command takes.
pub(super) fn parameters() -> Vec<Member> {
    let optional = |name: &str, shape| Member {
        name: name.to_owned(),
        shape: Shape::Option(Box::new(shape)),
    };
    vec![
        optional("args", Shape::List(Box::new(Shape::String))),
        optional("stdin", Shape::String),
    ]
}

/// What a command answers.
pub(super) fn result() -> Shape {
    let member = |name: &str, shape| Member {
        name: name.to_owned(),
        shape,
    };
    Shape::Record(vec![
        member("exit_code", Shape::Integer(Integer::S32)),
        member("stdout", Shape::String),
    ])
}

/// What a command is started with, from the values that were read for [`parameters`]. `name` is what it
/// finds in front of its arguments.
pub(super) fn invocation(name: &str, arguments: Vec<Val>) -> Invocation {
    let mut invocation = Invocation {
        args: vec![name.to_owned()],
        stdin: Bytes::new(),
    };
    for argument in arguments {
        let Val::Option(Some(argument)) = argument else {
            continue;
        };
        match *argument {
            Val::List(args) => invocation.args.extend(args.into_iter().filter_map(text)),
            Val::String(stdin) => invocation.stdin = stdin.into(),
            _ => {}
        }
    }
    invocation
}

fn text(value: Val) -> Option<String> {
    match value {
        Val::String(text) => Some(text),
        _ => None,
    }
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct Exited {
    /// 0: it did what it was to do.
    exit_code: i32,
    /// What it wrote.
    stdout: String,
}

impl Exited {
    /// `stdout` as text; what is no UTF-8 in it is replaced.
    pub(super) fn new(exit_code: i32, stdout: &[u8]) -> Self {
        Self {
            exit_code,
            stdout: String::from_utf8_lossy(stdout).into_owned(),
        }
    }

    pub(super) fn exit_code(&self) -> i32 {
        self.exit_code
    }

    /// The values to be written for [`result`].
    pub(super) fn value(self) -> Val {
        Val::Record(vec![
            ("exit_code".to_owned(), Val::S32(self.exit_code)),
            ("stdout".to_owned(), Val::String(self.stdout)),
        ])
    }
}

/// The exit code of a command that returned.
pub(super) fn returned(results: &[Val]) -> i32 {
    match results {
        [Val::Result(Ok(_))] => 0,
        _ => 1,
    }
}

/// The exit code of a command that ended itself.
pub(super) fn ended_itself(error: &wasmtime::Error) -> Option<i32> {
    error.downcast_ref().map(|&I32Exit(code)| code)
}
