//! The limits of this tongue, by name and in one place. Not read from anywhere here: the server may hand in others.

use std::time::Duration;

use crate::external::CertificateLogin;

/// What a session is bound by.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest frame, with its 8 bytes of frame, offered to clients; they may lower it.
    pub frame_bytes_max: u32,
    /// The most channels open at once on one connection.
    pub channel_count_max: u16,
    /// The heartbeat proposed to clients, in seconds; theirs rules.
    pub heartbeat_seconds: u16,
    /// The largest message body.
    pub message_bytes_max: u64,
    /// The version told to clients: some switch features by it.
    pub version: &'static str,
    /// How a client's certificate names a user.
    pub certificate_login: CertificateLogin,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            frame_bytes_max: 131_072,
            channel_count_max: 2047,
            heartbeat_seconds: 60,
            message_bytes_max: 16 << 20,
            version: "4.0.0",
            certificate_login: CertificateLogin::default(),
        }
    }
}

impl Config {
    /// The same within what the protocol and our formats can hold.
    #[must_use]
    pub fn bounded(mut self) -> Config {
        self.frame_bytes_max = self.frame_bytes_max.max(FRAME_BYTES_MIN);
        self.message_bytes_max = self.message_bytes_max.min(MESSAGE_BYTES_CAP);
        self
    }
}

/// The smallest frame_max a client may ask for (the specification's own minimum).
pub const FRAME_BYTES_MIN: u32 = 4096;

/// The largest frame before a login; the default of RabbitMQ since 4.1.
pub const FRAME_BYTES_MAX_BEFORE_LOGIN: u32 = 8192;

/// All that a client may send before it is logged in.
pub const BYTES_MAX_BEFORE_LOGIN: usize = 64 << 10;

/// How long a client may take until its connection is open.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long we wait for the answer to our `connection.close` before the socket is cut.
pub const CLOSE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Messages that a consumer without prefetch may be sent at first, ahead of what its socket has taken.
pub const CREDIT_FIRST: u32 = 100;

/// … and at most, once its messages have proved to be small: as many as make [`CREDIT_BYTES`].
pub const CREDIT_MAX: u32 = 1000;

/// … and at least, however large they are.
pub const CREDIT_MIN: u32 = 4;

/// Bytes that a consumer without prefetch should have on the way.
pub const CREDIT_BYTES: u32 = 1 << 20;

/// Confirms waiting for the disk on one connection beyond which nothing more is read.
pub const CONFIRMS_WAITING_MAX: usize = 100_000;

/// A publish for which there was no room on the disk is tried again after so long.
pub const STALLED_AGAIN: Duration = Duration::from_millis(200);

/// Bytes of replies held back for the disk on one channel beyond which nothing more is read.
pub const HELD_BYTES_MAX: usize = 1 << 20;

/// So many times the largest message is what the unfinished bodies on all channels of a connection may hold.
pub const UNFINISHED_MESSAGES_MAX: u64 = 4;

/// The largest `message_bytes_max` that can be set: RabbitMQ's own hard limit, well within a unit's 32-bit length.
pub const MESSAGE_BYTES_CAP: u64 = 512 << 20;

/// Scratch memory that a channel keeps between two messages.
pub const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// The most routes that a message may name in CC and BCC: an exchange is asked once for each.
pub const ROUTES_MAX: usize = 1000;
/// How deep tables and arrays may be nested.
pub const TABLE_DEPTH_MAX: usize = 32;
