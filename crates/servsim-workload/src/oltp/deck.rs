//! Which transaction comes next: a shuffled deck, or independent weighted draws.
//!
//! Clause 5.2.4.2 describes the deck: ten New-Order, ten Payment and one card of each other kind,
//! shuffled whenever it is exhausted, which keeps the mix within the required minimum shares.

use super::request::TransactionKind;
use crate::rng::Stream;

/// How the kinds are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// A deck of 23 cards: 10, 10, 1, 1, 1.
    Deck,
    /// Independent draws of 45, 43, 4, 4 and 4 %.
    Weighted,
}

impl Mix {
    /// The share of each kind in the long run, in the order of [`TransactionKind::ALL`].
    pub fn shares(self) -> [f64; 5] {
        match self {
            Mix::Deck => [10.0 / 23.0, 10.0 / 23.0, 1.0 / 23.0, 1.0 / 23.0, 1.0 / 23.0],
            Mix::Weighted => [0.45, 0.43, 0.04, 0.04, 0.04],
        }
    }
}

/// One user's source of transaction kinds.
#[derive(Clone, Debug)]
pub struct Deck {
    mix: Mix,
    cards: Vec<TransactionKind>,
    /// Cards drawn before any others, whatever the mix.
    rehearsal: Vec<TransactionKind>,
}

impl Deck {
    /// An exhausted deck: the first draw shuffles.
    pub fn new(mix: Mix) -> Self {
        Deck { mix, cards: Vec::with_capacity(23), rehearsal: Vec::new() }
    }

    /// The next kind.
    pub fn draw(&mut self, stream: &mut Stream) -> TransactionKind {
        if let Some(kind) = self.rehearsal.pop() {
            return kind;
        }
        match self.mix {
            Mix::Weighted => match stream.below(100) {
                0..45 => TransactionKind::NewOrder,
                45..88 => TransactionKind::Payment,
                88..92 => TransactionKind::OrderStatus,
                92..96 => TransactionKind::Delivery,
                _ => TransactionKind::StockLevel,
            },
            Mix::Deck => {
                let next = self.cards.pop();
                next.unwrap_or_else(|| self.shuffle(stream))
            }
        }
    }

    /// Puts `times` cards of every kind, shuffled, on top.
    pub fn rehearse(&mut self, times: usize, stream: &mut Stream) {
        let mut cards = TransactionKind::ALL.repeat(times);
        stream.shuffle(&mut cards);
        self.rehearsal = cards;
    }

    /// Fills and shuffles the deck, and takes its first card.
    fn shuffle(&mut self, stream: &mut Stream) -> TransactionKind {
        let mut cards = [TransactionKind::NewOrder; 23];
        cards[10..20].fill(TransactionKind::Payment);
        cards[20..].copy_from_slice(&[
            TransactionKind::OrderStatus,
            TransactionKind::Delivery,
            TransactionKind::StockLevel,
        ]);
        stream.shuffle(&mut cards);
        self.cards.extend_from_slice(&cards[1..]);
        cards[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn counts(mix: Mix, draws: usize) -> [u32; 5] {
        let mut stream = Stream::new(5, Purpose::Measured, 0);
        let mut deck = Deck::new(mix);
        let mut counts = [0; 5];
        for _ in 0..draws {
            counts[deck.draw(&mut stream) as usize - 1] += 1;
        }
        counts
    }

    #[test]
    fn every_deck_of_23_holds_the_same_cards() {
        assert_eq!(counts(Mix::Deck, 23), [10, 10, 1, 1, 1]);
        assert_eq!(counts(Mix::Deck, 230), [100, 100, 10, 10, 10]);
    }

    #[test]
    fn a_rehearsal_holds_every_kind_equally_often_and_then_the_mix_follows() {
        let mut stream = Stream::new(5, Purpose::WarmUp, 0);
        let mut deck = Deck::new(Mix::Deck);
        deck.rehearse(7, &mut stream);
        let mut counts = [0; 5];
        (0..35).for_each(|_| counts[deck.draw(&mut stream) as usize - 1] += 1);
        assert_eq!(counts, [7; 5]);
        (0..23).for_each(|_| counts[deck.draw(&mut stream) as usize - 1] += 1);
        assert_eq!(counts, [17, 17, 8, 8, 8]);
    }

    #[test]
    fn the_weighted_mix_stays_within_three_sigma_and_another_does_not() {
        let draws = 200_000;
        let fits = |mix| {
            counts(mix, draws).into_iter().zip(Mix::Weighted.shares()).map(|(count, share)| {
                let sigma = (draws as f64 * share * (1.0 - share)).sqrt();
                (f64::from(count) - draws as f64 * share).abs() < 3.0 * sigma
            })
        };
        assert!(fits(Mix::Weighted).all(|fits| fits), "{:?}", counts(Mix::Weighted, draws));
        // A deck holds 10 New-Orders in 23, not 45 in 100, and one of each rare kind, not 4 in 100.
        assert!(fits(Mix::Deck).filter(|fits| !fits).count() >= 4, "{:?}", counts(Mix::Deck, draws));
    }
}
