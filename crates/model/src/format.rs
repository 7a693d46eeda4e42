//! A unit is one writer's bytes as sent, tagged with its format. The trait [`Format`] is all that the rest of the
//! broker knows of it: who writes in a tongue stores that tongue's bytes, who reads in the same tongue gets them back,
//! and everybody else goes through the neutral [`Message`].

use std::ops::ControlFlow;

use crate::keyed::{self, Left, Sieve, VisitKeyed};
use crate::{DeadLetters, Marks, Message, Offset, Wall};

/// Names the format of stored units on disk. Fixed for ever once given (see FORMAT.md).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FormatTag(pub u8);

/// Why units could not be opened or built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes are not what the format allows.
    #[error("the unit is malformed: {0}")]
    Malformed(&'static str),
    /// Opening it would take more than the allowed bytes.
    #[error("the unit unpacks to more than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// No tongue has registered this tag.
    #[error("no format is known under tag {0}")]
    Unknown(u8),
}

/// What the broker alone can say of units when they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The offset of the first message.
    pub base: Offset,
    /// The leader epoch under which they were stored.
    pub epoch: u32,
    /// When they were stored.
    pub at: Wall,
}

/// Where one unit lies among units back to back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitAt {
    /// Offset of its first message.
    pub first: Offset,
    /// How many messages it holds.
    pub count: u32,
    /// Its first byte.
    pub at: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A message looked for by its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sought {
    /// It is not older than this.
    pub since: Wall,
    /// The time of messages that carry none.
    pub timeless: Wall,
    /// It lies here.
    pub within: std::ops::Range<Offset>,
}

impl Sought {
    /// The message at `offset` and its time, if it is such a one.
    #[must_use]
    pub fn at(&self, offset: Offset, time: Option<Wall>) -> Option<(Offset, Wall)> {
        let time = time.unwrap_or(self.timeless);
        (time >= self.since && self.within.contains(&offset)).then_some((offset, time))
    }
}

/// Called once for each unit; `Break` ends the walk early.
pub type VisitUnit<'v> = dyn FnMut(UnitAt) -> ControlFlow<()> + 'v;

/// Called once for each message of the opened units; `Break` ends the walk early.
pub type Visit<'v> = dyn FnMut(Offset, Message) -> ControlFlow<()> + 'v;

/// How one tongue's units are taken apart and put together. Stateless; does no I/O.
pub trait Format: Send + Sync {
    /// The tag of its units.
    fn tag(&self) -> FormatTag;

    /// Writes `stamp` into units just copied to the write buffer (base offset, epoch). Does nothing by default.
    fn stamp(&self, _units: &mut [u8], _stamp: Stamp) {}

    /// Finds the borders of `units` (one or more, back to back), the first message of which lies at `base`, without
    /// opening them.
    ///
    /// # Errors
    /// [`FormatError::Malformed`] when the bytes are not units of this format.
    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError>;

    /// Opens `units` (one or more, back to back), the first message of which lies at `base`, calling `visit` for each.
    ///
    /// # Errors
    /// [`FormatError`] when the bytes are not units of this format or unpack to too much.
    fn open(&self, units: &bytes::Bytes, base: Offset, visit: &mut Visit<'_>) -> Result<(), FormatError>;

    /// Appends to `out` one unit, or several back to back, that hold `messages`, whose offsets ascend but may have
    /// gaps.
    ///
    /// # Errors
    /// [`FormatError`] when the format cannot hold them.
    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError>;

    /// Whether units say their own distances, so that such as are not next to each other may lie back to back.
    fn allows_gaps(&self) -> bool {
        false
    }

    /// Visits the keys in one unit, whose first message lies at `base`. What is no message is passed over.
    ///
    /// # Errors
    /// [`FormatError`] as for [`Format::open`].
    fn keys(&self, unit: &bytes::Bytes, base: Offset, visit: &mut VisitKeyed<'_>) -> Result<(), FormatError> {
        keyed::keys(self, unit, base, visit)
    }

    /// Appends to `out` what is left of one unit, whose first message lies at `base`, when only those stay that `sieve`
    /// keeps. `None`, and nothing appended, when none does.
    ///
    /// # Errors
    /// [`FormatError`] as for [`Format::open`].
    fn weed(
        &self,
        unit: &bytes::Bytes,
        base: Offset,
        sieve: &mut Sieve<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Left>, FormatError> {
        keyed::weed(self, unit, base, sieve, out)
    }

    /// The first message in `units` (one or more, back to back, the first of which lies at `base`) that is `sought`,
    /// and its time. Whoever can unpacks no more than `bytes_max` for it.
    ///
    /// # Errors
    /// [`FormatError`] as for [`Format::open`]; [`FormatError::TooLarge`] when more than `bytes_max` would have to be
    /// unpacked.
    fn find_time(
        &self,
        units: &bytes::Bytes,
        base: Offset,
        sought: &Sought,
        _bytes_max: usize,
    ) -> Result<Option<(Offset, Wall)>, FormatError> {
        let mut found = None;
        self.open(units, base, &mut |offset, message| {
            found = sought.at(offset, message.created);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(found)
    }

    /// What a queue must know of the one message in `unit`.
    ///
    /// # Errors
    /// [`FormatError`] as for [`Format::open`].
    fn marks(&self, unit: &bytes::Bytes) -> Result<Marks, FormatError> {
        let mut marks = Marks::default();
        self.open(unit, Offset::ZERO, &mut |_, message| {
            marks = Marks::of(&message);
            ControlFlow::Break(())
        })?;
        Ok(marks)
    }

    /// How many milliseconds the message in `unit` asks to wait in an exchange that delays, if it does; then `out` gets
    /// the unit as it is when the wait is over, which asks for none.
    fn delay(&self, _unit: &[u8], _out: &mut Vec<u8>) -> Option<i64> {
        None
    }

    /// How deaths are kept in units of this format, if they can be.
    fn dead_letters(&self) -> Option<&dyn DeadLetters> {
        None
    }
}

/// The formats of all tongues, by tag.
#[derive(Default)]
pub struct Formats {
    by_tag: Vec<Option<Box<dyn Format>>>,
}

impl Formats {
    /// Adds a format.
    ///
    /// # Panics
    /// When its tag is taken: two tongues of this program claim one tag.
    pub fn add(&mut self, format: Box<dyn Format>) {
        let at = usize::from(format.tag().0);
        if self.by_tag.len() <= at {
            self.by_tag.resize_with(at + 1, || None);
        }
        let place = &mut self.by_tag[at];
        assert!(place.is_none(), "format tag {at} is given twice");
        *place = Some(format);
    }

    /// The first format that can keep the deaths of a message: what dies in another one is built anew in it.
    #[must_use]
    pub fn for_dead_letters(&self) -> Option<(&dyn Format, &dyn DeadLetters)> {
        self.by_tag.iter().flatten().find_map(|format| Some((&**format, format.dead_letters()?)))
    }

    /// The format of `tag`.
    ///
    /// # Errors
    /// [`FormatError::Unknown`] when no tongue has registered it.
    pub fn get(&self, tag: FormatTag) -> Result<&dyn Format, FormatError> {
        self.by_tag.get(usize::from(tag.0)).and_then(Option::as_deref).ok_or(FormatError::Unknown(tag.0))
    }
}
