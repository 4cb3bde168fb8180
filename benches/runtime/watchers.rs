//! One execution that many watch, beside the same with one who does.

use anyhow::Result;
use skillrun::runner::runtime_builder;
use skillrun::runtime::{EventKind, Runtime as _};
use tokio::task::JoinSet;

use crate::place::Place;
use crate::{median, micros_since, now};

const CHUNKS: usize = 10_000;
const ROUNDS: usize = 5;

pub(crate) fn of_one_execution() -> Result<()> {
    let home = tempfile::tempdir()?;
    let runtime = runtime_builder().build()?;
    runtime.block_on(async {
        let place = Place::new(home.path(), 4)?;
        let mut one = f64::NAN;
        for watchers in [1, 100] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(round(&place, watchers).await?);
            }
            let micros = median(rounds);
            if watchers == 1 {
                one = micros;
            }
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let rate = (watchers * CHUNKS) as f64 / micros;
            println!(
                "{CHUNKS} events to {watchers} subscribers: {:.0} ms until all have the last, {rate:.2} million a second, {:.2} x one subscriber",
                micros / 1e3,
                micros / one
            );
        }
        place.host.shutdown().await;
        Ok(())
    })
}

/// Microseconds until all who watch have seen the end of a turn.
async fn round(place: &Place, watchers: usize) -> Result<f64> {
    let id = place.ready().await?;
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        let mut events = place.runtime().subscribe_events(&id, None).await?;
        watching.spawn(async move {
            let mut chunks = 0;
            while let Some(event) = events.next().await? {
                match event.kind {
                    EventKind::MessageChunk { .. } => chunks += 1,
                    EventKind::Complete { .. } => break,
                    _ => {}
                }
            }
            anyhow::ensure!(chunks == CHUNKS, "{chunks} events of {CHUNKS}");
            Ok(())
        });
    }
    let since = now();
    place
        .runtime()
        .resume(&id, &format!("chunks {CHUNKS}"))
        .await?;
    while let Some(watched) = watching.join_next().await {
        watched??;
    }
    let micros = micros_since(since);
    place.runtime().stop(&id, "done").await?;
    Ok(micros)
}
