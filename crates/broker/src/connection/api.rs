//! What sessions say of themselves, and what is asked of all of them.

use std::sync::Arc;

use super::registry::Connection;
use super::*;
use crate::queue::ConsumerId;
use crate::{Broker, Event, SessionId};

impl Broker {
    /// A client has logged in. What it counts is in what this answers; [`Broker::session_closed`] takes it out again.
    pub fn connection_opened(&mut self, info: ConnectionInfo) -> Arc<ConnectionFigures> {
        self.core.connections.opened(info)
    }

    /// A connection has opened a channel, which counts in what this answers.
    pub fn channel_opened(&mut self, session: SessionId, number: u16) -> Arc<ChannelFigures> {
        self.core.connections.channel_opened(session, number)
    }

    /// A connection has closed a channel; one that is not open is no error.
    pub fn channel_closed(&mut self, session: SessionId, number: u16) {
        self.core.connections.channel_closed(session, number);
    }

    /// Says of a consumer just started what operators want to know.
    pub fn label_consumer(&mut self, consumer: ConsumerId, label: ConsumerLabel) {
        self.core.connections.label(consumer, label);
    }

    /// All connections, in the order they came.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.core.connections.all()
    }

    /// One connection.
    #[must_use]
    pub fn connection(&self, session: SessionId) -> Option<&Connection> {
        self.core.connections.get(session)
    }

    /// Asks a connection to go, telling its client why: [`Event::Close`] reaches its session. False when there is none.
    pub fn close_connection(&mut self, session: SessionId, reason: &str) -> bool {
        let is_there = self.core.connections.get(session).is_some();
        if is_there {
            self.core.events.push(session, Event::Close(reason.to_owned()));
        }
        is_there
    }

    /// How many connections and channels a user has.
    #[must_use]
    pub fn open_of_user(&self, user: &str) -> (usize, usize) {
        let open = self.core.connections.of_user(user);
        (open.connections, open.channels)
    }

    /// How many connections and channels there are in a tenant.
    #[must_use]
    pub fn open_of_tenant(&self, tenant: &str) -> (usize, usize) {
        let open = self.core.connections.of_tenant(tenant);
        (open.connections, open.channels)
    }

    /// All consumers of queues, in the order they came.
    pub fn consumers(&self) -> impl Iterator<Item = ConsumerInfo> {
        let labels = self.core.connections.labels();
        labels.filter_map(|(id, label)| self.queues.consumer(id, label))
    }

    /// How many consumers there are.
    #[must_use]
    pub fn consumers_count(&self) -> usize {
        self.core.connections.consumers_count()
    }

    /// The consumers of one queue.
    #[must_use]
    pub fn consumers_of(&self, tenant: &str, queue: &str) -> Vec<ConsumerInfo> {
        let ids = self.queues.consumers_of(tenant, queue);
        let labelled = ids.into_iter().filter_map(|id| Some((id, self.core.connections.label_of(id)?)));
        labelled.filter_map(|(id, label)| self.queues.consumer(id, label)).collect()
    }

    /// What has been counted since the start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.core.connections.totals()
    }
}
