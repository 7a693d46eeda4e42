//! Requests that take more than one turn: a part is done in each, so that messages go on between.

use broker::{Broker, CallId, Lsn, SessionId};
use model::Now;

use crate::http::Response;
use crate::refusal::Refusal;

/// What one step came to.
#[derive(Debug)]
pub enum Step {
    /// The answer, to be held back until synced up to there.
    Done(Response, Lsn),
    /// It goes on in the next turn.
    NextTurn,
    /// It goes on when what was asked of the core is there: [`broker::Event::GetReady`].
    Waits,
}

/// Work under way. What it holds of the core goes back when its session closes.
pub trait Work: Send + std::fmt::Debug {
    /// Does the next part.
    ///
    /// # Errors
    /// What is answered instead; then it holds nothing any more.
    fn step(&mut self, broker: &mut Broker, who: (SessionId, CallId), now: Now) -> Result<Step, Refusal>;

    /// Bytes of memory it takes, about.
    fn memory_bytes(&self) -> usize;
}
