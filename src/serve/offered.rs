//! The site as connections send it: a file is named to them, not read for them.

use super::directory::Directory;
use super::exchange::{FileInfo, Found, Site};
use native::{Context, File};

/// A directory whose files are sent by name.
pub struct Offered {
    directory: Directory,
    context: Context,
}

impl Offered {
    /// The files of `directory`, for the connections of `context`.
    pub fn new(directory: Directory, context: Context) -> Self {
        Self { directory, context }
    }
}

impl Site for Offered {
    type File = File;

    fn find(&self, path: &[u8]) -> Found<File> {
        match self.directory.find(path) {
            Found::File(found) => Found::File(FileInfo {
                file: self.context.file(found.file),
                length: found.length,
                validators: found.validators,
                content_type: found.content_type,
            }),
            Found::Directory => Found::Directory,
            Found::Listing(names) => Found::Listing(names),
            Found::Refused(status) => Found::Refused(status),
        }
    }
}
