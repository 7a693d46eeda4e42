//! Load without a client's share: raw generators that send prepared bytes and look only at what they must.

pub(crate) mod amqp;
pub(crate) mod fetch;
pub(crate) mod produce;
