//! Groups of a KV cache into bytes, and back.

use xxhash_rust::xxh3::xxh3_64;
use zipwire_codec::{Codec, Decoder, FrameShape, Layout, Spec};

use crate::group::{Header, VERSION};
use crate::{Geometry, Group, HEADER_LEN, KvError, Place};

/// Encodes and decodes groups of one KV cache. It can be shared by threads.
#[derive(Debug)]
pub struct KvCodec {
    geometry: Geometry,
    codec: Box<dyn Codec>,
    compatibility: u64,
}

/// Memory in which pages are put together and taken apart, and which is used again: one for each thread.
#[derive(Debug, Default)]
pub struct Scratch {
    plane: Vec<u8>,
}

impl KvCodec {
    /// A codec for caches of this geometry. What the codec knows of columns is not asked for by itself: on recorded caches it made
    /// no group smaller, and encoding slower. Where the values of a head differ in scale, `tiered:row=128` (values of a token in a
    /// head or in all heads, as they lie) looks at them.
    ///
    /// # Errors
    /// [`KvError::Unsupported`] if the codec does not code the type, and [`KvError::Codec`] if it needs a base or a table.
    pub fn new(geometry: Geometry, spec: Spec) -> Result<Self, KvError> {
        let name = spec.to_string();
        let complete = spec.complete().map_err(|source| KvError::Codec { codec: name.clone(), source })?;
        let codec = complete.codec();
        if !codec.supports(geometry.dtype()) {
            return Err(KvError::Unsupported { codec: name, dtype: geometry.dtype() });
        }
        let compatibility = xxh3_64(format!("zipwire-kv {VERSION}: {geometry}; {name}").as_bytes());
        Ok(Self { geometry, codec, compatibility })
    }

    /// Hash that both ends compare before anything is sent: of the format's version, the geometry and the codec. It is in each
    /// group, too.
    pub fn compatibility(&self) -> u64 {
        self.compatibility
    }

    /// The cache.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The most bytes that a group of so many tokens takes, whatever its values are.
    pub fn bound(&self, tokens: u32) -> usize {
        let planes = self.codec.bound(self.shape(tokens)).saturating_mul(self.geometry.planes());
        planes.saturating_add(HEADER_LEN)
    }

    /// Encodes the planes of a group (keys and values, or the latent), each contiguous in memory, to the front of `out`. Returns
    /// the bytes that it takes.
    ///
    /// # Errors
    /// [`KvError::Layer`], [`KvError::Planes`] and [`KvError::PlaneLen`] if it is no group of the cache, [`KvError::Room`] if `out` is shorter than
    /// [`Self::bound`].
    pub fn encode(&self, place: Place, planes: &[&[u8]], out: &mut [u8]) -> Result<usize, KvError> {
        let lens = planes.iter().map(|plane| plane.len());
        let tokens = self.tokens(place, planes.len(), lens, out.len())?;
        self.encode_each(place, tokens, out, |plane, encode| encode(planes[plane]))
    }

