//! Class confirm.

use model::ByteReader;

use super::bit;
use crate::conn::{Call, Done};

/// confirm.select: (nowait). Doing it again changes nothing.
pub fn select(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let nowait = bit(r.u8()?, 0);
    call.ch.confirms.get_or_insert_default();
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}
