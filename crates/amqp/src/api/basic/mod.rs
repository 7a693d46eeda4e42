//! Class basic: one file per concern. `publish` takes messages in, `deliver` writes them out, `consume` and `get` ask
//! for them, `settle` is what becomes of them.

pub mod consume;
pub mod copies;
pub(crate) mod delay;
pub mod deliver;
pub mod get;
pub mod publish;
pub mod settle;
pub mod stream;

use model::ByteReader;

use super::bit;
use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal};

/// basic.qos: (size, count | global). Not global: for consumers to come. Global: shared by all of the channel.
pub fn qos(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let (size, count, global) = (r.u32()?, r.u16()?, bit(r.u8()?, 0));
    if size != 0 {
        return Err(Refusal::new(Code::NotImplemented, format!("prefetch_size!=0 ({size})")));
    }
    if global {
        call.ch.shared_prefetch = count;
        call.ch.figures.shared_prefetch.set(count.into());
    } else {
        call.ch.prefetch = count;
        call.ch.figures.prefetch.set(count.into());
    }
    call.reply(|_| {});
    deliver::unpark(call);
    Ok(())
}
