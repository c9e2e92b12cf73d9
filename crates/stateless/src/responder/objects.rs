//! Small fixed objects from a directory: a favicon, health checks, redirects.
//!
//! Every file is an object at `/NAME`. A file `NAME.redirect` holds a URL, and `/NAME` is a
//! redirect to it. All are read once, and each must fit one segment.

use std::io;
use std::path::{Path, PathBuf};

/// Most objects.
pub const MAX_OBJECTS: usize = 64;
/// Longest path of an object, in bytes, with its slash.
pub const MAX_PATH: usize = 63;
/// Longest header fields of an object, in bytes.
pub const MAX_FIELDS: usize = 200;

/// A path, a status, header fields and a body, as [`Tables::new`](super::tables::Tables::new)
/// takes them.
pub type Loaded = (String, u32, String, Vec<u8>);

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not readable.
    #[error("{}: {error}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// Too many files.
    #[error("{}: more than {MAX_OBJECTS} objects", .0.display())]
    TooMany(PathBuf),
    /// A body that does not fit.
    #[error("{}: {size} bytes do not fit one segment with its header: {most} do", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size, in bytes.
        size: usize,
        /// The largest that fits.
        most: usize,
    },
    /// A name that cannot be asked for.
    #[error(
        "{}: an object's name is of letters, digits and ._-, at most {} of them, and not a number",
        .0.display(), MAX_PATH - 1
    )]
    Name(PathBuf),
    /// No URL.
    #[error("{}: a redirect is one line with a URL of at most 180 bytes", .0.display())]
    Redirect(PathBuf),
}

/// Reads a directory; bodies may have up to `most` bytes, less what their header fields take.
///
/// # Errors
/// [`ObjectError`], for the first file that cannot be served.
pub fn load(directory: &Path, most: usize) -> Result<Vec<Loaded>, ObjectError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |error| ObjectError::Read { path, error }
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read(directory))? {
        let path = entry.map_err(read(directory))?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    if paths.len() > MAX_OBJECTS {
        return Err(ObjectError::TooMany(directory.to_owned()));
    }
    paths.sort();
    let mut objects = Vec::new();
    for path in paths {
        let bytes = std::fs::read(&path).map_err(read(&path))?;
        objects.push(object(&path, bytes, most)?);
    }
    Ok(objects)
}

fn object(path: &Path, bytes: Vec<u8>, most: usize) -> Result<Loaded, ObjectError> {
    let bad_name = || ObjectError::Name(path.to_owned());
    let file = path.file_name().and_then(|name| name.to_str());
    let file = file.ok_or_else(bad_name)?;
    let (name, target) = match file.strip_suffix(".redirect") {
        Some(name) => (name, Some(redirect(path, &bytes)?)),
        None => (file, None),
    };
    let letters = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let number = name.trim_end_matches(['k', 'm', 'g']);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if name.is_empty() || name.len() >= MAX_PATH || !name.chars().all(letters) || is_number {
        return Err(bad_name());
    }
    let url = format!("/{name}");
    if let Some(target) = target {
        return Ok((url, 302, format!("Location: {target}\r\n"), Vec::new()));
    }
    let fields = format!("Content-Type: {}\r\n", content_type(name));
    let most = most.saturating_sub(fields.len());
    if bytes.len() > most {
        return Err(ObjectError::TooLarge {
            path: path.to_owned(),
            size: bytes.len(),
            most,
        });
    }
    Ok((url, 200, fields, bytes))
}

/// The URL that a file holds. It becomes a header field, so it must not end it.
fn redirect(path: &Path, bytes: &[u8]) -> Result<String, ObjectError> {
    let text = String::from_utf8_lossy(bytes);
    let url = text.trim();
    let visible = !url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || url.len() > 180 {
        return Err(ObjectError::Redirect(path.to_owned()));
    }
    Ok(url.to_owned())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("svg") => "image/svg+xml",
        Some("ico") => "image/x-icon",
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("txt") | None => "text/plain; charset=utf-8",
        Some(_) => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bytes: &[u8]) -> Result<Loaded, ObjectError> {
        object(Path::new(name), bytes.to_vec(), 1000)
    }

    #[test]
    fn files_are_objects_and_redirects() {
        let (path, status, fields, body) = of("a/favicon.ico", b"icon").expect("fits");
        assert_eq!((path.as_str(), status), ("/favicon.ico", 200));
        assert_eq!(fields, "Content-Type: image/x-icon\r\n");
        assert_eq!(body, b"icon");
        let (path, status, fields, body) = of("old.redirect", b"http://new/\n").expect("fits");
        assert_eq!((path.as_str(), status), ("/old", 302));
        assert_eq!(fields, "Location: http://new/\r\n");
        assert!(body.is_empty());
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        assert!(matches!(
            of("big", &[0; 1000]),
            Err(ObjectError::TooLarge { .. })
        ));
        for name in ["with space", "17", "17k", ".redirect", "a?b"] {
            assert!(of(name, b"http://x/").is_err(), "{name}");
        }
        for url in ["", "a b", "a\r\nSet-Cookie: x"] {
            let result = of("x.redirect", url.as_bytes());
            assert!(matches!(result, Err(ObjectError::Redirect(_))), "{url:?}");
        }
        assert!(load(Path::new("/no/such/directory"), 1000).is_err());
    }
}
