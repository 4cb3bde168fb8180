//! The bodies of requests: read whole before anything is done with them, and bounded all together.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Problem, ProblemCode};
use super::refusal::RETRY_AFTER_VALUE;

/// Bytes of all bodies together that are held at once. Protects the memory from many large requests, each of which
/// is within its own bound.
const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of every body that are not counted. Protects requests of the usual size from being refused for the sake of
/// large ones.
const BODY_BYTES_UNCOUNTED: usize = 64 * 1024;

/// The room for bodies.
#[derive(Debug)]
pub(crate) struct Bodies(Arc<Semaphore>);

impl Default for Bodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BODIES_BYTES_MAX)))
    }
}

/// The room that one body takes, until the request is answered or [`BodyRoom::release`] is called.
#[derive(Debug, Clone)]
pub(crate) struct BodyRoom(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl BodyRoom {
    /// Says that the body is no longer held, which whoever waits for long does not have to.
    pub(crate) fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Bodies {
    /// Reads a body to its end.
    ///
    /// # Errors
    /// It has more than `bytes_max` bytes, does not come whole, or there is no room for it.
    pub(crate) async fn read(
        &self,
        body: Body,
        bytes_max: usize,
    ) -> Result<(Bytes, BodyRoom), Problem> {
        let mut body = Limited::new(body, bytes_max);
        let mut read = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| unread(&*error))?.into_data() else {
                continue;
            };
            let counted = read.len().saturating_add(data.len());
            let counted = counted.saturating_sub(BODY_BYTES_UNCOUNTED);
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if counted > held {
                let more = self.take(counted.saturating_sub(held))?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
            }
            read.extend_from_slice(&data);
        }
        Ok((read.freeze(), BodyRoom(Arc::new(Mutex::new(room)))))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let taken = u32::try_from(bytes)
            .ok()
            .and_then(|bytes| Arc::clone(&self.0).try_acquire_many_owned(bytes).ok());
        taken.ok_or_else(|| {
            let detail = format!(
                "the bodies of all requests have more than {BODIES_BYTES_MAX} bytes together"
            );
            Problem::new(ProblemCode::Busy, detail).with_header(RETRY_AFTER, RETRY_AFTER_VALUE)
        })
    }
}

/// Why a body did not come.
fn unread(error: &(dyn std::error::Error + 'static)) -> Problem {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    Problem::of_status(match causes.any(|cause| cause.is::<LengthLimitError>()) {
        true => StatusCode::PAYLOAD_TOO_LARGE,
        false => StatusCode::BAD_REQUEST,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest body that there may be.
    const LARGE_BYTES: usize = 64 * 1024 * 1024;

    async fn read(bodies: &Bodies, bytes: usize) -> Result<BodyRoom, ProblemCode> {
        let body = Body::from(vec![b' '; bytes]);
        let read = bodies.read(body, LARGE_BYTES).await;
        let (read, room) = read.map_err(|problem| problem.code())?;
        assert_eq!(read.len(), bytes);
        Ok(room)
    }

    #[tokio::test]
    async fn large_bodies_have_so_much_room_together_and_small_ones_always_have_some() {
        let bodies = Bodies::default();
        let mut rooms = Vec::new();
        while let Ok(room) = read(&bodies, LARGE_BYTES).await {
            rooms.push(room);
        }
        assert_eq!(rooms.len(), BODIES_BYTES_MAX / LARGE_BYTES);
        assert!(read(&bodies, BODY_BYTES_UNCOUNTED).await.is_ok());
        let refused = read(&bodies, LARGE_BYTES).await;
        assert_eq!(refused.unwrap_err(), ProblemCode::Busy);
        // One that was refused keeps nothing, and one that is let go leaves its room.
        rooms.pop().unwrap().release();
        assert!(read(&bodies, LARGE_BYTES).await.is_ok());
        drop(rooms);
        assert_eq!(bodies.0.available_permits(), BODIES_BYTES_MAX);
        let refused = read(&bodies, LARGE_BYTES + 1).await;
        assert_eq!(refused.unwrap_err(), ProblemCode::TooLarge);
    }
}
