//! The nearest name to a misspelt one, by edit distance.

/// The candidate nearest to `word`, if it is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + word.len() / 3;
    candidates
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `" (did you mean `x`?)"` for the nearest candidate, or an empty text.
pub fn suggestion<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["cache.size", "cache.line", "bus.write"];
        assert_eq!(nearest("cache.sise", names.into_iter()), Some("cache.size"));
        assert_eq!(nearest("colour", names.into_iter()), None);
        assert_eq!(suggestion("bus.wite", names.into_iter()), " (did you mean `bus.write`?)");
        assert_eq!(suggestion("colour", names.into_iter()), "");
    }
}
