//! What an HTTP client may cost, by name and in one place.

use std::time::Duration;

/// The request line and all headers.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Headers of one request.
pub const HEADERS_MAX: usize = 64;

/// The body of one request: definitions of fifty thousand queues fit.
pub const BODY_BYTES_MAX: usize = 10 << 20;

/// A request must be complete so long after its first byte.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection without a request is closed after so long.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(75);

/// A password is checked again after so long on one connection: hashing it for every request would take all CPUs.
pub const LOGIN_KEPT: Duration = Duration::from_secs(30);
