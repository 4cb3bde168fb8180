//! What of WASI stands behind one instance: nothing but clocks, random numbers and the log, and beside
//! them what the run's policy names.
//!
//! What of it could differ from one run of the same guest to the next is ours: random numbers follow from
//! the run's seed, the clocks are in `src/executor/run_clock.rs`, and what became of a wait is on record;
//! see `src/executor/host/poll.rs`.

use rand::SeedableRng;
use rand::rngs::StdRng;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi_io::bindings::wasi::io;

use super::run_clock::RunClock;
use super::state::{HostState, Invocation, Origins};
use super::stdio::LineStream;

/// Random bytes that a guest is given at once. Protects the host's heap. WASI 0.2 has no way to give fewer
/// than were asked for, so there whoever asks for more is ended; WASI 0.3 lets the host give fewer.
pub(crate) const RANDOM_BYTES_MAX: u64 = 1024 * 1024;

/// The context of a run. What is printed becomes log lines; there are no sockets and no look-up of names,
/// and arguments and standard input for a command only. It holds no folder either: those are handed out by
/// [`HostState`], which watches what is done in them, and only through WASI 0.2.
pub(crate) fn context(
    stdout: &LineStream,
    stderr: &LineStream,
    clock: &RunClock,
    origins: Origins,
) -> WasiCtx {
    let mut secure = StdRng::from_seed(origins.seed);
    let insecure = StdRng::from_rng(&mut secure);
    let insecure_seed = rand::RngExt::random::<u128>(&mut secure);
    let mut builder = WasiCtx::builder();
    builder
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .wall_clock(clock.clone())
        .monotonic_clock(clock.clone())
        .secure_random(secure)
        .insecure_random(insecure)
        .insecure_random_seed(insecure_seed)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(Invocation { args, stdin }) = origins.invocation {
        builder.args(&args).stdin(MemoryInputPipe::new(stdin));
    }
    for (name, value) in &*origins.environment {
        builder.env(name, value);
    }
    builder.build()
}

/// Reaches the table of resources, which is all that the streams of `wasi:io` work on.
struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links WASI 0.2, interface by interface, so that a new one does not come in unseen. Whatever could
/// reach outside goes through [`HostState`], and the rest straight to `wasmtime-wasi`.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    type Own = HasSelf<HostState>;
    let l = linker;
    io::error::add_to_linker::<_, HasTable>(l, |state| &mut state.table)?;
    io::poll::add_to_linker::<_, Own>(l, |state| state)?;
    io::streams::add_to_linker::<_, HasTable>(l, |state| &mut state.table)?;

    clocks::wall_clock::add_to_linker::<_, WasiClocks>(l, HostState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, Own>(l, |state| state)?;
    random::random::add_to_linker::<_, Own>(l, |state| state)?;
    random::insecure::add_to_linker::<_, Own>(l, |state| state)?;
    random::insecure_seed::add_to_linker::<_, Own>(l, |state| state)?;

    cli::environment::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, HostState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, HostState::cli)?;

    filesystem::types::add_to_linker::<_, Own>(l, |state| state)?;
    filesystem::preopens::add_to_linker::<_, Own>(l, |state| state)?;

    sockets::tcp_create_socket::add_to_linker::<_, Own>(l, |state| state)?;
    sockets::udp_create_socket::add_to_linker::<_, Own>(l, |state| state)?;
    sockets::ip_name_lookup::add_to_linker::<_, Own>(l, |state| state)?;
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, Own>(l, &options, |state| state)?;
    // No socket is ever made, so there is nothing that these could be called on.
    sockets::instance_network::add_to_linker::<_, WasiSockets>(l, HostState::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(l, HostState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(l, HostState::sockets)?;
    Ok(())
}
