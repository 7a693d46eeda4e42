//! The tracks of one queue. Nearly all have one: it lies in the queue itself, so that who looks at the queue has it.

use std::ops::{Deref, DerefMut};

use super::track::Track;

/// Ascending by log.
#[allow(clippy::large_enum_variant)] // queues lie in boxes, and nearly all are the large one
pub(super) enum Tracks {
    One(Track),
    Several(Vec<Track>),
}

impl Tracks {
    /// Adds tracks of logs with greater ids.
    pub(super) fn extend(&mut self, more: impl Iterator<Item = Track>) {
        let mut all = match std::mem::replace(self, Tracks::Several(Vec::new())) {
            Tracks::One(track) => vec![track],
            Tracks::Several(tracks) => tracks,
        };
        all.extend(more);
        *self = all.into();
    }

    /// Bytes of memory it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Tracks::One(_) => 0,
            Tracks::Several(tracks) => tracks.capacity() * size_of::<Track>(),
        }
    }
}

impl From<Vec<Track>> for Tracks {
    fn from(mut tracks: Vec<Track>) -> Tracks {
        match tracks.pop() {
            Some(only) if tracks.is_empty() => Tracks::One(only),
            last => {
                tracks.extend(last);
                Tracks::Several(tracks)
            }
        }
    }
}

impl Deref for Tracks {
    type Target = [Track];

    fn deref(&self) -> &[Track] {
        match self {
            Tracks::One(track) => std::slice::from_ref(track),
            Tracks::Several(tracks) => tracks,
        }
    }
}

impl DerefMut for Tracks {
    fn deref_mut(&mut self) -> &mut [Track] {
        match self {
            Tracks::One(track) => std::slice::from_mut(track),
            Tracks::Several(tracks) => tracks,
        }
    }
}

impl<'a> IntoIterator for &'a Tracks {
    type Item = &'a Track;
    type IntoIter = std::slice::Iter<'a, Track>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Tracks {
    type Item = &'a mut Track;
    type IntoIter = std::slice::IterMut<'a, Track>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
