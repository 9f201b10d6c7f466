//! Numbers, texts and lists as bytes. Whole numbers take seven bits a byte, the low ones first (LEB128).

use super::ReadError;

/// Appends.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub(super) fn length(&mut self, length: usize) {
        self.number(length as u64);
    }

    /// Eight bytes: hashes would be longer as numbers.
    pub(super) fn fixed(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn float(&mut self, value: f32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for one in items {
            item(self, one);
        }
    }
}

/// Takes from the front.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ReadError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ReadError::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, ReadError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                break;
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ReadError::Malformed)
    }

    pub(super) fn small(&mut self) -> Result<u32, ReadError> {
        u32::try_from(self.number()?).map_err(|_| ReadError::Malformed)
    }

    pub(super) fn fixed(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn wide(&mut self) -> Result<u128, ReadError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(super) fn float(&mut self) -> Result<f32, ReadError> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, ReadError> {
        let length = usize::try_from(self.number()?).map_err(|_| ReadError::Malformed)?;
        Ok(self.take(length)?.to_vec())
    }

    pub(super) fn text(&mut self) -> Result<Box<str>, ReadError> {
        let text = String::from_utf8(self.bytes()?).map_err(|_| ReadError::Malformed)?;
        Ok(text.into())
    }

    /// A list of items that take a byte each at least, so that no more room is made than bytes have come.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        let length = usize::try_from(self.number()?).map_err(|_| ReadError::Malformed)?;
        if length > self.0.len() {
            return Err(ReadError::Malformed);
        }
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(item(self)?);
        }
        Ok(items)
    }
}
