//! Tickets for readers that cannot send a header field, as browsers' `EventSource` cannot.
//!
//! A ticket stands in a URL, and URLs end up in places where no token should: so a ticket reads streams and nothing
//! else, the first stream that it opens is the only one that it opens, and it is soon worth nothing. `EventSource`
//! asks for the same URL again when it loses its connection; therefore a ticket stays good while a stream is open
//! that it opened, and for as long after that as it was before its first use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq as _;

use crate::clock::{Clock, Stopwatch, Timestamp};
use crate::ledger::Digest;

/// How long a ticket is good that no stream is open with.
const TICKET_TIME: Duration = Duration::from_secs(60);
/// How long a ticket is good at all: whoever watches for longer gets a new one.
const TICKET_LIFE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Tickets that are good at once. Protects the memory of the host, and the time that looking for one takes.
const TICKETS_MAX: usize = 1_024;

/// The tickets that are good. They are kept as digests, and in memory alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tickets(Arc<Mutex<Vec<Ticket>>>);

#[derive(Debug)]
struct Ticket {
    /// The digest of its text.
    digest: String,
    /// The path of the stream that it opens, once it opened one.
    path: Option<Box<str>>,
    /// Streams that are open with it.
    open: usize,
    /// Since it was made, or since the last stream was closed.
    idle: Stopwatch,
    life: Stopwatch,
}

impl Ticket {
    fn is_good(&self) -> bool {
        self.life.elapsed() < TICKET_LIFE_MAX
            && (self.open > 0 || self.idle.elapsed() < TICKET_TIME)
    }
}

/// A ticket that was just made.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) ticket: String,
    pub(super) expires_at: Timestamp,
}

/// A stream that is open with a ticket.
#[derive(Debug)]
pub(crate) struct TicketUse {
    tickets: Tickets,
    digest: String,
    clock: Clock,
}

impl Drop for TicketUse {
    fn drop(&mut self) {
        let mut tickets = self.tickets.all();
        if let Some(ticket) = tickets.iter_mut().find(|it| it.digest == self.digest) {
            ticket.open = ticket.open.saturating_sub(1);
            ticket.idle = self.clock.stopwatch();
        }
    }
}

impl Tickets {
    fn all(&self) -> MutexGuard<'_, Vec<Ticket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new ticket; none when there are as many as may be.
    pub(super) fn issue(&self, clock: &Clock) -> Option<Issued> {
        let (high, low) = rand::random::<(u128, u128)>();
        let ticket = format!("{high:032x}{low:032x}");
        let mut tickets = self.all();
        tickets.retain(Ticket::is_good);
        if tickets.len() >= TICKETS_MAX {
            return None;
        }
        tickets.push(Ticket {
            digest: digest_of(&ticket),
            path: None,
            open: 0,
            idle: clock.stopwatch(),
            life: clock.stopwatch(),
        });
        let time = i64::try_from(TICKET_TIME.as_micros()).unwrap_or(i64::MAX);
        let expires_at = clock.now().unix_micros().saturating_add(time);
        Some(Issued {
            ticket,
            expires_at: Timestamp::from_unix_micros(expires_at),
        })
    }

    /// Opens the stream at `path` with a ticket, if that is good for it. The time that it takes says nothing of the
    /// tickets there are.
    pub(crate) fn open(&self, text: &str, path: &str, clock: &Clock) -> Option<TicketUse> {
        let digest = digest_of(text);
        let mut tickets = self.all();
        tickets.retain(Ticket::is_good);
        let mut found = None;
        for (at, ticket) in tickets.iter().enumerate() {
            if bool::from(ticket.digest.as_bytes().ct_eq(digest.as_bytes())) {
                found = Some(at);
            }
        }
        let ticket = tickets.get_mut(found?)?;
        if ticket.path.as_deref().is_some_and(|bound| bound != path) {
            return None;
        }
        ticket.path = Some(path.into());
        ticket.open += 1;
        Some(TicketUse {
            tickets: self.clone(),
            digest,
            clock: clock.clone(),
        })
    }
}

fn digest_of(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000))
    }

    #[test]
    fn a_ticket_opens_one_stream_again_and_again_and_is_soon_worth_nothing() {
        let (tickets, clock) = (Tickets::default(), clock());
        let issued = tickets.issue(&clock).unwrap();
        let open = |path| tickets.open(&issued.ticket, path, &clock);
        assert!(tickets.open("none", "/a", &clock).is_none());
        let first = open("/a").unwrap();
        assert!(open("/b").is_none());
        let second = open("/a").unwrap();
        drop(first);
        clock.advance(TICKET_TIME * 10);
        drop(second);
        clock.advance(TICKET_TIME - Duration::from_micros(1));
        drop(open("/a").unwrap());
        clock.advance(TICKET_TIME);
        assert!(open("/a").is_none());
        assert!(tickets.all().is_empty());
    }

    #[test]
    fn a_ticket_that_is_never_used_expires_and_one_that_is_in_use_does_in_the_end() {
        let (tickets, clock) = (Tickets::default(), clock());
        let (unused, used) = (
            tickets.issue(&clock).unwrap(),
            tickets.issue(&clock).unwrap(),
        );
        let kept = tickets.open(&used.ticket, "/a", &clock);
        clock.advance(TICKET_TIME);
        assert_eq!(unused.expires_at, clock.now());
        assert!(tickets.open(&unused.ticket, "/a", &clock).is_none());
        assert!(tickets.open(&used.ticket, "/a", &clock).is_some());
        clock.advance(TICKET_LIFE_MAX);
        assert!(tickets.open(&used.ticket, "/a", &clock).is_none());
        drop(kept);
    }

    #[test]
    fn there_are_only_so_many_and_none_can_be_read_from_memory() {
        let (tickets, clock) = (Tickets::default(), clock());
        for _ in 0..TICKETS_MAX {
            let issued = tickets.issue(&clock).unwrap();
            assert!(!format!("{tickets:?}").contains(&issued.ticket));
        }
        assert!(tickets.issue(&clock).is_none());
        clock.advance(TICKET_TIME);
        assert!(tickets.issue(&clock).is_some());
    }
}
