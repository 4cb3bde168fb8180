//! From a launch to an agent that is ready, and one prompt, beside one run of a skill that does nothing.

use anyhow::Result;
use skillrun::runner::{Caller, JsonObject, StartOptions, runtime_builder};
use skillrun::runtime::Runtime as _;

use crate::place::Place;
use crate::{median, micros_since, now};

const ROUNDS: usize = 300;

pub(crate) fn beside_a_run() -> Result<()> {
    let home = tempfile::tempdir()?;
    let runtime = runtime_builder().build()?;
    runtime.block_on(async {
        let place = Place::new(home.path(), 4)?;
        let warm = place.ready().await?;
        place.runtime().stop(&warm, "warm").await?;
        let (mut launches, mut stops, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let since = now();
            let id = place.ready().await?;
            launches.push(micros_since(since));
            let since = now();
            place.runtime().stop(&id, "done").await?;
            stops.push(micros_since(since));
            let input = JsonObject::parse(r#"{"verb":"noop"}"#)?;
            let since = now();
            let run = StartOptions::new("probe", input);
            place.host.runner().run(Caller::new(), run).await?;
            runs.push(micros_since(since));
        }
        let id = place.ready().await?;
        let mut prompts = Vec::new();
        for _ in 0..ROUNDS {
            let since = now();
            place.runtime().resume(&id, "echo x").await?;
            prompts.push(micros_since(since));
        }
        place.runtime().stop(&id, "done").await?;
        let run = median(runs);
        for (what, figures) in [
            ("launch to ready", launches),
            ("stop", stops),
            ("prompt", prompts),
        ] {
            let figure = median(figures);
            println!(
                "{what}: {figure:.0} µs, {:.2} x a run of a skill that does nothing ({run:.0} µs)",
                figure / run
            );
        }
        place.host.shutdown().await;
        Ok(())
    })
}
