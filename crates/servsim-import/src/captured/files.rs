//! Where files lie on the captured disks, as the trace's description has it.

use servsim_core::{FileRange, SourceError};

/// Reads lines `DEVICE SECTOR SECTORS FILE [RELATION]`.
///
/// # Errors
/// With the number of the first line that is something else.
pub fn ranges(text: &str, devices: &[String]) -> Result<Vec<FileRange>, SourceError> {
    let line = |(number, line): (usize, &str)| {
        range(line, devices).ok_or_else(|| {
            let fault = "not `DEVICE SECTOR SECTORS FILE [RELATION]` with a device of the trace";
            SourceError(format!("files of the trace, line {}: {fault}", number + 1))
        })
    };
    text.lines().enumerate().map(line).collect()
}

fn range(line: &str, devices: &[String]) -> Option<FileRange> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let device = devices.iter().position(|device| device == name)? as u32;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (sector, sectors) = (number()?, number()?);
    let file = words.next()?.to_owned();
    let relation = words.next().map(str::to_owned);
    (words.next().is_none() && sectors > 0 && sector.checked_add(sectors).is_some()).then_some(FileRange {
        device,
        sector,
        sectors,
        file,
        relation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_range_of_a_file_with_or_without_relation() {
        let devices = ["vda".to_owned(), "vdb".to_owned()];
        let found = ranges("vdb 8 16 base/5/7 stock\nvda 0 8 pg_wal/1", &devices).unwrap();
        assert_eq!((found[0].device, found[0].sector, found[0].sectors), (1, 8, 16));
        assert_eq!(found[0].relation.as_deref(), Some("stock"));
        assert_eq!((found[1].file.as_str(), &found[1].relation), ("pg_wal/1", &None));
        for wrong in ["vdc 8 16 f", "vda 8 f", "vda 8 0 f", "vda x 1 f", "vda 1 1 f r more"] {
            let error = ranges(&format!("vda 1 1 f\n{wrong}"), &devices).unwrap_err();
            assert!(error.0.contains("line 2"), "{error}");
        }
    }
}
