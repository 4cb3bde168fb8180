//! An agent that is launched, prompted and stopped by a program: the answer is printed as it comes.
//!
//! `cargo run --example agent -- <home folder> <agent> <prompt>...`
#![expect(clippy::print_stdout, reason = "the answer is what the example is for")]

use std::env;
use std::error::Error;
use std::path::Path;

use skillrun::Skillrun;
use skillrun::config::Config;
use skillrun::runtime::{EventKind, LaunchSpec, Runtime as _};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [home, agent, prompts @ ..] = arguments.as_slice() else {
        return Err("expected: <home folder> <agent> <prompt>...".into());
    };
    let host = Skillrun::builder(Config::load(Path::new(home))?).build()?;
    let ended = talk(&host, agent, prompts).await;
    // What goes on has its end on record before the program goes.
    host.shutdown().await;
    ended
}

async fn talk(host: &Skillrun, agent: &str, prompts: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = host.runtime();
    let spec = LaunchSpec {
        agent_profile_id: agent.to_owned(),
        ..LaunchSpec::default()
    };
    let id = runtime.launch(spec).await?.id.to_string();
    let mut events = runtime.subscribe_events(&id, None).await?;
    let show = async {
        while let Some(event) = events.next().await? {
            match event.kind {
                EventKind::MessageChunk { text } => print!("{text}"),
                EventKind::Complete { .. } => println!(),
                EventKind::Stopped { status, .. } => println!("{status}"),
                _ => {}
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let prompt = async {
        for prompt in prompts {
            let turn = runtime.resume(&id, prompt).await?;
            if let Some(error) = turn.error {
                println!("error: {error}");
            }
        }
        runtime.stop(&id, "nothing more to say").await?;
        Ok(())
    };
    tokio::try_join!(show, prompt)?;
    Ok(())
}
