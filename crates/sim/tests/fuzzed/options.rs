//! TCP options of any bytes: they are read without panic, and what was understood is written and
//! read back the same.

use wire::tcp::{MAX_OPTIONS_LEN, MAX_WINDOW_SCALE, Options};

pub fn run(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MAX_OPTIONS_LEN)];
    let read = Options::parse(bytes);
    assert!(
        read.window_scale
            .is_none_or(|scale| scale <= MAX_WINDOW_SCALE)
    );
    let mut written = [0xff; MAX_OPTIONS_LEN];
    let len = read.emit(&mut written);
    assert_eq!(len, read.len());
    assert!(
        len <= MAX_OPTIONS_LEN && len.is_multiple_of(4),
        "{len} bytes of options"
    );
    assert!(written[len..].iter().all(|&byte| byte == 0xff));
    let mut again = Options::parse(&written[..len]);
    // Blocks may have given way to other options, from the end.
    let blocks = again.sack.as_slice();
    assert!(read.sack.as_slice().starts_with(blocks));
    again.sack = read.sack;
    assert_eq!(again, read);
}
