//! From the target of a request to a path below the served directory, and back into a link.

/// Why a request's target names nothing that could be served.
#[derive(Debug, PartialEq, Eq)]
pub struct BadTarget;

/// The path that `target` (origin form, or absolute form) names, relative to the served directory:
/// percent-decoded, without empty and `.` segments, each `..` taking one segment off. It ends in
/// a slash if the target does. The root is the empty path.
///
/// This only makes paths canonical; what keeps a request below the directory is the kernel
/// (`RESOLVE_BENEATH`), which sees symbolic links too. Refused are bad percent escapes, NUL, and
/// climbing above the root.
pub fn resolve(target: &[u8]) -> Result<Vec<u8>, BadTarget> {
    let path = origin_form(target).ok_or(BadTarget)?;
    if is_canonical(path) {
        return Ok(path[1..].to_vec());
    }
    let decoded = decode(path)?;
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut slash = true;
    for segment in decoded.split(|&byte| byte == b'/').skip(1) {
        slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop().ok_or(BadTarget)?),
            name => segments.push(name),
        }
    }
    let mut joined = segments.join(&b'/');
    if slash && !joined.is_empty() {
        joined.push(b'/');
    }
    Ok(joined)
}

/// Whether nothing of a path is to be decoded or taken out, as is mostly so. One that only might be is not.
fn is_canonical(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().all(|&byte| {
        let follows_slash = std::mem::replace(&mut before, byte) == b'/';
        !(matches!(byte, b'%' | 0) || follows_slash && matches!(byte, b'/' | b'.'))
    })
}

/// The path of a target in origin form (`/a?b`) or absolute form (`http://host/a?b`), without its
/// query.
fn origin_form(target: &[u8]) -> Option<&[u8]> {
    let path = match target.strip_prefix(b"http://") {
        Some(rest) => {
            let slash = rest.iter().position(|&byte| byte == b'/');
            slash.map_or(b"/".as_slice(), |at| &rest[at..])
        }
        None => target,
    };
    let end = path
        .iter()
        .position(|&byte| byte == b'?' || byte == b'#')
        .unwrap_or(path.len());
    path.starts_with(b"/").then_some(&path[..end])
}

fn decode(path: &[u8]) -> Result<Vec<u8>, BadTarget> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || {
                let digit = char::from(*bytes.next()?).to_digit(16)?;
                u8::try_from(digit).ok()
            };
            digit()
                .and_then(|high| Some(high << 4 | digit()?))
                .ok_or(BadTarget)?
        } else {
            byte
        };
        if byte == 0 {
            return Err(BadTarget);
        }
        decoded.push(byte);
    }
    Ok(decoded)
}

/// `name` as it may stand in a link: everything but unreserved characters and slashes escaped.
pub fn encode(name: &[u8]) -> String {
    let mut encoded = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// `text` as it may stand in HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{BadTarget, encode, escape, resolve};

    #[track_caller]
    fn resolves(target: &str, expected: &str) {
        assert_eq!(
            resolve(target.as_bytes()).as_deref(),
            Ok(expected.as_bytes())
        );
    }

    #[test]
    fn targets_become_relative_paths() {
        resolves("/", "");
        resolves("/a/b.html", "a/b.html");
        resolves("/a/", "a/");
        resolves("//a///b", "a/b");
        resolves("/a?b=/c", "a");
        resolves("/a%20b%2Fc", "a b/c");
        resolves("http://example.org/a", "a");
        resolves("http://example.org", "");
        resolves("/a/./b/../c", "a/c");
        resolves("/a/..", "");
        resolves("/.hidden/a.b/", ".hidden/a.b/");
        resolves("/a/..b/.", "a/..b/");
    }

    #[test]
    fn no_target_climbs_above_the_root() {
        for target in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/x",
            "/..%2fx",
        ] {
            assert_eq!(resolve(target.as_bytes()), Err(BadTarget), "{target}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for target in [
            "", "a", "*", "/%", "/%4", "/%zz", "/a%00b", "/a\0b", "ftp://x/",
        ] {
            assert_eq!(resolve(target.as_bytes()), Err(BadTarget), "{target}");
        }
    }

    #[test]
    fn links_lead_back_to_the_name() {
        let name = "a b/ü%?<";
        let link = format!("/{}", encode(name.as_bytes()));
        resolves(&link, name);
        assert_eq!(
            escape("<a href='x'>&\""),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"
        );
    }
}
