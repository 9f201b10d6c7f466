//! Reading MessagePack from bytes that may be anything.
//!
//! Nothing is allocated by what a length says: values are read where they lie. Every length is held against the
//! bytes that are there, and depth against a bound.

use rmp::Marker;

/// Depth of values within values. Engines' messages have five.
const MAX_DEPTH: u32 = 16;

/// The bytes are no value, or none of the kind that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such value")]
pub(super) struct Unreadable;

/// A value; of a list or a map its length, and its members follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool,
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(u32),
    Map(u32),
    /// Of a kind that engines do not use.
    Other,
}

/// What is left to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Result<Value<'a>, Unreadable> {
        Ok(match Marker::from_u8(self.byte()?) {
            Marker::Null => Value::Nil,
            Marker::True | Marker::False => Value::Bool,
            Marker::FixPos(value) => Value::Unsigned(value.into()),
            Marker::U8 => Value::Unsigned(self.unsigned::<1>()?),
            Marker::U16 => Value::Unsigned(self.unsigned::<2>()?),
            Marker::U32 => Value::Unsigned(self.unsigned::<4>()?),
            Marker::U64 => Value::Unsigned(self.unsigned::<8>()?),
            Marker::FixNeg(value) => signed(value.into()),
            Marker::I8 => signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Value::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Value::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(len) => Value::Text(self.take(len.into())?),
            Marker::Str8 => Value::Text(self.sized::<1>()?),
            Marker::Str16 => Value::Text(self.sized::<2>()?),
            Marker::Str32 => Value::Text(self.sized::<4>()?),
            Marker::Bin8 => Value::Bytes(self.sized::<1>()?),
            Marker::Bin16 => Value::Bytes(self.sized::<2>()?),
            Marker::Bin32 => Value::Bytes(self.sized::<4>()?),
            Marker::FixArray(len) => Value::List(self.members(len.into(), 1)?),
            Marker::Array16 => Value::List(self.counted::<2>(1)?),
            Marker::Array32 => Value::List(self.counted::<4>(1)?),
            Marker::FixMap(len) => Value::Map(self.members(len.into(), 2)?),
            Marker::Map16 => Value::Map(self.counted::<2>(2)?),
            Marker::Map32 => Value::Map(self.counted::<4>(2)?),
            Marker::FixExt1 => self.other(2)?,
            Marker::FixExt2 => self.other(3)?,
            Marker::FixExt4 => self.other(5)?,
            Marker::FixExt8 => self.other(9)?,
            Marker::FixExt16 => self.other(17)?,
            Marker::Ext8 => self.extension::<1>()?,
            Marker::Ext16 => self.extension::<2>()?,
            Marker::Ext32 => self.extension::<4>()?,
            Marker::Reserved => return Err(Unreadable),
        })
    }

    /// Passes a value over, with all that is in it; its bytes.
    pub(super) fn skip(&mut self) -> Result<&'a [u8], Unreadable> {
        let before = self.rest;
        self.skip_within(MAX_DEPTH)?;
        before.get(..before.len() - self.rest.len()).ok_or(Unreadable)
    }

    fn skip_within(&mut self, depth: u32) -> Result<(), Unreadable> {
        let members = match self.value()? {
            Value::List(len) => u64::from(len),
            Value::Map(len) => 2 * u64::from(len),
            _ => return Ok(()),
        };
        let depth = depth.checked_sub(1).ok_or(Unreadable)?;
        (0..members).try_for_each(|_| self.skip_within(depth))
    }

    /// The length of the list that comes next.
    pub(super) fn list(&mut self) -> Result<u32, Unreadable> {
        match self.value()? {
            Value::List(len) => Ok(len),
            _ => Err(Unreadable),
        }
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Unreadable)?;
        self.rest = rest;
        Ok(*first)
    }

    fn unsigned<const N: usize>(&mut self) -> Result<u64, Unreadable> {
        Ok(self.array::<N>()?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let (first, rest) = self.rest.split_at_checked(len).ok_or(Unreadable)?;
        self.rest = rest;
        Ok(first)
    }

    fn sized<const N: usize>(&mut self) -> Result<&'a [u8], Unreadable> {
        let len = self.unsigned::<N>()?;
        self.take(usize::try_from(len).map_err(|_| Unreadable)?)
    }

    /// A number of members, each of which takes at least so many bytes.
    fn members(&self, len: u32, each: usize) -> Result<u32, Unreadable> {
        let fits = usize::try_from(len).is_ok_and(|len| len <= self.rest.len() / each);
        if fits { Ok(len) } else { Err(Unreadable) }
    }

    fn counted<const N: usize>(&mut self, each: usize) -> Result<u32, Unreadable> {
        let len = u32::try_from(self.unsigned::<N>()?).map_err(|_| Unreadable)?;
        self.members(len, each)
    }

    fn other(&mut self, len: usize) -> Result<Value<'a>, Unreadable> {
        self.take(len).map(|_| Value::Other)
    }

    fn extension<const N: usize>(&mut self) -> Result<Value<'a>, Unreadable> {
        let len = usize::try_from(self.unsigned::<N>()?).map_err(|_| Unreadable)?;
        self.other(len.checked_add(1).ok_or(Unreadable)?)
    }
}

fn signed(value: i64) -> Value<'static> {
    u64::try_from(value).map_or(Value::Negative(value), Value::Unsigned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_read_where_they_lie() {
        for (bytes, value) in [
            (&[0xc0][..], Value::Nil),
            (&[0x07], Value::Unsigned(7)),
            (&[0xcd, 1, 0], Value::Unsigned(256)),
            (&[0xd0, 0xff], Value::Negative(-1)),
            (&[0xd1, 0, 5], Value::Unsigned(5)),
            (&[0xff], Value::Negative(-1)),
            (&[0xa2, b'a', b'b'], Value::Text(b"ab")),
            (&[0xc4, 1, 9], Value::Bytes(&[9])),
            (&[0xd4, 1, 9], Value::Other),
            (&[0xca, 0x3f, 0x80, 0, 0], Value::Float(1.0)),
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.value(), Ok(value), "{bytes:?}");
            assert!(reader.is_empty(), "{bytes:?}");
        }
    }

    #[test]
    fn lengths_are_held_against_what_is_there() {
        for bytes in
            [&[0xdd, 0xff, 0xff, 0xff, 0xff][..], &[0xdf, 0, 0, 0, 1, 0xc0], &[0xdb, 0, 0, 0, 9], &[0xc1]]
        {
            assert_eq!(Reader::new(bytes).value(), Err(Unreadable), "{bytes:?}");
        }
        let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
        assert_eq!(Reader::new(&deep).skip(), Err(Unreadable));
        let fine = [vec![0x91; 16], vec![0xc0]].concat();
        assert_eq!(Reader::new(&fine).skip().map(<[u8]>::len), Ok(17));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(passed) = reader.skip() {
                prop_assert_eq!(passed, &bytes[..passed.len()]);
            }
        }
    }
}
