//! What a connection says of itself to the core, so that operators see it and limits count it. `session.rs` calls this
//! when the connection is open.

use broker::Cx;
use broker::connection::{ConnectionInfo, ConsumerLabel, Encryption};
use broker::queue::ConsumerId;
use model::Header;

use crate::conn::{Call, Conn};

/// What is kept of the handshake until the connection is open.
#[derive(Debug, Default)]
pub struct Presence {
    /// What the client says of itself.
    pub properties: Vec<Header>,
    /// How it logged in.
    pub mechanism: String,
    /// The heartbeat agreed, in seconds.
    pub heartbeat: u16,
}

/// The connection is open: the core is told who it is.
pub fn announce(conn: &mut Conn, presence: Presence, cx: &mut Cx<'_>) {
    conn.figures = cx.broker.connection_opened(ConnectionInfo {
        session: conn.peer.session,
        tongue: "amqp",
        protocol: "AMQP 0-9-1",
        user: conn.user.clone(),
        tenant: conn.tenant.clone(),
        peer: conn.peer.remote,
        own: conn.peer.local,
        encryption: conn.peer.tls.as_deref().map(Encryption::from),
        mechanism: presence.mechanism,
        properties: presence.properties,
        timeout_seconds: presence.heartbeat.into(),
        frame_bytes_max: conn.frame_bytes_max as u64,
        channels_max: u32::try_from(conn.channel_count_max).unwrap_or(u32::MAX),
        connected_at: cx.now.wall,
        is_asked_to_wait: true,
    });
}

/// A consumer has been started.
pub fn label(call: &mut Call<'_, '_>, id: ConsumerId, (tag, prefetch, arguments): (&str, u32, Vec<Header>)) {
    let (session, channel) = (call.conn.session(), call.ch.number);
    let label = ConsumerLabel { session, channel, tag: tag.to_owned(), prefetch, arguments };
    call.cx.broker.label_consumer(id, label);
}