    /// Encodes a group that lies in pages: each plane is given as its pages, one after the other, each with whole tokens. With
    /// [`Order::Heads`](crate::Order::Heads) these are the pages of all tokens of the group, as they lie.
    ///
    /// # Errors
    /// Errors of [`Self::encode`].
    pub fn encode_pages(
        &self,
        place: Place,
        planes: &[&[&[u8]]],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<usize, KvError> {
        for page in planes.iter().flat_map(|pages| pages.iter()) {
            self.whole_tokens(page.len())?;
        }
        let lens = planes.iter().map(|pages| pages.iter().map(|page| page.len()).sum());
        let tokens = self.tokens(place, planes.len(), lens, out.len())?;
        self.encode_each(place, tokens, out, |plane, encode| {
            if let [page] = planes[plane] {
                return encode(page);
            }
            scratch.plane.clear();
            planes[plane].iter().for_each(|page| scratch.plane.extend_from_slice(page));
            encode(&scratch.plane)
        })
    }

    /// Reads the header of a group, from its first [`HEADER_LEN`] bytes. Whether all of it is there, and sound, only decoding says.
    ///
    /// # Errors
    /// [`KvError::Damaged`], [`KvError::Version`] and [`KvError::Incompatible`]; [`KvError::Layer`] if there is no such layer.
    pub fn peek(&self, group: &[u8]) -> Result<Group, KvError> {
        self.read(group).map(|(_, group)| group)
    }

    /// Decodes the planes of a group, each into memory of [`Group::plane_len`] bytes. Values are compared with the checksum that was made of them when
    /// they were encoded.
    ///
    /// # Errors
    /// Errors of [`Self::peek`]; [`KvError::Decode`] if a frame is damaged; [`KvError::Planes`] and [`KvError::PlaneLen`] if `planes` are not those of the
    /// group. What is in them is then unspecified.
    pub fn decode(&self, group: &[u8], planes: &mut [&mut [u8]]) -> Result<Group, KvError> {
        let (header, info) = self.read(group)?;
        self.fits(&info, planes.len(), planes.iter().map(|plane| plane.len()))?;
        for (number, (frame, plane)) in frames(&header, &info, group)?.zip(planes).enumerate() {
            self.decode_plane(number, frame, plane)?;
        }
        Ok(info)
    }

    /// Decodes a group into pages, as [`Self::encode_pages`] takes them; they need not be those that the sender had.
    ///
    /// # Errors
    /// Errors of [`Self::decode`]. Pages of planes behind one that is damaged are as they were.
    pub fn decode_pages(
        &self,
        group: &[u8],
        planes: &mut [&mut [&mut [u8]]],
        scratch: &mut Scratch,
    ) -> Result<Group, KvError> {
        let (header, info) = self.read(group)?;
        for page in planes.iter().flat_map(|pages| pages.iter()) {
            self.whole_tokens(page.len())?;
        }
        let lens = planes.iter().map(|pages| pages.iter().map(|page| page.len()).sum());
        self.fits(&info, planes.len(), lens)?;
        for (number, (frame, pages)) in frames(&header, &info, group)?.zip(planes).enumerate() {
            if let [page] = &mut **pages {
                self.decode_plane(number, frame, page)?;
                continue;
            }
            scratch.plane.resize(info.plane_len, 0);
            self.decode_plane(number, frame, &mut scratch.plane)?;
            let mut rest = &scratch.plane[..];
            for page in pages.iter_mut() {
                let (front, behind) = rest.split_at(page.len());
                page.copy_from_slice(front);
                rest = behind;
            }
        }
        Ok(info)
    }

    fn shape(&self, tokens: u32) -> FrameShape {
        let count = (tokens as usize).saturating_mul(self.geometry.row_values());
        FrameShape::new(Layout::Compact, self.geometry.dtype(), count)
    }

    /// Tokens of planes of these lengths, if they are those of a group that has room.
    fn tokens(
        &self,
        place: Place,
        planes: usize,
        lens: impl Iterator<Item = usize> + Clone,
        room: usize,
    ) -> Result<u32, KvError> {
        let layers = self.geometry.layers();
        if place.layer >= layers {
            return Err(KvError::Layer { layer: place.layer, layers });
        }
        self.counts(planes)?;
        let len = lens.clone().next().unwrap_or(0);
        let tokens = self.whole_tokens(len)?;
        let uneven = lens.into_iter().find(|other| *other != len);
        if let Some(found) = uneven.or((tokens == 0 || tokens > self.geometry.group_tokens()).then_some(len))
        {
            return Err(self.plane_len(found));
        }
        let needed = self.bound(tokens);
        if room < needed { Err(KvError::Room { found: room, needed }) } else { Ok(tokens) }
    }

    fn counts(&self, found: usize) -> Result<(), KvError> {
        let expected = self.geometry.planes();
        if found == expected { Ok(()) } else { Err(KvError::Planes { found, expected }) }
    }

    /// How many tokens so many bytes of a plane are.
    fn whole_tokens(&self, len: usize) -> Result<u32, KvError> {
        let row = self.geometry.row_len();
        let tokens = u32::try_from(len / row).ok().filter(|_| len.is_multiple_of(row));
        tokens.ok_or_else(|| self.plane_len(len))
    }

    fn plane_len(&self, found: usize) -> KvError {
        KvError::PlaneLen { found, row: self.geometry.row_len(), most: self.geometry.group_tokens() }
    }

    /// Writes the frame of each plane behind the header, which is written at last.
    fn encode_each(
        &self,
        place: Place,
        tokens: u32,
        out: &mut [u8],
        mut plane: impl FnMut(usize, &mut dyn FnMut(&[u8]) -> Result<(), KvError>) -> Result<(), KvError>,
    ) -> Result<usize, KvError> {
        let (mut end, mut frames) = (HEADER_LEN, [0; 2]);
        for (number, frame) in frames.iter_mut().enumerate().take(self.geometry.planes()) {
            plane(number, &mut |values| {
                let dtype = self.geometry.dtype();
                let len = self.codec.encode(Layout::Compact, dtype, values, &mut [], &mut out[end..])?;
                *frame = u32::try_from(len).expect("planes have at most 1 GiB");
                end += len;
                Ok(())
            })?;
        }
        let header = Header { compatibility: self.compatibility, place, tokens, frames };
        out[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        Ok(end)
    }

    /// The header of a group of this cache.
    fn read(&self, group: &[u8]) -> Result<(Header, Group), KvError> {
        let header = Header::read(group)?;
        if header.compatibility != self.compatibility {
            return Err(KvError::Incompatible { found: header.compatibility, expected: self.compatibility });
        }
        let layers = self.geometry.layers();
        if header.place.layer >= layers {
            return Err(KvError::Layer { layer: header.place.layer, layers });
        }
        let has_all_planes = header.frames[1] == 0 || self.geometry.planes() == 2;
        let is_group = (1..=self.geometry.group_tokens()).contains(&header.tokens) && has_all_planes;
        if !is_group {
            return Err(KvError::Damaged { what: "it has tokens or planes that no group of this cache has" });
        }
        let len = header.frames.iter().fold(HEADER_LEN, |sum, len| sum.saturating_add(*len as usize));
        let plane_len = header.tokens as usize * self.geometry.row_len();
        Ok((header, Group { place: header.place, tokens: header.tokens, plane_len, len }))
    }

    /// Whether there is memory of the right lengths for a group.
    fn fits(&self, group: &Group, planes: usize, lens: impl Iterator<Item = usize>) -> Result<(), KvError> {
        self.counts(planes)?;
        let mut others = lens.filter(|len| *len != group.plane_len);
        others.next().map_or(Ok(()), |found| Err(self.plane_len(found)))
    }

    fn decode_plane(&self, plane: usize, frame: &[u8], out: &mut [u8]) -> Result<(), KvError> {
        Decoder::new()
            .decode(Layout::Compact, self.geometry.dtype(), &[], frame, out)
            .map_err(|source| KvError::Decode { plane, source })
    }
}

fn frames<'a>(
    header: &Header,
    info: &Group,
    group: &'a [u8],
) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, KvError> {
    if group.len() != info.len {
        return Err(KvError::Damaged { what: "it has another length than its header says" });
    }
    let mut rest = &group[HEADER_LEN..];
    Ok(header.frames.into_iter().map(move |len| {
        let (frame, behind) = rest.split_at(len as usize);
        rest = behind;
        frame
    }))
}
