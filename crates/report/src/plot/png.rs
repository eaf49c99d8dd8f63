//! PNG files of pictures, with the feature `png`.

use crate::ReportError;

/// Chunk behind the head of a PNG file that no other program writes: `Software`, `zipwire plot`.
pub const PNG_MARK: &[u8] = b"\x00\x00\x00\x15tEXtSoftware\x00zipwire plot";

/// Checksum at the end of that chunk.
#[cfg(feature = "png")]
const MARK_CHECKSUM: [u8; 4] = 0xdf9f_d95f_u32.to_be_bytes();

/// Bytes of a PNG file before the mark: its signature and its head.
pub const PNG_MARK_AT: u64 = 8 + 25;

#[cfg(not(feature = "png"))]
pub(super) fn png(_: &str, _: u32) -> Result<Vec<u8>, ReportError> {
    Err(ReportError::NoPng {
        reason: "this zipwire is built without it".to_owned(),
        help: "write an `.svg` and convert it, or `cargo install --path . --features png`",
    })
}

#[cfg(feature = "png")]
pub(super) fn png(svg: &str, width: u32) -> Result<Vec<u8>, ReportError> {
    use resvg::tiny_skia;
    use resvg::usvg::{self, fontdb};

    let failed = |reason: String| ReportError::NoPng {
        reason,
        help: "write an `.svg`, or a narrower picture with `--width`",
    };
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    if options.fontdb.is_empty() {
        return Err(ReportError::NoPng {
            reason: "this system has no fonts, and a picture without letters says nothing".to_owned(),
            help: "install some, such as the package `fonts-dejavu-core`, or write an `.svg`",
        });
    }
    let sans = fontdb::Query { families: &[fontdb::Family::SansSerif], ..fontdb::Query::default() };
    if options.fontdb.query(&sans).is_none() {
        // The most ordinary face that there is.
        let name =
            |face: &fontdb::FaceInfo| face.families.first().map_or(String::new(), |(name, _)| name.clone());
        let rank = |face: &&fontdb::FaceInfo| {
            let is_plain = face.stretch == fontdb::Stretch::Normal && face.weight == fontdb::Weight::NORMAL;
            (face.monospaced, !name(face).contains("Sans"), !is_plain, name(face))
        };
        let family = options.fontdb.faces().min_by_key(rank).map(name);
        options.fontdb_mut().set_sans_serif_family(family.unwrap_or_default());
    }
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let scale = width as f32 / tree.size().width();
    let height = (scale * tree.size().height()).ceil() as u32;
    let no_room = || failed(format!("{width} x {height} pixels do not fit into memory"));
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or_else(no_room)?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let mut bytes = pixels.encode_png().map_err(|error| failed(error.to_string()))?;
    let at = PNG_MARK_AT as usize;
    let mark = [PNG_MARK, &MARK_CHECKSUM].concat();
    bytes.splice(at..at, mark);
    Ok(bytes)
}
