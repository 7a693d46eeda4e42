//! Dead messages on their way back, a batch each turn.

use broker::queue::DeliveryKey;
use broker::redrive::{RedriveAsk, RedriveNext};
use broker::{Broker, CallId, Lsn, SessionId};
use model::{Name, Now};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Call, Handled};
use crate::http::Response;
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// Messages moved by one request; the answer says whether there are more.
const MOVED_MAX: u64 = 10_000;

/// Messages that cannot be moved, after which the others behind them are left.
const KEPT_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    to: Option<String>,
    limit: u64,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { to: None, limit: MOVED_MAX }
    }
}

/// A request under way.
#[derive(Debug)]
struct Redriving {
    tenant: Name,
    queue: String,
    to: Option<String>,
    left: u64,
    moved: u64,
    kept: Vec<DeliveryKey>,
    why: Option<String>,
    lsn: Lsn,
}

/// `POST /api/v1/queues/{}/redrive`: `{"to": "queue", "limit": 100}`, both may be left out.
pub fn redrive(call: &mut Call<'_>) -> Handled {
    let asked: Asked = if call.body.is_empty() { Asked::default() } else { call.json()? };
    if !(1..=MOVED_MAX).contains(&asked.limit) {
        let why = format!("limit is from 1 to {MOVED_MAX}; ask again as long as the answer says that there is more");
        return Err(Refusal::bad_request(why));
    }
    let (tenant, queue) = (call.tenant()?, call.name().to_owned());
    let (moved, kept, why, lsn) = (0, Vec::new(), None, Lsn::default());
    let work = Redriving { tenant, queue, to: asked.to, left: asked.limit, moved, kept, why, lsn };
    Ok(Answer::worked(call.call, work))
}

impl Work for Redriving {
    fn step(&mut self, broker: &mut Broker, who: (SessionId, CallId), now: Now) -> Result<Step, Refusal> {
        let ask = RedriveAsk { tenant: &self.tenant, queue: &self.queue, to: self.to.as_deref(), count_max: self.left };
        let done = match broker.redrive(who, &ask, now) {
            Ok(done) => done,
            Err(error) => {
                broker.put_back(who.0, &self.kept);
                let mut refusal = Refusal::from(error);
                if self.moved > 0 {
                    refusal.reason = format!("{} ({} messages were moved before)", refusal.reason, self.moved);
                }
                return Err(refusal);
            }
        };
        self.left -= done.moved;
        self.moved += done.moved;
        self.kept.extend(done.kept);
        self.why = self.why.take().or(done.why);
        self.lsn = self.lsn.max(done.lsn);
        let is_over = self.left == 0 || self.kept.len() >= KEPT_MAX || done.next == RedriveNext::End;
        if !is_over {
            return Ok(if done.next == RedriveNext::Waits { Step::Waits } else { Step::NextTurn });
        }
        broker.put_back(who.0, &self.kept);
        let more = done.next != RedriveNext::End && self.left == 0;
        let body = json!({ "moved": self.moved, "kept": self.kept.len(), "why": self.why, "more": more });
        Ok(Step::Done(Response::json(200, &body), self.lsn))
    }

    fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<DeliveryKey>()
    }
}
