//! What a connection says of itself to the core, so that operators see it. There is no login in this tongue: a client
//! is known by its first request.

use std::sync::Arc;

use broker::Cx;
use broker::access::NoEntry;
use broker::connection::{ConnectionFigures, ConnectionInfo, Encryption};
use model::{Header, HeaderValue, Name};

use crate::api::Asker;

/// Told once.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    figures: Option<Arc<ConnectionFigures>>,
}

impl Presence {
    /// Why a client that has made no request yet is one too many, if it is.
    pub fn no_room(&self, asker: &Asker, cx: &Cx<'_>) -> Option<&'static str> {
        let user = asker.settings.user.as_deref().unwrap_or_default();
        match self.figures.is_none().then(|| cx.broker.enter(user, &asker.settings.tenant))? {
            Err(NoEntry::TenantFull(_)) => Some("the tenant has all the connections that it may have"),
            Err(NoEntry::UserFull(_)) => Some("the user has all the connections that they may have"),
            // What nothing is granted for is refused by what it asks.
            Err(NoEntry::NoTenant | NoEntry::NotGranted) | Ok(()) => None,
        }
    }

    /// The client has made a request under this name.
    pub fn announce(&mut self, asker: &Asker, client_id: &str, cx: &mut Cx<'_>) {
        if self.figures.is_some() {
            return;
        }
        let (product, version) = asker.software.as_ref().map_or(("", ""), |said| (&said.0, &said.1));
        let said = [("client_id", client_id), ("product", product), ("version", version)];
        let said = said.into_iter().filter(|(_, text)| !text.is_empty());
        let property = |(name, text): (&str, &str)| Header { name: name.into(), value: HeaderValue::Text(text.into()) };
        self.figures = Some(cx.broker.connection_opened(ConnectionInfo {
            session: asker.peer.session,
            tongue: "kafka",
            protocol: "Kafka",
            user: asker.settings.user.clone().unwrap_or_else(|| Name::fixed("")),
            tenant: asker.settings.tenant.clone(),
            peer: asker.peer.remote,
            own: asker.peer.local,
            encryption: asker.peer.tls.as_deref().map(Encryption::from),
            mechanism: String::new(),
            properties: said.map(property).collect(),
            timeout_seconds: u32::try_from(asker.settings.idle_max.as_secs()).unwrap_or(u32::MAX),
            frame_bytes_max: asker.settings.request_bytes_max as u64,
            channels_max: 0,
            connected_at: cx.now.wall,
            is_asked_to_wait: false,
        }));
    }

    /// So many bytes came and went.
    pub fn count(&self, received: usize, sent: usize) {
        let Some(figures) = &self.figures else { return };
        if received > 0 {
            figures.received.add(1);
            figures.received_bytes.add(received as u64);
        }
        if sent > 0 {
            figures.sent.add(1);
            figures.sent_bytes.add(sent as u64);
        }
    }
}
