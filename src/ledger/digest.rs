//! SHA-256 digests as ledgers carry them: 64 lower-case hexadecimal digits.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Characters of a digest in hexadecimal.
const HEX_CHARS: usize = 64;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// What the first line of a ledger names as its predecessor.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of everything that `reader` still gives, and how many bytes that were.
    pub(super) fn of_reader(reader: &mut impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut total = 0;
        loop {
            let chunk = match reader.read(&mut buffer) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), total)),
                Ok(read) => buffer.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(chunk);
            total += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        }
    }

    /// The hexadecimal form, without an allocation.
    pub(super) fn hex(self) -> [u8; HEX_CHARS] {
        let mut out = [0; HEX_CHARS];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 0xf)]);
        }
        out
    }
}

fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    }
}

/// The value of a hexadecimal digit; more than 15 for what is none.
fn nibble(digit: u8) -> u8 {
    let (decimal, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
    if decimal < 10 {
        decimal
    } else if letter < 6 {
        letter + 10
    } else {
        u8::MAX
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError(text.chars().take(80).collect());
        if text.len() != HEX_CHARS {
            return Err(malformed());
        }
        let mut bytes = [0; 32];
        let mut seen = 0;
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            if let &[high, low] = pair {
                let (high, low) = (nibble(high), nibble(low));
                seen |= high | low;
                *byte = high << 4 | (low & 0xf);
            }
        }
        if seen > 0xf {
            return Err(malformed());
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed digest {0:?}: expected 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn the_digest_of_nothing_is_the_published_one() {
        let digest = Digest::of(b"");
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), hex);
        assert_eq!(digest.hex(), hex.as_bytes());
        assert_eq!(hex.parse(), Ok(digest));
    }

    #[test]
    fn other_spellings_are_refused() {
        let hex = Digest::of(b"x").to_string();
        for bad in [
            "",
            &hex[1..],
            &hex.to_uppercase(),
            &format!("{hex}0"),
            &"é".repeat(32),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
