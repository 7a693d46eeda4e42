//! Class confirm.

use broker::connection::ChannelMode;
use model::ByteReader;

use super::bit;
use crate::conn::{Call, Done};
use crate::errors::Refusal;

/// confirm.select: (nowait). Doing it again changes nothing.
pub fn select(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let nowait = bit(r.u8()?, 0);
    if call.ch.tx.is_some() {
        return Err(Refusal::precondition("cannot switch from tx to confirm mode"));
    }
    call.ch.confirms.get_or_insert_default();
    call.ch.figures.set_mode(ChannelMode::Confirms);
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}
