//! Terminals: each user has a thread and an event loop of its own, as every terminal of a real
//! system waits for its own reply.
//!
//! One loop for all users would read replies in one order, and a simulation that replays that
//! loop on another machine could not let users overtake one another.

use tokio::runtime::{Builder, Runtime};

use super::engine::{Engine, RoundTrip};
use super::user::User;
use crate::{Error, Result};

/// A user with the event loop that drives its connection.
#[derive(Debug)]
pub struct Terminal<S> {
    /// Nothing moves on the connection unless this runs. Present until the terminal is dropped.
    runtime: Option<Runtime>,
    /// The user.
    pub user: User<S>,
}

impl<S: Send> Terminal<S> {
    /// Connects a user; `make` turns the connection into the user.
    ///
    /// # Errors
    /// When no event loop can be made, or the server is not reachable.
    pub fn open<E: Engine<Session = S>>(
        engine: &E,
        round_trip: RoundTrip,
        make: impl FnOnce(S) -> User<S>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Environment(format!("no event loop: {error}")))?;
        let session = aside(|| runtime.block_on(engine.session(round_trip)))?;
        Ok(Terminal { runtime: Some(runtime), user: make(session) })
    }
}

impl<S> Drop for Terminal<S> {
    fn drop(&mut self) {
        // The control connection's event loop may be running here, where none may be waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `work` on a thread of its own: an event loop cannot run inside another one's thread.
fn aside<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| joined(scope.spawn(work)))
}

fn joined<R>(thread: std::thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets every user do `work` at once, each on its own thread; the results are in the users' order.
///
/// The threads keep the program's name, by which a capture knows the client.
///
/// # Panics
/// When the work of a user panics.
pub fn each<S: Send, R: Send>(
    terminals: &mut [Terminal<S>],
    work: impl AsyncFn(&mut User<S>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = terminals
            .iter_mut()
            .map(|Terminal { runtime, user }| {
                let runtime = runtime.as_ref().expect("present until dropped");
                scope.spawn(move || runtime.block_on(work(user)))
            })
            .collect();
        threads.into_iter().map(joined).collect()
    })
}
