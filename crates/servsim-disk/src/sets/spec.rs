//! Sets as a person writes them: `raid5:5,unit=64KiB`, for one device `disk0=raid1:2`.

use super::layout::{Layout, RaidLevel};
use crate::error::{suggestion, ModelError};
use crate::request::SECTOR_BYTES;
use servsim_units::Bytes;

/// Stripe unit when none is named: 64 KiB, the default of Linux mdadm before 3.1 and of most controllers
/// since.
const UNIT_BYTES: u64 = 64 << 10;

const LEVELS: [(&str, RaidLevel, usize); 5] = [
    ("raid0", RaidLevel::Stripe, 2),
    ("raid1", RaidLevel::Mirror, 2),
    ("raid5", RaidLevel::Parity, 3),
    ("stripe", RaidLevel::Stripe, 2),
    ("mirror", RaidLevel::Mirror, 2),
];

/// A set, and which device of the trace it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSpec {
    /// Device of the trace; `None` for every device that has no set of its own.
    pub device: Option<String>,
    /// The set.
    pub layout: Layout,
}

impl std::str::FromStr for SetSpec {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = |problem: String| ModelError::Invalid(format!("set `{text}`: {problem}"));
        // A device may have `:` and `,` in its name: what follows its last `=LEVEL:` is the set.
        let split = LEVELS.iter().filter_map(|(name, _, _)| text.rfind(&format!("={name}:"))).max();
        let (device, set) = match split {
            Some(at) => (Some(text[..at].to_owned()), &text[at + 1..]),
            None => (None, text),
        };
        let mut parts = set.split(',');
        let head = parts.next().unwrap_or_default();
        let (name, members) = head
            .split_once(':')
            .ok_or_else(|| bad("write LEVEL:DRIVES, such as raid5:5,unit=64KiB".to_owned()))?;
        let names = LEVELS.map(|(name, _, _)| name);
        let &(_, level, least) = LEVELS.iter().find(|(known, _, _)| *known == name).ok_or_else(|| {
            bad(format!(
                "no level is called `{name}`{}; accepted: {}",
                suggestion(name, &names),
                names.join(", ")
            ))
        })?;
        let members: usize =
            members.parse().map_err(|_| bad(format!("`{members}` is not a number of drives")))?;
        if !(least..=256).contains(&members) {
            return Err(bad(format!("{name} takes {least} to 256 drives, not {members}")));
        }
        let mut unit_bytes = UNIT_BYTES;
        for part in parts {
            let value = part
                .strip_prefix("unit=")
                .ok_or_else(|| bad(format!("`{part}` is not an option; accepted: unit=SIZE")))?;
            if level == RaidLevel::Mirror {
                return Err(bad("a mirror has no stripe unit; leave `unit=` out".to_owned()));
            }
            unit_bytes = value.parse::<Bytes>().map_err(|error| bad(error.to_string()))?.0;
        }
        if unit_bytes == 0 || !unit_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(bad(format!("the stripe unit must be a multiple of {SECTOR_BYTES} B, above 0")));
        }
        Ok(SetSpec { device, layout: Layout { level, members, unit_sectors: unit_bytes / SECTOR_BYTES } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_with_their_device_and_mistakes_told_with_a_remedy() {
        let set: SetSpec = "raid5:5,unit=64KiB".parse().unwrap();
        assert_eq!(set.device, None);
        assert_eq!(set.layout, Layout { level: RaidLevel::Parity, members: 5, unit_sectors: 128 });
        let named: SetSpec = "8:0=mirror:2".parse().unwrap();
        assert_eq!((named.device.as_deref(), named.layout.level), (Some("8:0"), RaidLevel::Mirror));
        for (text, hint) in [
            ("raid5", "LEVEL:DRIVES"),
            ("raid6:5", "accepted: raid0"),
            ("raid5:2", "takes 3 to"),
            ("raid0:x", "not a number"),
            ("raid0:4,unit=64", "unit"),
            ("raid0:4,unit=100B", "multiple of 512"),
            ("raid1:2,unit=64KiB", "no stripe unit"),
            ("raid0:4,depth=3", "accepted: unit="),
        ] {
            let message = text.parse::<SetSpec>().unwrap_err().to_string();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }
}
