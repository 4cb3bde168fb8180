//! Why a component cannot be loaded, in words that say what was wanted and what there is.

use wasmtime::Engine;
use wasmtime::component::Component;

use super::engine::EngineError;
use crate::config::COMPONENT_BYTES_MAX;
use crate::limits::LimitKey;

/// The WIT package that this host implements.
const PACKAGE: &str = "skillrun:skill/";
/// Its version.
const PACKAGE_VERSION: &str = "0.1.0";
/// The export that makes a component a skill.
const HANDLER: &str = "handler";
/// The export that makes a component an agent, which is launched and not run.
const SESSION_HANDLER: &str = "session-handler";

const MAGIC: &[u8] = b"\0asm";
const COMPONENT_VERSION: &[u8] = &[0x0d, 0x00, 0x01, 0x00];
const MODULE_VERSION: &[u8] = &[0x01, 0x00, 0x00, 0x00];

/// Packages and interfaces of WASI that are linked.
const WASI_INTERFACES: [&str; 8] = [
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:http/outgoing-handler@0.2.",
    "wasi:http/types@0.2.",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

/// The interfaces by which a component is an HTTP server.
const HTTP_HANDLERS: [&str; 2] = ["wasi:http/incoming-handler@", "wasi:http/handler@"];

/// Why a component cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The component's bytes cannot be had.
    #[error("{reason}")]
    Unreadable {
        /// Which file, and why not.
        reason: String,
    },
    /// The bytes do not begin like WebAssembly.
    #[error("not WebAssembly: expected a component, found bytes that begin with {found:?}")]
    NotWasm {
        /// The first bytes, as text as far as they are.
        found: String,
    },
    /// A core module.
    #[error(
        "a core module, not a component: build for wasm32-wasip2 or wrap it with wasm-component-ld"
    )]
    CoreModule,
    /// More bytes than a component may have.
    #[error(
        "component has {bytes} bytes: expected at most {bytes_max} (engine.component_bytes_max)"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size accepted.
        bytes_max: u64,
    },
    /// The component was built for a version of the WIT package that this host does not have.
    #[error(
        "component {direction} {wanted}: this host has version {PACKAGE_VERSION} of skillrun:skill"
    )]
    UnknownVersion {
        /// `imports` or `exports`.
        direction: &'static str,
        /// The interface with its version.
        wanted: String,
    },
    /// The component imports something that this host does not have.
    #[error(
        "component imports {import}, which this host does not have: it has skillrun:skill@{PACKAGE_VERSION} and WASI 0.2 with wasi:http/outgoing-handler"
    )]
    MissingImport {
        /// The import as it stands in the component.
        import: String,
    },
    /// The component is an HTTP server.
    #[error(
        "component exports wasi:http/incoming-handler and nothing else, so it is an HTTP server, which is not supported: expected the world skill, a command or functions of its own"
    )]
    HttpServer,
    /// The component exports no handler, and no function that can be called with JSON.
    #[error(
        "component exports no skillrun:skill/handler@{PACKAGE_VERSION} and no function that can be called with JSON: found the exports {found}"
    )]
    NothingToCall {
        /// What it does export, each function with the reason why it cannot be called.
        found: String,
    },
    /// The component exports more functions than anyone could choose from.
    #[error("component exports too many functions: expected at most {functions_max}")]
    ManyFunctions {
        /// The largest number accepted.
        functions_max: usize,
    },
    /// A memory or a table is larger from the start than one in the pool may be.
    #[error("component needs {} = {needed}: this host has room for {allowed}", key.as_str())]
    DoesNotFit {
        /// The limit by which the pool is sized.
        key: LimitKey,
        /// What the component needs.
        needed: u64,
        /// What it can have.
        allowed: u64,
    },
    /// The engine refuses it.
    #[error("component refused: {reason}")]
    Invalid {
        /// What the engine said.
        reason: String,
    },
    /// It was not compiled in time. The compilation goes on as long as the process does, and what comes of
    /// it is kept.
    #[error("component was not compiled within {limit_ms} ms (engine.compile_time_ms)")]
    CompileTime {
        /// How long whoever asks for a component waits for it, in milliseconds.
        limit_ms: u64,
    },
    /// More of something than the compiler is given, whatever the component's size.
    #[error("component has {count} {what}: expected at most {count_max}")]
    TooComplex {
        /// What there is too much of.
        what: &'static str,
        /// How much there is, as far as it was counted.
        count: u64,
        /// The most that is accepted.
        count_max: u64,
    },
    /// More of something in one function than the compiler is given.
    #[error(
        "component has {count} {what}, which is function {function} of module {module}: expected at most {count_max}"
    )]
    FunctionTooComplex {
        /// The module, by its place among those of the component, from 0.
        module: u32,
        /// The function, by its index in the module, imported ones counted.
        function: u32,
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        count: u64,
        /// The most that is accepted.
        count_max: u64,
    },
    /// The compiler panicked on it.
    #[error("component refused: the compiler failed on it")]
    CompilerFailed,
    /// The engine that it needs cannot be made.
    #[error("no engine for a component that uses async")]
    Engine(#[source] EngineError),
}

