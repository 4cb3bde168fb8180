//! From a granted name to the addresses that may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use tokio::sync::Semaphore;

use super::error::ExchangeError;
use crate::capability::{Target, address_class};

/// Milliseconds for one look-up. Protects requests from a name server that is silent; the system's own
/// resolver asks two of them twice in that time.
const RESOLVE_TIME_MS_MAX: u64 = 10_000;
/// Addresses of one name that are looked at. Protects the time of a request from a name with thousands.
const ADDRESSES_MAX: usize = 16;
/// Look-ups of the process that take up a thread at once; further ones wait, in the time of their
/// requests. The system's resolver cannot be stopped, and goes on when nobody waits for it any more.
/// Protects the threads on which ledgers are synced.
const LOOK_UPS_MAX: usize = 16;

static LOOK_UPS: Semaphore = Semaphore::const_new(LOOK_UPS_MAX);

/// Who knows the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, a DNS name in lower case, in the order in which they should be tried.
    ///
    /// # Errors
    /// There are none, or nobody could be asked.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver, on threads of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let look_up = move || {
            let found = (host.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        };
        on_a_thread(&LOOK_UPS, look_up).await
    }
}

/// Does the work on a thread of its own, when there is a place for it. The place is free when the work
/// is done, also if nobody waits for that.
async fn on_a_thread<T: Send + 'static>(
    places: &'static Semaphore,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = places.acquire().await.map_err(io::Error::other)?;
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    working.await.map_err(io::Error::other)?
}

/// Addresses that may be connected to, at least one; or one that may not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Usable(Vec<SocketAddr>),
    /// None is left, for what the first one is.
    Prohibited(IpAddr, &'static str),
}

/// The addresses of the target's host. A host that is itself an address was granted as that address. Of
/// a name's addresses, those that are not public are left out, unless they are allowed.
pub(super) async fn addresses(
    resolver: &dyn Resolve,
    allowed: &[IpNet],
    target: &Target,
    time_max: Duration,
) -> Result<Found, ExchangeError> {
    if let Some(address) = target.address {
        let address = SocketAddr::new(address.to_canonical(), target.port);
        return Ok(Found::Usable(vec![address]));
    }
    let time = time_max.min(Duration::from_millis(RESOLVE_TIME_MS_MAX));
    let resolved = tokio::time::timeout(time, resolver.resolve(&target.host))
        .await
        .map_err(|_elapsed| ExchangeError::ResolveTime {
            ms: time.as_millis(),
        })?
        .map_err(|error| ExchangeError::Resolve {
            reason: error.to_string(),
        })?;
    let mut usable = Vec::new();
    let mut prohibited = None;
    for address in resolved.into_iter().take(ADDRESSES_MAX) {
        match class(address, allowed) {
            None => {
                let address = SocketAddr::new(address.to_canonical(), target.port);
                if !usable.contains(&address) {
                    usable.push(address);
                }
            }
            Some(class) => prohibited = prohibited.or(Some((address, class))),
        }
    }
    match prohibited {
        Some((address, class)) if usable.is_empty() => Ok(Found::Prohibited(address, class)),
        _ if usable.is_empty() => Err(ExchangeError::Resolve {
            reason: "no address".to_owned(),
        }),
        _ => Ok(Found::Usable(usable)),
    }
}

fn class(address: IpAddr, allowed: &[IpNet]) -> Option<&'static str> {
    let forms = [address, address.to_canonical()];
    let is_allowed = |net: &IpNet| forms.iter().any(|form| net.contains(form));
    if allowed.iter().any(is_allowed) {
        return None;
    }
    address_class(address)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::sync::mpsc;
    use std::time::Duration;

    use async_trait::async_trait;
    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::{ExchangeError, Found, Resolve, SystemResolver, addresses, on_a_thread};
    use crate::capability::Target;

    struct Fixed(&'static [&'static str]);

    #[async_trait]
    impl Resolve for Fixed {
        async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    struct Silent;

    #[async_trait]
    impl Resolve for Silent {
        async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            std::future::pending().await
        }
    }

    async fn found(
        resolver: &dyn Resolve,
        allowed: &[&str],
        authority: &str,
    ) -> Result<Found, ExchangeError> {
        let target = Target::parse("GET", "http", authority, "/").unwrap();
        let allowed: Vec<_> = allowed.iter().map(|net| net.parse().unwrap()).collect();
        addresses(resolver, &allowed, &target, Duration::from_secs(60)).await
    }

    #[tokio::test]
    async fn only_addresses_that_may_be_connected_to_are_left() {
        let usable = |texts: &[&str]| {
            let addresses = texts.iter().map(|text| text.parse::<SocketAddr>().unwrap());
            Ok(Found::Usable(addresses.collect()))
        };
        let mixed = Fixed(&["127.0.0.1", "1.1.1.1", "::ffff:1.1.1.1", "10.0.0.1"]);
        assert_eq!(found(&mixed, &[], "a").await, usable(&["1.1.1.1:80"]));
        assert_eq!(
            found(&mixed, &["10.0.0.0/8"], "a:81").await,
            usable(&["1.1.1.1:81", "10.0.0.1:81"])
        );
        let private = Fixed(&["::ffff:169.254.169.254", "::1"]);
        assert_eq!(
            found(&private, &[], "a").await,
            Ok(Found::Prohibited(
                "::ffff:169.254.169.254".parse().unwrap(),
                "metadata"
            ))
        );
        assert_eq!(
            found(&private, &["169.254.169.254/32"], "a").await,
            usable(&["169.254.169.254:80"])
        );
        // An address needs no look-up, and was granted as that address.
        assert_eq!(
            found(&Silent, &[], "127.0.0.1:9").await,
            usable(&["127.0.0.1:9"])
        );
    }

    #[tokio::test]
    async fn a_look_up_that_nobody_waits_for_keeps_its_place_until_it_is_over() {
        static PLACES: Semaphore = Semaphore::const_new(1);
        let (answer, answered) = mpsc::channel::<()>();
        let silent = move || {
            answered.recv().unwrap();
            Ok(())
        };
        let mut given_up = Box::pin(on_a_thread(&PLACES, silent));
        assert!((&mut given_up).now_or_never().is_none());
        drop(given_up);
        assert!(PLACES.try_acquire().is_err());
        let mut next = Box::pin(on_a_thread(&PLACES, || Ok(7)));
        assert!((&mut next).now_or_never().is_none());
        answer.send(()).unwrap();
        assert_eq!(next.await.unwrap(), 7);
        assert_eq!(PLACES.available_permits(), 1);
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let found = SystemResolver.resolve("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_ends() {
        assert!(matches!(
            found(&Silent, &[], "a").await,
            Err(ExchangeError::ResolveTime { ms: 10_000 })
        ));
        assert!(matches!(
            found(&Fixed(&[]), &[], "a").await,
            Err(ExchangeError::Resolve { .. })
        ));
    }
}
