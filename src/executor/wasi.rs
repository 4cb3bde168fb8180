//! What of WASI stands behind one instance: nothing but clocks, random numbers and the log, and beside
//! them what the run's policy names.

use rand::SeedableRng;
use rand::rngs::StdRng;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::failure::Failure;
use super::state::{Invocation, Seed};
use super::stdio::LineStream;
use crate::capability::{Capability, FsAccess, Policy};
use crate::outcome::OutcomeCode;

/// Random bytes that a guest may ask for at once. Protects the host's heap.
pub(crate) const RANDOM_BYTES_MAX: u64 = 1024 * 1024;

/// The context of a run. What is printed becomes log lines; there are no sockets and no look-up of
/// names, and arguments and standard input for a command only.
///
/// # Errors
/// A folder that was granted cannot be opened.
pub(crate) fn context(
    policy: &Policy,
    stdout: &LineStream,
    stderr: &LineStream,
    seed: Seed,
    invocation: Option<Invocation>,
) -> Result<WasiCtx, Failure> {
    let mut secure = StdRng::from_seed(seed);
    let insecure = StdRng::from_rng(&mut secure);
    let insecure_seed = rand::RngExt::random::<u128>(&mut secure);
    let mut builder = WasiCtx::builder();
    builder
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .secure_random(secure)
        .insecure_random(insecure)
        .insecure_random_seed(insecure_seed)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(Invocation { args, stdin }) = invocation {
        builder.args(&args).stdin(MemoryInputPipe::new(stdin));
    }
    for capability in &policy.effective {
        grant(&mut builder, capability)?;
    }
    Ok(builder.build())
}

/// Puts one capability into the context, if WASI is what carries it.
fn grant(builder: &mut WasiCtxBuilder, capability: &Capability) -> Result<(), Failure> {
    match capability {
        Capability::Env { name } => {
            // A variable that is not set, or is no text, is not there for the guest either.
            if let Ok(value) = std::env::var(name) {
                builder.env(name, value);
            }
        }
        Capability::Fs {
            access,
            host_dir,
            guest_dir,
        } => {
            let perms = match access {
                FsAccess::ReadOnly => FsPerms::ReadOnly,
                FsAccess::ReadWrite => FsPerms::ReadWrite,
            };
            builder
                .preopened_dir(host_dir, guest_dir, perms)
                .map_err(|error| Failure {
                    hint: Some("the folder must exist before the skill is run".to_owned()),
                    ..Failure::new(
                        OutcomeCode::LoadError,
                        format!("cannot open the folder of {capability}: {error:#}"),
                    )
                })?;
        }
        _ => {}
    }
    Ok(())
}
