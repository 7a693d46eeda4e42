//! The connections of this shard by session, and how many each user and tenant has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::Name;

use super::{ChannelFigures, ConnectionFigures, ConnectionInfo, ConsumerLabel, Sums, Totals};
use crate::SessionId;
use crate::queue::ConsumerId;

/// A connection as it stands.
#[derive(Debug)]
pub struct Connection {
    /// What it is.
    pub info: ConnectionInfo,
    /// What it counts.
    pub figures: Arc<ConnectionFigures>,
    /// Its channels by number.
    pub channels: BTreeMap<u16, Arc<ChannelFigures>>,
    consumers: BTreeSet<ConsumerId>,
}

/// How much somebody has open.
#[derive(Clone, Copy, Default)]
pub(crate) struct Open {
    pub(crate) connections: usize,
    pub(crate) channels: usize,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Connections {
    by_session: BTreeMap<SessionId, Connection>,
    labels: BTreeMap<ConsumerId, ConsumerLabel>,
    by_user: HashMap<Name, Open>,
    by_tenant: HashMap<Name, Open>,
    /// Of what has been, without the messages of channels that are open.
    pub(crate) past: Totals,
}

impl Connections {
    /// A client has logged in.
    pub(super) fn opened(&mut self, info: ConnectionInfo) -> Arc<ConnectionFigures> {
        self.closed(info.session); // a session logs in once
        self.past.connections_opened += 1;
        self.by_user.entry(info.user.clone()).or_default().connections += 1;
        self.by_tenant.entry(info.tenant.clone()).or_default().connections += 1;
        let figures = Arc::<ConnectionFigures>::default();
        let connection =
            Connection { figures: Arc::clone(&figures), channels: BTreeMap::new(), consumers: BTreeSet::new(), info };
        self.by_session.insert(connection.info.session, connection);
        figures
    }

    /// A connection has gone, with its channels and consumers.
    pub(crate) fn closed(&mut self, session: SessionId) {
        let Some(connection) = self.by_session.remove(&session) else { return };
        self.past.connections_closed += 1;
        let channels = connection.channels.len();
        for figures in connection.channels.values() {
            self.past.channels_closed += 1;
            self.past.messages.add(&figures.sums());
        }
        let info = &connection.info;
        for (counts, name) in [(&mut self.by_user, &info.user), (&mut self.by_tenant, &info.tenant)] {
            let Some(open) = counts.get_mut(name) else { continue };
            open.connections = open.connections.saturating_sub(1);
            open.channels = open.channels.saturating_sub(channels);
            if open.connections == 0 {
                counts.remove(name);
            }
        }
        for consumer in connection.consumers {
            self.labels.remove(&consumer);
        }
    }

    /// A connection has opened a channel.
    pub(super) fn channel_opened(&mut self, session: SessionId, number: u16) -> Arc<ChannelFigures> {
        let figures = Arc::<ChannelFigures>::default();
        let Some(connection) = self.by_session.get_mut(&session) else { return figures };
        if let Some(before) = connection.channels.insert(number, Arc::clone(&figures)) {
            self.past.messages.add(&before.sums());
            self.past.channels_closed += 1;
        } else {
            count_channels(&mut self.by_user, &connection.info.user, 1);
            count_channels(&mut self.by_tenant, &connection.info.tenant, 1);
        }
        self.past.channels_opened += 1;
        figures
    }

    /// … and closed one.
    pub(super) fn channel_closed(&mut self, session: SessionId, number: u16) {
        let Some(connection) = self.by_session.get_mut(&session) else { return };
        let Some(figures) = connection.channels.remove(&number) else { return };
        count_channels(&mut self.by_user, &connection.info.user, -1);
        count_channels(&mut self.by_tenant, &connection.info.tenant, -1);
        self.past.channels_closed += 1;
        self.past.messages.add(&figures.sums());
    }

    /// A session has started a consumer.
    pub(super) fn label(&mut self, consumer: ConsumerId, label: ConsumerLabel) {
        if let Some(connection) = self.by_session.get_mut(&label.session) {
            connection.consumers.insert(consumer);
            if let Some(figures) = connection.channels.get(&label.channel) {
                figures.consumers.add(1);
            }
        }
        self.labels.insert(consumer, label);
    }

