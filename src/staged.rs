//! Files that appear under their names when they are complete: until then they have another name, in the same folder.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::TempPath;

/// A new file in the folder of `path`, with the rights that files of this user have; to be given that name when it is complete.
///
/// # Errors
/// If the folder takes no files. The error does not name the staged file, which is not the user's.
pub(crate) fn stage(path: &Path) -> io::Result<(File, TempPath)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zipwire-staged-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let staged = builder.tempfile_in(folder.unwrap_or(Path::new(".")));
    let staged = staged.map_err(|error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error));
    Ok(staged?.into_parts())
}
