//! A superscalar core, cycle by cycle: every cycle, every instruction of the window is asked whether it
//! can go on. Written from textbooks (Hennessy & Patterson, chapter 3): fetch is perfect, instructions
//! enter in order, execute when their operands are there, and leave in order.

/// Where a load finds its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In the first level.
    First,
    /// So many cycles farther out.
    Farther(u64),
    /// In memory.
    Memory,
}

/// One instruction; registers are small numbers.
#[derive(Debug, Clone)]
pub struct Step {
    /// Registers of its address.
    pub address: Vec<usize>,
    /// Registers that it reads besides.
    pub reads: Vec<usize>,
    /// Registers that it writes.
    pub writes: Vec<usize>,
    /// Cycles of its execution.
    pub latency: u64,
    /// Its load.
    pub load: Option<Found>,
}

/// A core.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Instructions that enter per cycle.
    pub width: usize,
    /// Instructions at once.
    pub window: usize,
    /// Whether instructions wait for their operands before they enter.
    pub in_order: bool,
    /// Cycles from address registers to the address.
    pub agen: u64,
    /// Cycles from address registers to first-level data.
    pub load: u64,
    /// Cycles from the address to data from memory.
    pub memory: u64,
    /// Loads beyond the first level at once.
    pub misses: usize,
}

/// An instruction that entered.
struct Flying {
    address: Vec<usize>,
    operands: Vec<usize>,
    data: Option<u64>,
    done: Option<u64>,
}

/// When each instruction enters and completes.
///
/// # Panics
/// When it does not end: a fault of the model.
pub fn run(machine: &Machine, steps: &[Step]) -> Vec<(u64, u64)> {
    let mut flying: Vec<Flying> = Vec::new();
    let mut entered: Vec<u64> = Vec::new();
    let mut maker: Vec<Option<usize>> = vec![None; 64];
    let mut cycle = 0;
    while flying.len() < steps.len() || flying.iter().any(|f| f.done.is_none()) {
        let mut room = machine.width;
        let mut moved = true;
        while moved {
            moved = enter(machine, steps, &mut flying, &mut entered, &mut maker, cycle, &mut room);
            for index in 0..flying.len() {
                moved |= load(machine, steps, &mut flying, index, cycle);
                moved |= execute(steps, &mut flying, index, cycle);
            }
        }
        cycle += 1;
        assert!(cycle < 1_000_000, "the scoreboard is stuck");
    }
    let done = flying.iter().map(|f| f.done.unwrap_or(u64::MAX));
    entered.into_iter().zip(done).collect()
}

/// Whether all of `makers` are done at `cycle`.
fn are_done(flying: &[Flying], makers: &[usize], cycle: u64) -> bool {
    makers.iter().all(|&maker| flying[maker].done.is_some_and(|done| done <= cycle))
}

#[allow(clippy::too_many_arguments)] // the state of the one loop above
fn enter(
    machine: &Machine,
    steps: &[Step],
    flying: &mut Vec<Flying>,
    entered: &mut Vec<u64>,
    maker: &mut [Option<usize>],
    cycle: u64,
    room: &mut usize,
) -> bool {
    let Some(step) = steps.get(flying.len()) else { return false };
    let left = (0..flying.len()).take_while(|&i| are_done(flying, &[i], cycle)).count();
    if *room == 0 || flying.len() - left >= machine.window {
        return false;
    }
    let makers = |registers: &[usize]| -> Vec<usize> {
        registers.iter().filter_map(|&register| maker[register]).collect()
    };
    let address = makers(&step.address);
    let mut operands = makers(&step.reads);
    operands.extend(&address);
    if machine.in_order && !are_done(flying, &operands, cycle) {
        return false;
    }
    for &register in &step.writes {
        maker[register] = Some(flying.len());
    }
    flying.push(Flying { address, operands, data: None, done: None });
    entered.push(cycle);
    *room -= 1;
    true
}

/// Starts the load of instruction `index` if it can.
fn load(machine: &Machine, steps: &[Step], flying: &mut [Flying], index: usize, cycle: u64) -> bool {
    let Some(found) = steps[index].load else { return false };
    if flying[index].data.is_some() || !are_done(flying, &flying[index].address, cycle) {
        return false;
    }
    let is_far = |i: &usize| steps[*i].load.is_some_and(|found| found != Found::First);
    let far = (0..flying.len()).filter(is_far);
    let under_way = far.filter(|&i| flying[i].data.is_some_and(|at| at > cycle)).count();
    if found != Found::First && under_way >= machine.misses {
        return false;
    }
    flying[index].data = Some(match found {
        Found::First => cycle + machine.load,
        Found::Farther(cycles) => cycle + machine.load + cycles,
        Found::Memory => cycle + machine.agen + machine.memory,
    });
    true
}

/// Executes instruction `index` if it can.
fn execute(steps: &[Step], flying: &mut [Flying], index: usize, cycle: u64) -> bool {
    let has_data = steps[index].load.is_none() || flying[index].data.is_some_and(|at| at <= cycle);
    if flying[index].done.is_some() || !has_data || !are_done(flying, &flying[index].operands, cycle) {
        return false;
    }
    flying[index].done = Some(cycle + steps[index].latency);
    true
}