    /// A consumer has gone.
    pub(crate) fn consumer_closed(&mut self, consumer: ConsumerId) {
        let Some(label) = self.labels.remove(&consumer) else { return };
        let Some(connection) = self.by_session.get_mut(&label.session) else { return };
        connection.consumers.remove(&consumer);
        if let Some(figures) = connection.channels.get(&label.channel) {
            figures.consumers.take(1);
        }
    }

    /// How many consumers there are.
    pub(super) fn consumers_count(&self) -> usize {
        self.labels.len()
    }

    /// What a session said of a consumer.
    pub(crate) fn label_of(&self, consumer: ConsumerId) -> Option<&ConsumerLabel> {
        self.labels.get(&consumer)
    }

    /// All consumers that sessions have said something of.
    pub(super) fn labels(&self) -> impl Iterator<Item = (ConsumerId, &ConsumerLabel)> {
        self.labels.iter().map(|(id, label)| (*id, label))
    }

    /// One of them.
    pub(super) fn get(&self, session: SessionId) -> Option<&Connection> {
        self.by_session.get(&session)
    }

    /// All of them, in the order they came.
    pub(super) fn all(&self) -> impl Iterator<Item = &Connection> {
        self.by_session.values()
    }

    /// What a user has open.
    pub(super) fn of_user(&self, user: &str) -> Open {
        self.by_user.get(user).copied().unwrap_or_default()
    }

    /// What is open in a tenant.
    pub(super) fn of_tenant(&self, tenant: &str) -> Open {
        self.by_tenant.get(tenant).copied().unwrap_or_default()
    }

    /// What has been counted since the start, the channels that are open with it.
    pub(super) fn totals(&self) -> Totals {
        let mut messages: Sums = self.past.messages;
        for figures in self.by_session.values().flat_map(|connection| connection.channels.values()) {
            messages.add(&figures.sums());
        }
        Totals { messages, ..self.past }
    }
}

fn count_channels(counts: &mut HashMap<Name, Open>, name: &Name, more: isize) {
    if let Some(open) = counts.get_mut(name) {
        open.channels = open.channels.saturating_add_signed(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Wall;

    fn info(session: u64, user: &'static str) -> ConnectionInfo {
        ConnectionInfo {
            session: SessionId(session),
            tongue: "t",
            protocol: "T 1",
            user: Name::fixed(user),
            tenant: Name::fixed("/"),
            peer: ([127, 0, 0, 1], 40000).into(),
            own: ([127, 0, 0, 1], 1).into(),
            encryption: None,
            mechanism: String::new(),
            properties: Vec::new(),
            timeout_seconds: 0,
            frame_bytes_max: 0,
            channels_max: 0,
            connected_at: Wall(0),
            is_asked_to_wait: false,
        }
    }

    #[test]
    fn users_and_tenants_are_counted_while_they_are_there() {
        let mut all = Connections::default();
        all.opened(info(1, "a"));
        all.opened(info(2, "a"));
        all.opened(info(3, "b"));
        let counted = |all: &Connections| {
            let open = |open: Open| (open.connections, open.channels);
            [open(all.of_user("a")), open(all.of_user("b")), open(all.of_tenant("/"))]
        };
        all.channel_opened(SessionId(1), 1);
        all.channel_opened(SessionId(1), 2);
        all.channel_opened(SessionId(3), 1);
        assert_eq!(counted(&all), [(2, 2), (1, 1), (3, 3)]);
        all.channel_closed(SessionId(1), 1);
        all.channel_closed(SessionId(1), 1); // a second time counts nothing
        assert_eq!(counted(&all), [(2, 1), (1, 1), (3, 2)]);
        all.closed(SessionId(1));
        all.closed(SessionId(1));
        assert_eq!(counted(&all), [(1, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn what_a_channel_counted_is_kept_when_it_goes() {
        let mut all = Connections::default();
        all.opened(info(1, "a"));
        let figures = all.channel_opened(SessionId(1), 1);
        figures.published.add(3);
        assert_eq!(all.totals().messages.published, 3);
        all.channel_closed(SessionId(1), 1);
        assert_eq!(all.totals().messages.published, 3);
        let again = all.channel_opened(SessionId(1), 1);
        again.published.add(2);
        all.closed(SessionId(1));
        let totals = all.totals();
        assert_eq!((totals.messages.published, totals.channels_opened, totals.channels_closed), (5, 2, 2));
    }
}
