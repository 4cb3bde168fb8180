//! What a service manager is told. Without one, nobody is told anything.

use std::convert::Infallible;
use std::time::Duration;

use sd_notify::NotifyState;

/// The shortest time between two signs of life. Protects from a manager that asks for one all the time.
const WATCHDOG_INTERVAL_MIN: Duration = Duration::from_millis(10);

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}

/// Requests are answered, after the start or after a new configuration.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A new configuration is being taken over; [`ready`] follows.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot tell the service manager"),
    }
}

/// The process is about to end.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Gives signs of life twice as often as the manager asks for, for as long as tasks are carried out.
pub(super) async fn watchdog() -> Infallible {
    let Some(asked) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let mut looks = tokio::time::interval((asked / 2).max(WATCHDOG_INTERVAL_MIN));
    loop {
        looks.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}
