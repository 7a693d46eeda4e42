//! Mailboxes: a name under which one session takes messages at once, in memory, without acknowledgement. What is posted
//! to one reaches its owner or is gone; nothing of it is stored.

use std::collections::HashMap;

use model::{FormatTag, Name};

use crate::SessionId;

/// Names a mailbox while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MailboxId(pub u64);

/// A message for the owner of a mailbox.
#[derive(Clone, Debug)]
pub struct Mail {
    /// Whose.
    pub mailbox: MailboxId,
    /// What the unit is.
    pub format: FormatTag,
    /// One unit that holds the one message.
    pub unit: bytes::Bytes,
}

/// All mailboxes.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    /// Tenant → name → mailbox.
    names: HashMap<Name, HashMap<Name, (MailboxId, SessionId)>>,
    last: u64,
}

impl Mailboxes {
    /// Whether there are none: then nobody need look.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Opens one; the name must be one that nobody has.
    pub(super) fn open(&mut self, session: SessionId, tenant: &Name, name: &Name) -> MailboxId {
        self.last += 1;
        let id = MailboxId(self.last);
        self.names.entry(tenant.clone()).or_default().insert(name.clone(), (id, session));
        id
    }

    /// Whose a name is.
    pub(super) fn find(&self, tenant: &str, name: &str) -> Option<(MailboxId, SessionId)> {
        self.names.get(tenant)?.get(name).copied()
    }

    /// Closes one.
    pub(super) fn close(&mut self, id: MailboxId) {
        self.retain(|(known, _)| *known != id);
    }

    /// Closes those of a session.
    pub(crate) fn session_closed(&mut self, session: SessionId) {
        if !self.is_empty() {
            self.retain(|(_, owner)| *owner != session);
        }
    }

    /// Closes those of a tenant.
    pub(crate) fn tenant_gone(&mut self, tenant: &str) {
        self.names.remove(tenant);
    }

    fn retain(&mut self, keep: impl Fn(&(MailboxId, SessionId)) -> bool) {
        self.names.retain(|_, names| {
            names.retain(|_, mailbox| keep(mailbox));
            !names.is_empty()
        });
    }
}
