//! All connections by number. A session's id is its slot and the slot's generation, so an id is found without a hash
//! and one that is gone is never mistaken for its successor.

use broker::SessionId;

use super::connection::Connection;

/// A table of connections.
#[derive(Default)]
pub struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// Raised each time the slot is given away. Never 0, so ids below 2³² are free for other uses.
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl Connections {
    /// A fresh id, for a connection to be placed under later.
    pub fn reserve(&mut self) -> SessionId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, connection: None });
            (self.slots.len() - 1) as u32 // bounded by descriptors
        });
        let slot = &mut self.slots[at as usize];
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        SessionId(u64::from(slot.generation) << 32 | u64::from(at))
    }

    /// Puts a connection under the id that was reserved for it.
    pub fn place(&mut self, connection: Connection) {
        if let Some(slot) = self.slots.get_mut((connection.id.0 & 0xffff_ffff) as usize) {
            slot.connection = Some(Box::new(connection));
        }
    }

    /// Gives an id back under which nothing was placed.
    pub fn release(&mut self, id: SessionId) {
        self.free.push((id.0 & 0xffff_ffff) as u32);
    }

    /// The connection of `id`, if it is still there.
    pub fn get(&mut self, id: SessionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut((id.0 & 0xffff_ffff) as usize)?;
        slot.connection.as_deref_mut().filter(|connection| connection.id == id)
    }

    /// Takes the connection of `id` out.
    pub fn remove(&mut self, id: SessionId) -> Option<Box<Connection>> {
        self.get(id)?;
        let at = (id.0 & 0xffff_ffff) as u32;
        self.free.push(at);
        self.slots[at as usize].connection.take()
    }

    /// The ids of all.
    pub fn ids(&self) -> Vec<SessionId> {
        self.slots.iter().filter_map(|slot| slot.connection.as_ref()).map(|connection| connection.id).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
