//! Message tables: one declaration per message gives reading and writing for every version. The facts of each field
//! (since which version, until which, nullable from where, tagged) are those of the protocol's public message
//! descriptions; the tests compare every table with an independent implementation.
//!
//! Reading borrows from the frame and never allocates by a number that the frame claims. Nothing here knows a session
//! or the broker.

mod sink;
mod types;

pub(crate) use sink::Sink;
pub(crate) use types::{Blob, Pieces, RawRecords, Text, Uuid};

use model::{ByteReader, ReadError};

/// In which shape a field stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The message's version.
    pub version: i16,
    /// Compact lengths and tagged fields.
    pub flexible: bool,
    /// Whether null may stand here.
    pub nullable: bool,
}

impl Form {
    /// The form of a whole message.
    pub fn new(version: i16, flexible: bool) -> Form {
        Form { version, flexible, nullable: false }
    }

    /// Whether this version lies in `lo..=hi`.
    pub fn within(self, lo: i16, hi: i16) -> bool {
        lo <= self.version && self.version <= hi
    }

    /// The same for a field that may be null from version `since` on.
    pub fn null_since(self, since: i16) -> Form {
        Form { nullable: self.version >= since, ..self }
    }
}

/// Something with a place on the wire.
pub(crate) trait Wire<'a>: Sized {
    /// The fewest bytes it takes in any version: what a claimed count is checked against.
    const BYTES_MIN: usize;

    /// Reads it.
    fn read(reader: &mut ByteReader<'a>, form: Form) -> Result<Self, ReadError>;

    /// Writes it.
    fn write(&self, sink: &mut Sink, form: Form);
}

/// Reads the tagged fields of one structure; `take` answers whether it knew the tag. Unknown ones are passed over.
pub(crate) fn read_tags<'a>(
    reader: &mut ByteReader<'a>,
    mut take: impl FnMut(u32, &mut ByteReader<'a>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let claimed = reader.uvarint()?;
    let count = reader.count(i64::from(claimed), 2)?;
    for _ in 0..count {
        let tag = reader.uvarint()?;
        let bytes = reader.uvarint()?;
        let mut field = ByteReader::new(reader.take(bytes as usize)?);
        take(tag, &mut field)?;
    }
    Ok(())
}

/// Tagged fields on their way out: gathered first, since their number stands before them.
#[derive(Default)]
pub(crate) struct Tags {
    count: u32,
    bytes: Vec<u8>,
}

impl Tags {
    /// Adds a field; tags ascend.
    pub fn add<'a>(&mut self, tag: u32, value: &impl Wire<'a>, form: Form) {
        let mut sink = Sink::default();
        value.write(&mut sink, form);
        let body = sink.flatten();
        let mut writer = model::ByteWriter::new(&mut self.bytes);
        writer.uvarint(tag);
        writer.uvarint(body.len() as u32);
        writer.bytes(&body);
        self.count += 1;
    }

    /// Writes them all.
    pub fn write(&self, sink: &mut Sink) {
        sink.writer().uvarint(self.count);
        sink.writer().bytes(&self.bytes);
    }
}

/// Declares messages and the structures in them:
/// `field: Type, 3-7 null 5 tag 1 or -1;` = in versions 3 to 7 (`3+` = 3 and later), nullable from 5, tagged with 1,
/// `-1` when absent.
macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident $(<$lt:lifetime>)? {
        $($field:ident: $ty:ty, $lo:literal $(- $hi:literal)? $(+)? $(null $null:literal)? $(tag $tag:literal)?
            $(or $default:expr)?;)*
    })*) => {$(
        $(#[$meta])*
        // A table states all that the protocol has, also what we have no use for yet.
        #[allow(dead_code)]
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct $name $(<$lt>)? {
            $(pub $field: $ty,)*
        }

        impl $(<$lt>)? Default for $name $(<$lt>)? {
            fn default() -> Self {
                $name { $($field: messages!(@default $($default)?),)* }
            }
        }

        #[cfg(test)]
        impl $(<$lt>)? $crate::wire::sample::Sample for $name $(<$lt>)? {
            fn sample(random: &mut $crate::wire::sample::Random) -> Self {
                $name { $($field: $crate::wire::sample::Sample::sample(random),)* }
            }
        }

        impl<'a> $crate::wire::Wire<'a> for messages!(@name $name $(<$lt>)?) {
            const BYTES_MIN: usize = {
                let sum = 0 $(+ if messages!(@always $lo $(- $hi)? $(tag $tag)?) {
                    <$ty as $crate::wire::Wire<'a>>::BYTES_MIN
                } else { 0 })*;
                if sum == 0 { 1 } else { sum }
            };

            #[allow(unused_variables)] // a message without fields reads nothing
            fn read(
                reader: &mut model::ByteReader<'a>,
                form: $crate::wire::Form,
            ) -> Result<Self, model::ReadError> {
                let mut message = Self::default();
                $(if messages!(@tag $($tag)?).is_none() && form.within($lo, messages!(@hi $($hi)?)) {
                    let form = form.null_since(messages!(@null $($null)?));
                    message.$field = $crate::wire::Wire::read(reader, form)?;
                })*
                if form.flexible {
                    $crate::wire::read_tags(reader, |tag, reader| {
                        $(if messages!(@tag $($tag)?) == Some(tag) && form.within($lo, messages!(@hi $($hi)?)) {
                            let form = form.null_since(messages!(@null $($null)?));
                            message.$field = $crate::wire::Wire::read(reader, form)?;
                        })*
                        Ok(())
                    })?;
                }
                Ok(message)
            }

            fn write(&self, sink: &mut $crate::wire::Sink, form: $crate::wire::Form) {
                $(if messages!(@tag $($tag)?).is_none() && form.within($lo, messages!(@hi $($hi)?)) {
                    let form = form.null_since(messages!(@null $($null)?));
                    $crate::wire::Wire::write(&self.$field, sink, form);
                })*
                if form.flexible {
                    #[allow(unused_mut)] // most messages have no tagged fields
                    let mut tags = $crate::wire::Tags::default();
                    $(if let Some(tag) = messages!(@tag $($tag)?) {
                        let absent: $ty = messages!(@default $($default)?);
                        if form.within($lo, messages!(@hi $($hi)?)) && self.$field != absent {
                            tags.add(tag, &self.$field, form.null_since(messages!(@null $($null)?)));
                        }
                    })*
                    tags.write(sink);
                }
            }
        }
    )*};
    (@name $name:ident <$lt:lifetime>) => { $name<'a> };
    (@name $name:ident) => { $name };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@hi) => { i16::MAX };
    (@hi $hi:literal) => { $hi };
    (@null) => { 0 };
    (@null $null:literal) => { $null };
    (@tag) => { None::<u32> };
    (@tag $tag:literal) => { Some::<u32>($tag) };
    (@always $lo:literal $(tag $tag:literal)?) => { $lo == 0 && messages!(@tag $($tag)?).is_none() };
    (@always $lo:literal - $hi:literal $(tag $tag:literal)?) => { false };
}
pub(crate) use messages;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
