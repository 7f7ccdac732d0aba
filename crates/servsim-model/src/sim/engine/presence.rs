//! How many requests of each class are in the system, over time: how this number comes and goes tells how long a model
//! remembers how it began (`settling`).

/// The numbers in the system, and what they were since measuring began.
pub(super) struct Presence {
    here: Vec<u32>,
    since: Vec<f64>,
    area: Vec<f64>,
    squares: Vec<f64>,
}

impl Presence {
    pub(super) fn new(classes: usize) -> Self {
        let zeros = || vec![0.0; classes];
        Self { here: vec![0; classes], since: zeros(), area: zeros(), squares: zeros() }
    }

    pub(super) fn enters(&mut self, class: usize, now: f64) {
        self.settle(class, now);
        self.here[class] += 1;
    }

    pub(super) fn leaves(&mut self, class: usize, now: f64) {
        self.settle(class, now);
        self.here[class] -= 1;
    }

    fn settle(&mut self, class: usize, now: f64) {
        let (here, elapsed) = (f64::from(self.here[class]), now - self.since[class]);
        self.since[class] = now;
        self.area[class] += here * elapsed;
        self.squares[class] += here * here * elapsed;
    }

    /// Ends a part. Returns the integral over it of the numbers, by class.
    pub(super) fn end_part(&mut self, now: f64) -> Vec<f64> {
        (0..self.here.len()).for_each(|class| self.settle(class, now));
        let classes = self.area.len();
        std::mem::replace(&mut self.area, vec![0.0; classes])
    }

    /// The integral of the squared numbers, by class, since this was last asked for.
    pub(super) fn take_squares(&mut self) -> Vec<f64> {
        let classes = self.squares.len();
        std::mem::replace(&mut self.squares, vec![0.0; classes])
    }
}
