//! The one consumer of direct answers that a channel may have.

use broker::routing::MailboxId;
use model::Name;

/// It.
#[derive(Debug)]
pub struct Reply {
    /// Where answers come in.
    pub id: MailboxId,
    /// The name that questions carry.
    pub name: Name,
    /// Its consumer tag.
    pub tag: String,
}
