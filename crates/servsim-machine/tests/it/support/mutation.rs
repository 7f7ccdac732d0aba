//! Changes what a trace file says and makes its checksums right again, so that checks of content are reached,
//! not only those of bytes. Works on the numbers of `FORMAT.md`: a column is a list of varints.

use servsim_core::RandomStream;

const FILE_HEADER: usize = 16;
const CHUNK_HEADER: usize = 24;
const META: u32 = 0;
const DICTIONARY: u32 = 1;
const TASKS: u32 = 2;
const EPOCH: u32 = 3;
const FOOTER: u32 = 4;
/// Numbers at which arithmetic and tables have their edges.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    3,
    5,
    63,
    64,
    127,
    255,
    4096,
    65_535,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    1 << 53,
    u64::MAX - 1,
    u64::MAX,
];

/// A mutant of the trace `whole`.
pub fn mutant(whole: &[u8], random: &mut RandomStream) -> Vec<u8> {
    let mut chunks = chunks(whole);
    for _ in 0..=random.below(2) {
        let index = random.below(chunks.len() as u64) as usize;
        // Most of what a trace says is in its epochs.
        let index = if random.below(3) > 0 { an_epoch(&chunks).unwrap_or(index) } else { index };
        let (kind, payload) = &mut chunks[index];
        *payload = match *kind {
            META | TASKS | FOOTER => with_other_number(payload, random),
            DICTIONARY => dictionary(payload, random),
            EPOCH => epoch(payload, random),
            _ => continue,
        };
    }
    if random.below(12) == 0 {
        let (from, to) =
            (random.below(chunks.len() as u64) as usize, random.below(chunks.len() as u64) as usize);
        let chunk = chunks[from].clone();
        chunks.insert(to, chunk);
    }
    // Without its footer a trace is taken as it is: what was changed meets no other check.
    if random.below(4) > 0 {
        chunks.retain(|(kind, _)| *kind != FOOTER);
    }
    file(whole, &chunks)
}

fn an_epoch(chunks: &[(u32, Vec<u8>)]) -> Option<usize> {
    chunks.iter().position(|(kind, _)| *kind == EPOCH)
}

/// Kind and payload of every chunk.
pub fn chunks(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut at, mut chunks) = (FILE_HEADER, Vec::new());
    while at + CHUNK_HEADER <= file.len() {
        let word = |offset: usize| u32::from_le_bytes(file[at + offset..at + offset + 4].try_into().unwrap());
        let length = word(8) as usize;
        let payload = file[at + CHUNK_HEADER..at + CHUNK_HEADER + length].to_vec();
        chunks.push((word(4), payload));
        at += CHUNK_HEADER + length;
    }
    chunks
}

/// The file of `chunks`, behind the header of `whole`.
pub fn file(whole: &[u8], chunks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = whole[..FILE_HEADER].to_vec();
    for (kind, payload) in chunks {
        let start = file.len();
        file.extend(b"VCHK");
        file.extend(kind.to_le_bytes());
        file.extend((payload.len() as u64).to_le_bytes());
        file.extend(crc32c::crc32c(payload).to_le_bytes());
        file.extend(crc32c::crc32c(&file[start..]).to_le_bytes());
        file.extend(payload);
    }
    file
}

/// JSON with one of its numbers changed.
fn with_other_number(json: &[u8], random: &mut RandomStream) -> Vec<u8> {
    let text = String::from_utf8_lossy(json).into_owned();
    let digits: Vec<usize> =
        text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
    if digits.is_empty() {
        return json.to_vec();
    }
    let at = digits[random.below(digits.len() as u64) as usize];
    let begin = text[..at].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
    let end = text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| at + length);
    let edge = EDGES[random.below(EDGES.len() as u64) as usize];
    format!("{}{edge}{}", &text[..begin], &text[end..]).into_bytes()
}

