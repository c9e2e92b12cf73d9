//! The Fast Open option (RFC 7413 §2, §4.1.1): a cookie, or the request for one.

/// A cookie, or an empty one that asks for a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenCookie {
    len: u8,
    /// Those past `len` are zero, so that equality is that of the cookies.
    bytes: [u8; Self::MAX_LEN],
}

impl FastOpenCookie {
    /// The longest cookie, in bytes.
    pub const MAX_LEN: usize = 16;
    /// The shortest one.
    pub const MIN_LEN: usize = 4;

    /// Asks for a cookie.
    pub const REQUEST: FastOpenCookie = FastOpenCookie {
        len: 0,
        bytes: [0; Self::MAX_LEN],
    };

    /// The cookie of these bytes: an even number of them, 4 to 16, or none for a request. `None` for any
    /// other number.
    //= RFC 7413 §4.1.1
    pub fn new(cookie: &[u8]) -> Option<FastOpenCookie> {
        let len = cookie.len();
        let sound = len == 0 || (len >= Self::MIN_LEN && len.is_multiple_of(2));
        let mut bytes = [0; Self::MAX_LEN];
        bytes
            .get_mut(..len)
            .filter(|_| sound)?
            .copy_from_slice(cookie);
        Some(FastOpenCookie {
            len: len as u8,
            bytes,
        })
    }

    /// Its bytes; none if it is a request.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether it asks for a cookie.
    #[inline]
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }
}

impl core::fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FastOpenCookie(")?;
        for byte in self.as_slice() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ RFC 7413 §4.1.1
    #[test]
    fn cookies_are_even_and_of_4_to_16_bytes() {
        let bytes = [7; 18];
        for len in 0..=18 {
            let cookie = FastOpenCookie::new(&bytes[..len]);
            let sound = [0, 4, 6, 8, 10, 12, 14, 16].contains(&len);
            assert_eq!(cookie.is_some(), sound, "{len}");
            if let Some(cookie) = cookie {
                assert_eq!(cookie.as_slice(), &bytes[..len]);
                assert_eq!(cookie.is_request(), len == 0);
            }
        }
        let cookie = FastOpenCookie::new(&[1, 2, 0xab, 4]).unwrap();
        assert_eq!(format!("{cookie:?}"), "FastOpenCookie(0102ab04)");
    }
}
