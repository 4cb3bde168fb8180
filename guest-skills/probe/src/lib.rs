//! Does one thing that a test asks for, by name. Each limit and each escape has its verb here, so that
//! the host is tried by a real guest and not by a mock.

mod converse;
mod files;
mod host_calls;
mod hostile;
mod http;
mod network;
mod provided;
mod time;

use serde::Deserialize;
use serde_json::{Value, json};
use skillrun_sdk::bindings::skillrun::skill::recorder;
use skillrun_sdk::{Descriptor, Skill, SkillError, log, run};

struct Probe;

/// One verb and its arguments.
#[derive(Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
enum Verb {
    /// Nothing.
    Noop {},
    /// Gives `value` back.
    Echo { value: Value },
    /// What the `run` interface says.
    About {},
    /// Fails with an error of the skill's own.
    Fail { message: String, code: String },
    /// Writes one log line.
    Log { message: String },
    /// Writes `text` to standard output and standard error as it is.
    Print { stdout: String, stderr: String },
    /// Emits one `custom` event.
    Emit { name: String, payload: String },
    /// Enters steps within steps; the innermost is dropped without an end.
    Nodes { names: Vec<String> },
    /// Does something else within a step.
    InNode { name: String, then: Box<Verb> },
    /// Looks at both clocks, or waits.
    Time(time::Wanted),
    /// Reads clocks and randomness.
    Ambient {},
    /// Waits on the monotonic clock.
    Sleep { ms: u64 },
    /// Calls a tool.
    Tool { name: String },
    /// Asks a model.
    Model { name: String },
    /// Asks a person.
    Approval {},
    /// Hands over to another skill.
    Handoff { skill: String },
    /// Calls a tool again and again and ignores what comes back.
    ToolFlood { calls: u64 },
    /// Never ends.
    Spin {},
    /// Takes memory until there is none.
    Alloc {},
    /// Calls itself until the stack ends.
    Recurse {},
    /// The same with so little in each call that another stack ends first.
    RecurseThin {},
    /// Executes `unreachable`.
    Trap {},
    /// Panics.
    Panic { message: String },
    /// Ends the process from within.
    Exit { code: i32 },
    /// Returns a string of so many bytes.
    Output { bytes: usize },
    /// Hands a string of so many bytes to the host.
    Carry { bytes: usize },
    /// Asks for so many random bytes at once.
    Random { bytes: u64 },
    /// Writes so many log lines of one text.
    LogFlood { lines: u64, text: String },
    /// Prints so many lines without a break between writes.
    PrintFlood { lines: u64, text: String },
    /// Emits so many events.
    EmitFlood { events: u64 },
    /// Says that it used a model of its own, so many tokens at such a price.
    ReportModel { tokens: u32, cost_usd: f64 },
    /// Holds so many resources of the host at once.
    Hold { resources: u64 },
    /// Makes calls on files.
    Files { calls: Vec<files::FileCall> },
    /// Tries every way to the network, with `name` as the one to look up.
    Sockets { name: String },
    /// Reads a file as programs do.
    ReadFile { path: String },
    /// Writes a file as programs do.
    WriteFile { path: String, text: String },
    /// Makes one request.
    Http(http::Wanted),
    /// Makes requests, one after another.
    HttpEach { urls: Vec<String> },
    /// Makes requests, all at once.
    HttpAtOnce { urls: Vec<String> },
    /// Makes a request and does not wait for the response.
    HttpLeave { url: String, drop: bool },
    /// Makes requests and reads none of the responses.
    HttpHoard { url: String, requests: u64 },
    /// Makes a request whose body ends with trailers, or without an end.
    HttpOddBody { url: String, trailers: bool },
    /// Makes calls to what others provide, and tells what came of each.
    Calls { calls: Vec<provided::Call> },
    /// Makes one such call and gives up when it is refused.
    Insist { on: provided::Call },
    /// Writes the body of a request piece by piece, and tells how much it was allowed each time.
    HttpPieces(http::Pieces),
    /// Asks for the addresses of a name.
    LookUp { name: String },
    /// Says lines to a model, one after the other, and calls the tools that it asks for.
    Converse { lines: Vec<String> },
}

impl Skill for Probe {
    type Input = Verb;
    type Output = Value;

    fn describe() -> Descriptor {
        Descriptor::new("probe", "0.1.0", "Does one thing that a test asks for")
    }