fn dictionary(payload: &[u8], random: &mut RandomStream) -> Vec<u8> {
    let mut raw = zstd::stream::decode_all(&payload[8..]).unwrap_or_default();
    if !raw.is_empty() {
        let at = random.below(raw.len() as u64) as usize;
        raw[at] = match random.below(3) {
            0 => random.next_u64() as u8,
            1 => raw[at] ^ 1 << random.below(8),
            _ => [0, 1, 0x7f, 0xff][random.below(4) as usize],
        };
    }
    let mut changed = (raw.len() as u64).to_le_bytes().to_vec();
    changed.extend(zstd::bulk::compress(&raw, 3).unwrap());
    changed
}

/// An epoch with a number of its directory or of a column changed.
fn epoch(payload: &[u8], random: &mut RandomStream) -> Vec<u8> {
    let mut at = 0;
    let mut head = vec![get(payload, &mut at), get(payload, &mut at)];
    let streams = head[1].min(64);
    let mut lengths = Vec::new();
    // Per stream a task, its items and six counts, then four columns; after them the segments and their column.
    for stream in 0..=streams {
        let (numbers, columns) = if stream < streams { (8, 4) } else { (1, 1) };
        (0..numbers).for_each(|_| head.push(get(payload, &mut at)));
        for _ in 0..columns {
            lengths.push((head.len(), get(payload, &mut at), get(payload, &mut at) as usize));
        }
    }
    let mut columns: Vec<Vec<u64>> = Vec::new();
    for &(_, raw, stored) in &lengths {
        // An epoch that was changed before may state anything.
        let Some(blob) = at.checked_add(stored).and_then(|end| payload.get(at..end)) else {
            return payload.to_vec();
        };
        let bytes = zstd::bulk::decompress(blob, raw.min(1 << 20) as usize).unwrap_or_default();
        at += stored;
        let mut place = 0;
        let mut numbers = Vec::new();
        while place < bytes.len() {
            numbers.push(get(&bytes, &mut place));
        }
        columns.push(numbers);
    }
    if random.below(6) == 0 {
        change(&mut head, random);
    } else {
        // Half of the changes in columns of events: fourth of each stream; others anywhere.
        let any = random.below(columns.len() as u64) as usize;
        let events: Vec<usize> =
            (0..streams as usize).map(|s| 4 * s + 3).filter(|&c| !columns[c].is_empty()).collect();
        let column = match (random.below(2), events.is_empty()) {
            (0, false) => events[random.below(events.len() as u64) as usize],
            _ => any,
        };
        change(&mut columns[column], random);
    }
    let (mut out, mut blobs, mut next) = (Vec::new(), Vec::new(), 0);
    for (index, column) in columns.iter().enumerate() {
        let before = lengths[index].0.min(head.len());
        head[next.min(before)..before].iter().for_each(|n| put(&mut out, *n));
        next = before;
        let mut bytes = Vec::new();
        column.iter().for_each(|n| put(&mut bytes, *n));
        let stored = zstd::bulk::compress(&bytes, 3).unwrap();
        put(&mut out, bytes.len() as u64);
        put(&mut out, stored.len() as u64);
        blobs.extend(stored);
    }
    out.extend(blobs);
    out
}

/// Changes, exchanges, doubles or removes a number.
fn change(numbers: &mut Vec<u64>, random: &mut RandomStream) {
    if numbers.is_empty() {
        return;
    }
    let at = random.below(numbers.len() as u64) as usize;
    let other = random.below(numbers.len() as u64) as usize;
    match random.below(9) {
        0 => numbers[at] = numbers[at].wrapping_add(1),
        1 => numbers[at] = numbers[at].wrapping_sub(1),
        2 => numbers[at] = numbers[other],
        3 => numbers.swap(at, other),
        4 => numbers.insert(at, numbers[other]),
        5 => drop(numbers.remove(at)),
        6 => numbers[at] ^= 1 << random.below(64),
        7 => numbers[at] = random.below(30),
        _ => numbers[at] = EDGES[random.below(EDGES.len() as u64) as usize],
    }
}

fn get(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0_u64, 0);
    while let Some(&byte) = bytes.get(*at) {
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
