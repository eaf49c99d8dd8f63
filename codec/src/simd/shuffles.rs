//! Tables of shuffles that compress and expand eight bytes or values, by the mask of those that are marked: for levels that have no
//! instruction for it. A number of 128 or more gives a byte that is 0, on all of them.

/// Shuffles that compress eight bytes, by the mask of the marked ones.
pub(super) static TOGETHER: [u64; 256] = shuffles(true);
/// Shuffles that expand eight bytes to the marked places, by their mask; the others are 0.
pub(super) static APART: [u64; 256] = shuffles(false);

const fn shuffles(together: bool) -> [u64; 256] {
    let mut shuffles = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut shuffle = [0x80; 8];
        let (mut position, mut rank) = (0, 0);
        while position < 8 {
            if mask >> position & 1 == 1 {
                let (from, to) = if together { (position, rank) } else { (rank, position) };
                shuffle[to] = from as u8;
                rank += 1;
            }
            position += 1;
        }
        shuffles[mask] = u64::from_le_bytes(shuffle);
        mask += 1;
    }
    shuffles
}

/// Shuffles that compress eight values of two bytes, by the mask of the marked ones.
pub(super) static VALUES_TOGETHER: [[u8; 16]; 256] = value_shuffles(true);
/// Shuffles that expand eight values of two bytes to the marked places, by their mask; the others are 0.
pub(super) static VALUES_APART: [[u8; 16]; 256] = value_shuffles(false);

const fn value_shuffles(together: bool) -> [[u8; 16]; 256] {
    let mut shuffles = [[0x80; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut value, mut rank) = (0, 0);
        while value < 8 {
            if mask >> value & 1 == 1 {
                let (from, to) = if together { (value, rank) } else { (rank, value) };
                shuffles[mask][2 * to] = 2 * from as u8;
                shuffles[mask][2 * to + 1] = 2 * from as u8 + 1;
                rank += 1;
            }
            value += 1;
        }
        mask += 1;
    }
    shuffles
}
