//! How many requests of each class are in the system, and how many at each station, over time: how these numbers come and
//! go tells how long a model remembers how it began (`settling`).

/// The numbers, those of classes before those of stations, and what they were since measuring began.
pub(super) struct Presence {
    here: Vec<u32>,
    since: Vec<f64>,
    area: Vec<f64>,
    squares: Vec<f64>,
}

impl Presence {
    pub(super) fn new(classes: usize, stations: usize) -> Self {
        let places = classes + stations;
        let zeros = || vec![0.0; places];
        Self { here: vec![0; places], since: zeros(), area: zeros(), squares: zeros() }
    }

    pub(super) fn enters(&mut self, index: usize, now: f64) {
        self.settle(index, now);
        self.here[index] += 1;
    }

    pub(super) fn leaves(&mut self, index: usize, now: f64) {
        self.settle(index, now);
        self.here[index] -= 1;
    }

    fn settle(&mut self, index: usize, now: f64) {
        let (here, elapsed) = (f64::from(self.here[index]), now - self.since[index]);
        self.since[index] = now;
        self.area[index] += here * elapsed;
        self.squares[index] += here * here * elapsed;
    }

    /// Ends a part. Returns the integrals of the numbers over it.
    pub(super) fn end_part(&mut self, now: f64) -> Vec<f64> {
        (0..self.here.len()).for_each(|index| self.settle(index, now));
        let places = self.area.len();
        std::mem::replace(&mut self.area, vec![0.0; places])
    }

    /// The integrals of the squared numbers since this was last asked for.
    pub(super) fn take_squares(&mut self) -> Vec<f64> {
        let places = self.squares.len();
        std::mem::replace(&mut self.squares, vec![0.0; places])
    }
}