    fn run(verb: Verb) -> Result<Value, SkillError> {
        match verb {
            Verb::Noop {} => Ok(Value::Null),
            Verb::Echo { value } => Ok(value),
            Verb::About {} => Ok(about()),
            Verb::Fail { message, code } => Err(SkillError::new(message).with_code(&code)),
            Verb::Log { message } => {
                log::info(&message);
                Ok(Value::Null)
            }
            Verb::Print { stdout, stderr } => {
                print!("{stdout}");
                eprint!("{stderr}");
                Ok(Value::Null)
            }
            Verb::Emit { name, payload } => Ok(emit(name, payload)),
            Verb::Nodes { names } => Ok(nodes(&names)),
            Verb::InNode { name, then } => in_node(&name, *then),
            Verb::Time(wanted) => Ok(time::make(wanted)),
            Verb::Ambient {} => Ok(host_calls::ambient()),
            Verb::Sleep { ms } => {
                std::thread::sleep(std::time::Duration::from_millis(ms));
                Ok(Value::Null)
            }
            Verb::Tool { name } => host_calls::tool(&name),
            Verb::Model { name } => host_calls::model(&name),
            Verb::Approval {} => host_calls::approval(),
            Verb::Handoff { skill } => host_calls::handoff(&skill),
            Verb::ToolFlood { calls } => Ok(host_calls::tool_flood(calls)),
            Verb::Spin {} => hostile::spin(),
            Verb::Alloc {} => hostile::alloc(),
            Verb::Recurse {} => Ok(json!(hostile::recurse(0))),
            Verb::RecurseThin {} => Ok(json!(hostile::recurse_thin(0))),
            Verb::Trap {} => hostile::trap(),
            Verb::Panic { message } => panic!("{message}"),
            Verb::Exit { code } => std::process::exit(code),
            Verb::Output { bytes } => Ok(Value::String("o".repeat(bytes))),
            Verb::Carry { bytes } => {
                log::info(&"c".repeat(bytes));
                Ok(Value::Null)
            }
            Verb::Random { bytes } => Ok(json!(hostile::random(bytes))),
            Verb::LogFlood { lines, text } => {
                (0..lines).for_each(|_| log::info(&text));
                Ok(Value::Null)
            }
            Verb::PrintFlood { lines, text } => {
                (0..lines).for_each(|_| println!("{text}"));
                Ok(Value::Null)
            }
            Verb::EmitFlood { events } => Ok(json!(hostile::emit_flood(events))),
            Verb::ReportModel { tokens, cost_usd } => Ok(hostile::report_model(tokens, cost_usd)),
            Verb::Hold { resources } => Ok(json!(hostile::hold(resources))),
            Verb::Files { calls } => Ok(files::make(calls)),
            Verb::Sockets { name } => Ok(network::sockets(&name)),
            Verb::ReadFile { path } => files::read(&path),
            Verb::WriteFile { path, text } => files::write(&path, &text),
            Verb::Http(wanted) => http::one(wanted),
            Verb::HttpEach { urls } => Ok(http::each(&urls)),
            Verb::HttpAtOnce { urls } => Ok(http::at_once(&urls)),
            Verb::HttpLeave { url, drop } => http::leave(&url, drop),
            Verb::HttpHoard { url, requests } => Ok(http::hoard(&url, requests)),
            Verb::HttpOddBody { url, trailers } => Ok(http::odd_body(&url, trailers)),
            Verb::HttpPieces(pieces) => Ok(http::pieces(&pieces)),
            Verb::Calls { calls } => Ok(provided::make(calls)),
            Verb::Insist { on } => provided::insist(on),
            Verb::LookUp { name } => Ok(http::look_up(&name)),
            Verb::Converse { lines } => converse::converse(&lines),
        }
    }
}

fn about() -> Value {
    json!({
        "id": run::id(),
        "parent_id": run::parent_id(),
        "skill_name": run::skill_name(),
        "skill_body": run::skill_body(),
        "remaining_ms": run::remaining_ms(),
        "attempt": run::attempt(),
    })
}

fn emit(name: String, payload: String) -> Value {
    match recorder::emit(&recorder::Event::Custom(recorder::Custom { name, payload })) {
        Ok(seq) => json!({ "seq": seq }),
        Err(error) => json!({ "error": format!("{error:?}") }),
    }
}

fn in_node(name: &str, then: Verb) -> Result<Value, SkillError> {
    let _node = recorder::Node::new(name);
    Probe::run(then)
}

fn nodes(names: &[String]) -> Value {
    let nodes: Vec<recorder::Node> = names.iter().map(|name| recorder::Node::new(name)).collect();
    let ids: Vec<String> = nodes.iter().map(recorder::Node::id).collect();
    if let Some((_innermost, outer)) = nodes.split_last() {
        for node in outer.iter().rev() {
            node.end(true);
            node.end(false);
        }
    }
    json!(ids)
}

skillrun_sdk::export!(Probe);
