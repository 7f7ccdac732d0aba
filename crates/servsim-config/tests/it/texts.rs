//! What is printed of a machine is read back as the same machine, and mutants of descriptions are refused in
//! sentences or are machines.

use proptest::prelude::*;
use servsim_config::{Kind, Machine, Setting, Value, SETTINGS};
use servsim_oracle::mutation::Mutants;

/// Mutants of each description in `make test`.
const QUICK: usize = 500;

/// Every description that ships.
const SHIPPED: [&str; 11] = [
    include_str!("../../../../python/servsim/machines/alameldeen-2003-16p.toml"),
    include_str!("../../../../python/servsim/machines/brock-2001-2x4.toml"),
    include_str!("../../../../python/servsim/machines/brock-2001-4x4.toml"),
    include_str!("../../../../python/servsim/machines/du-2001.toml"),
    include_str!("../../../../python/servsim/machines/epyc-9124-16c.toml"),
    include_str!("../../../../python/servsim/machines/epyc-9124-cxl.toml"),
    include_str!("../../../../python/servsim/machines/epyc-9554-128c.toml"),
    include_str!("../../../../python/servsim/machines/foglia-2004-4p.toml"),
    include_str!("../../../../python/servsim/machines/foglia-2004-8p.toml"),
    include_str!("../../../../python/servsim/machines/graviton4-192c.toml"),
    include_str!("../../../../python/servsim/machines/martin-2002-16p.toml"),
];

/// The resolved description as a description: every setting, with its section.
fn printed(machine: &Machine) -> String {
    let resolved = machine.resolved();
    let line = |setting: &Setting, name: &str, text: &str| match setting.kind {
        Kind::Count(..) => format!("{name} = {text}\n"),
        _ => format!("{name} = {text:?}\n"),
    };
    let (mut top, mut sections) = (String::new(), String::new());
    for setting in SETTINGS {
        match setting.key.split_once('.') {
            None => top += &line(setting, setting.key, resolved[setting.key].as_str().unwrap()),
            Some((section, name)) => {
                let text = resolved[section][name].as_str().unwrap();
                sections += &line(setting, &format!("{section}.{name}"), text);
            }
        }
    }
    top + &sections
}

fn read_back(machine: &Machine) {
    let text = printed(machine);
    let again =
        Machine::from_toml(&text, "printed.toml", &[]).unwrap_or_else(|e| panic!("{:?}\n{text}", e.0));
    assert_eq!(again.resolved(), machine.resolved());
    assert_eq!(format!("{again:?}"), format!("{machine:?}"));
}

#[test]
fn every_shipped_machine_is_read_back_as_printed() {
    for text in SHIPPED {
        read_back(&Machine::from_toml(text, "m.toml", &[]).unwrap_or_else(|e| panic!("{:?}", e.0)));
    }
}

/// The least and the largest number of a kind; texts have none.
fn range(kind: Kind) -> Option<(u64, u64)> {
    match kind {
        Kind::Text | Kind::Choice(_) => None,
        Kind::Size(low, high)
        | Kind::Capacity(low, high)
        | Kind::CapacityOrNone(low, high)
        | Kind::Cycles(low, high)
        | Kind::Count(low, high)
        | Kind::Time(low, high)
        | Kind::Frequency(low, high)
        | Kind::Things(_, low, high) => Some((low, high)),
    }
}

proptest! {
    #[test]
    fn every_number_of_every_setting_is_read_back_as_shown(
        setting in any::<prop::sample::Index>(), position in any::<u64>(), bits in 0..64_u32
    ) {
        let setting = &SETTINGS[setting.index(SETTINGS.len())];
        if let Some((low, high)) = range(setting.kind) {
            // Any magnitude is as likely as any other.
            let number = low.saturating_add(position >> bits).min(high);
            let number = match setting.kind {
                Kind::Size(..) => 1 << number.max(1).ilog2(),
                _ => number,
            };
            let shown = setting.kind.show(number);
            let read = setting.kind.read(&shown, !matches!(setting.kind, Kind::Count(..)));
            match read {
                Ok(read) => prop_assert!(matches!(read, Value::Number(read) if read == number), "{}: {}", setting.key, shown),
                // A power of two below a least that is none.
                Err(fault) => prop_assert!(number < low, "{}: {}", setting.key, fault),
            }
            let text = if matches!(setting.kind, Kind::Count(..)) { shown } else { format!("{shown:?}") };
            if let Ok(machine) = Machine::from_toml("", "m.toml", &[format!("{}={}", setting.key, text.trim_matches('"'))]) {
                read_back(&machine);
            }
        }
    }
}

#[test]
fn a_mutant_of_a_description_is_refused_in_sentences_or_is_a_machine() {
    let mut mutants = Mutants::new(1);
    let (mut read, mut refused) = (0, 0);
    for text in SHIPPED {
        for mutant in mutants.trials(env!("CARGO_MANIFEST_DIR"), "machine.toml", text.as_bytes(), QUICK) {
            match Machine::from_toml(&String::from_utf8_lossy(&mutant), "m.toml", &[]) {
                Ok(machine) => {
                    read_back(&machine);
                    read += 1;
                }
                Err(faults) => {
                    assert!(!faults.0.is_empty());
                    for fault in &faults.0 {
                        assert!(!fault.is_empty() && fault.len() < 2000 && !fault.contains('\n'), "{fault}");
                    }
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 50 && refused > 50, "both happen: {read} read, {refused} refused");
}
