//! The control: wasmtime alone, with the engine configuration of the executor.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    Component, ComponentExportIndex, InstancePre, Linker, ResourceTable, ResourceType,
};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    Error as HttpError, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
    WasiHttpView,
};

use crate::engine_config::{PoolSize, engine_config};

/// The pool of ours under its default limits.
pub(crate) const POOL: PoolSize = PoolSize {
    instances_max: 256,
    memory_bytes_max: 256 * 1024 * 1024,
    table_elements_max: 20_000,
};

/// A line about as long as an event.
const LINE: &[u8] = &[b'x'; 600];

pub(crate) struct Raw {
    engine: Engine,
    bounded: bool,
    pre: InstancePre<State>,
    run: ComponentExportIndex,
    folder: TempDir,
}

const NOOP: &str = r#"{"verb":"noop"}"#;

/// What is written beside each call.
#[derive(Clone, Copy)]
pub(crate) enum Files {
    None,
    /// Two writes to a file that stays open.
    OneOpen,
    /// A file of the call's own: made, locked, written twice, closed.
    OneEach,
}

pub(crate) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    http: WasiHttpCtx,
    requests: Refused,
}

/// Answers every request with an error; the call that is measured makes none.
struct Refused;

impl WasiHttpHooks for Refused {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _trailers: Box<dyn Future<Output = Result<(), HttpError>> + Send>,
    ) -> Box<dyn Future<Output = Result<Response, HttpError>> + Send> {
        Box::new(std::future::ready(Err(HttpError::HttpRequestDenied)))
    }
}

type Response = (
    http::Response<WasiBody>,
    Box<dyn Future<Output = Result<(), HttpError>> + Send>,
);

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.requests,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl Raw {
    /// The component on an engine that is `bounded` as ours is, by fuel and epochs, or by neither.
    pub(crate) fn new(wasm: &Path, bounded: bool) -> Result<Self> {
        let mut config = engine_config(POOL, false);
        config.consume_fuel(bounded).epoch_interruption(bounded);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, fs::read(wasm)?)?;
        let mut linker = Linker::<State>::new(&engine);
        link_wasi(&mut linker)?;
        stub_host_interfaces(&mut linker, &engine, &component)?;
        let handler = component
            .get_export_index(None, "skillrun:skill/handler@0.1.0")
            .context("no handler")?;
        let run = component
            .get_export_index(Some(&handler), "run")
            .context("no run")?;
        Ok(Self {
            pre: linker.instantiate_pre(&component)?,
            engine,
            bounded,
            run,
            folder: tempfile::tempdir()?,
        })
    }

    /// One call with this input.
    pub(crate) fn once(&self, input: &str) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        runtime.block_on(self.call(input))
    }

    pub(crate) fn calls(&self, calls: u32, files: Files) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let folder = tempfile::tempdir_in(&self.folder)?;
        let mut open = File::create(folder.path().join("open"))?;
        runtime.block_on(async {
            for call in 0..calls {
                match files {
                    Files::None => self.call(NOOP).await?,
                    Files::OneOpen => {
                        open.write_all(LINE)?;
                        self.call(NOOP).await?;
                        open.write_all(LINE)?;
                    }
                    Files::OneEach => {
                        let path = folder.path().join(call.to_string());
                        let mut own = OpenOptions::new()
                            .append(true)
                            .create_new(true)
                            .open(path)?;
                        flock(&own, FlockOperation::NonBlockingLockExclusive)?;
                        own.write_all(LINE)?;
                        self.call(NOOP).await?;
                        own.write_all(LINE)?;
                    }
                }
            }
            Ok(())
        })
    }

    async fn call(&self, input: &str) -> Result<()> {
        let state = State {
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
            http: WasiHttpCtx::new(),
            requests: Refused,
        };
        let mut store = Store::new(&self.engine, state);
        if self.bounded {
            store.set_fuel(u64::MAX)?;
            store.set_epoch_deadline(1);
            store.epoch_deadline_async_yield_and_update(1);
        }
        let instance = self.pre.instantiate_async(&mut store).await?;
        let run = instance.get_func(&mut store, self.run).context("no run")?;
        let run = run.typed::<(&str,), (Result<String, SkillError>,)>(&store)?;
        let (result,) = run.call_async(&mut store, (input,)).await?;
        anyhow::ensure!(result.is_ok(), "the guest failed");
        Ok(())
    }

    pub(crate) fn on_threads(&self, threads: u32, calls: u32) -> Result<()> {
        thread::scope(|scope| {
            let work: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| self.calls(calls, Files::None)))
                .collect();
            for thread in work {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            Ok(())
        })
    }
}

/// Links all that we link of WASI.
pub(crate) fn link_wasi(linker: &mut Linker<State>) -> Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    Ok(())
}

/// Defines the interfaces of skills. The call that is measured makes no host call, so what is behind
/// them does not matter.
pub(crate) fn stub_host_interfaces(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
) -> Result<()> {
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else {
            continue;
        };
        if !name.starts_with("skillrun:skill/") {
            continue;
        }
        let mut stubs = linker.instance(name)?;
        for (item, export) in interface.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    stubs.func_new(item, |_, _, _, _| wasmtime::bail!("a host call"))?;
                }
                ComponentItem::Resource(_) => {
                    stubs.resource(item, ResourceType::host::<()>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[derive(wasmtime::component::ComponentType, wasmtime::component::Lift)]
#[component(record)]
struct SkillError {
    #[expect(dead_code, reason = "read by nobody, lifted as ours is")]
    message: String,
    #[expect(dead_code, reason = "read by nobody, lifted as ours is")]
    code: String,
    #[expect(dead_code, reason = "read by nobody, lifted as ours is")]
    details: String,
}