impl LoadError {
    pub(crate) fn invalid(error: &wasmtime::Error) -> Self {
        Self::Invalid {
            reason: format!("{error:#}"),
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DoesNotFit { key, needed, .. } if *needed > key.max_value() => Some(format!(
                "no setting allows that much: limits.{} is at most {}",
                key.as_str(),
                key.max_value()
            )),
            Self::DoesNotFit { key, needed, .. } => Some(format!(
                "raise limits.{} in config.toml to {needed} or more, if the skill is meant to need it",
                key.as_str()
            )),
            Self::TooLarge { .. } => Some(format!(
                "raise engine.component_bytes_max in config.toml (at most {COMPONENT_BYTES_MAX}), if the component is meant to be that large"
            )),
            Self::Engine(error) => Some(error.hint()),
            Self::CompileTime { .. } => {
                Some("raise engine.compile_time_ms in config.toml".to_owned())
            }
            _ => None,
        }
    }
}

/// Tells a component from a core module and from anything else.
pub(crate) fn check_header(bytes: &[u8]) -> Result<(), LoadError> {
    let not_wasm = || LoadError::NotWasm {
        found: String::from_utf8_lossy(bytes.get(..16).unwrap_or(bytes)).into_owned(),
    };
    let version = bytes.strip_prefix(MAGIC).ok_or_else(not_wasm)?;
    if version.starts_with(COMPONENT_VERSION) {
        Ok(())
    } else if version.starts_with(MODULE_VERSION) {
        Err(LoadError::CoreModule)
    } else {
        Err(not_wasm())
    }
}

/// Whether a component imports the version of WASI whose functions may be `async`.
pub(crate) fn imports_async_wasi(engine: &Engine, component: &Component) -> bool {
    let component = component.component_type();
    component
        .imports(engine)
        .any(|(import, _)| import.starts_with("wasi:") && import.contains("@0.3."))
}

/// Whether a component reaches for files through that version, in which nobody would watch what it does
/// in a folder.
pub(crate) fn imports_async_files(engine: &Engine, component: &Component) -> bool {
    let component = component.component_type();
    component
        .imports(engine)
        .any(|(import, _)| import.starts_with("wasi:filesystem/") && import.contains("@0.3."))
}

/// What a component is, by what it exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum World {
    /// It follows our world `skill`.
    Skill,
    /// It follows our world `agent`.
    Agent,
    /// It follows no world of ours.
    Other,
}

/// Whether an export is the one by which a component is an HTTP server.
pub(super) fn is_http_handler(export: &str) -> bool {
    HTTP_HANDLERS.iter().any(|http| export.starts_with(http))
}

/// Checks that every import is one that this host has, and tells what the component is.
pub(crate) fn check_interfaces(engine: &Engine, component: &Component) -> Result<World, LoadError> {
    let component = component.component_type();
    let mut exports = component.exports(engine).map(|(name, _)| name);
    // Its imports are missing too, and would be told of instead.
    if exports.len() > 0 && exports.all(is_http_handler) {
        return Err(LoadError::HttpServer);
    }
    for (import, _) in component.imports(engine) {
        if let Some(interface) = import.strip_prefix(PACKAGE) {
            check_version("imports", import, interface)?;
        } else if !WASI_INTERFACES
            .iter()
            .any(|linked| import.starts_with(linked))
        {
            return Err(LoadError::MissingImport {
                import: import.to_owned(),
            });
        }
    }
    let exports: Vec<&str> = component.exports(engine).map(|(name, _)| name).collect();
    let is = |export: &&str, name: &str| {
        let interface = export.strip_prefix(PACKAGE);
        interface.is_some_and(|i| i.split('@').next() == Some(name))
    };
    if let Some(handler) = exports.iter().find(|export| is(export, HANDLER)) {
        return check_version("exports", handler, handler).map(|()| World::Skill);
    }
    if let Some(handler) = exports.iter().find(|export| is(export, SESSION_HANDLER)) {
        return check_version("exports", handler, handler).map(|()| World::Agent);
    }
    Ok(World::Other)
}

fn check_version(direction: &'static str, wanted: &str, interface: &str) -> Result<(), LoadError> {
    match interface.split_once('@') {
        Some((_, PACKAGE_VERSION)) => Ok(()),
        _ => Err(LoadError::UnknownVersion {
            direction,
            wanted: wanted.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;
    use wasmtime::component::Component;

    use super::imports_async_files;

    #[test]
    fn files_of_the_version_that_is_not_watched_are_found() {
        let engine = Engine::default();
        for (import, found) in [
            ("wasi:filesystem/preopens@0.3.0", true),
            ("wasi:filesystem/types@0.3.0", true),
            ("wasi:filesystem/types@0.2.3", false),
            ("wasi:cli/environment@0.3.0", false),
        ] {
            let text = format!("(component (import \"{import}\" (instance)))");
            let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
            assert_eq!(imports_async_files(&engine, &component), found, "{import}");
        }
    }
}
