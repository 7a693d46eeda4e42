//! Class channel, less opening and closing (`session.rs`), and class access, which grants everything as RabbitMQ does.

use model::ByteReader;

use super::bit;
use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal};

/// channel.flow: (active). Only `true` can be answered: what was granted is on its way.
pub fn flow(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    if !bit(r.u8()?, 0) {
        return Err(Refusal::new(Code::NotImplemented, "active=false"));
    }
    call.reply(|out| out.push(1));
    Ok(())
}

/// access.request: (realm, five bits). Answers ticket 1.
pub fn access(call: &mut Call<'_, '_>, _r: &mut ByteReader<'_>) -> Done {
    call.reply(|out| out.extend_from_slice(&[0, 1]));
    Ok(())
}
