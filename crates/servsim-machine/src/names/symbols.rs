//! Symbols of the guest's kernel, as `/proc/kallsyms` and `System.map` list them.

/// Symbols by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads lines `ADDRESS TYPE NAME [MODULE]`.
    ///
    /// # Errors
    /// When a line is none, with its number; when all addresses are 0, as an unprivileged reader
    /// of `/proc/kallsyms` sees them.
    pub fn parse(text: &str, file: &str) -> Result<Self, String> {
        let mut symbols = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let mut fields = line.split_whitespace();
            let address = fields.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(_), Some(name)) = (address, fields.next(), fields.next()) else {
                return Err(format!("{file}, line {}: not `ADDRESS TYPE NAME`", number + 1));
            };
            symbols.push((address, name.to_owned()));
        }
        if symbols.iter().all(|(address, _)| *address == 0) {
            return Err(format!("{file}: every address is 0; read /proc/kallsyms as root, in the guest"));
        }
        symbols.sort();
        Ok(Self(symbols))
    }

    /// The names, in the order of addresses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| name.as_str())
    }

    /// Where each symbol of this name begins and the next one does.
    pub fn ranges<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (u64, u64)> + 'a {
        let named = self.0.iter().enumerate().filter(move |(_, (_, known))| known == name);
        named.map(|(at, (start, _))| {
            let after = self.0[at..].iter().find(|(next, _)| next > start);
            (*start, after.map_or(*start + 8, |(next, _)| *next))
        })
    }

    /// The symbol at or before `address`, with the distance to it.
    pub fn at(&self, address: u64) -> Option<(&str, u64)> {
        let next = self.0.partition_point(|(start, _)| *start <= address);
        let start = self.0[..next].last()?.0;
        // Of several names at one address the first in order, so that the answer is always the same.
        let first = self.0.partition_point(|(other, _)| *other < start);
        Some((self.0[first].1.as_str(), address - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let text =
            "ffffffff82000040 D jiffies\nffffffff82000000 d tick_lock\n\nffffffff82000000 d alias [m]\n";
        let symbols = Symbols::parse(text, "map").unwrap();
        assert_eq!(symbols.at(0xffff_ffff_8200_0044), Some(("jiffies", 4)));
        assert_eq!(symbols.at(0xffff_ffff_8200_003f), Some(("alias", 0x3f)));
        assert_eq!(symbols.at(0), None);
    }

    #[test]
    fn a_table_without_addresses_is_refused() {
        assert!(Symbols::parse("0 t a\n0 t b\n", "k").unwrap_err().contains("as root"));
        assert!(Symbols::parse("nonsense\n", "k").unwrap_err().contains("line 1"));
    }
}
