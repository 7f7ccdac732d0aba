//! Interconnects and memory banks in the timing engine, to the cycle.

use crate::support::one_run::one_run;

use serde_json::Value;

/// Two processors that each load a line of 128 bytes at time 0: lines 0 and 32, both in bank 0 of 4.
fn two_loads(machine: &str) -> Value {
    one_run("0 L 0\n1 L 1000\n", 2, machine, false)
}

/// Cycles that the two processors waited before their grant and for their data.
fn waits(run: &Value) -> (u64, u64) {
    let of = |key: &str| run["processors"].as_array().unwrap().iter().map(|p| p[key].as_u64().unwrap()).sum();
    (of("bus_wait"), of("memory_stall"))
}

#[test]
fn on_a_bus_the_second_load_waits_for_the_first_ones_data() {
    let run = two_loads("");
    assert_eq!(waits(&run), (8 + 16, 80 + 80));
    assert_eq!(run["interconnect"]["busiest_way_utilization"], Value::Null);
}

#[test]
fn on_a_crossbar_it_waits_for_the_order_point_and_for_the_banks_port() {
    // Granted at 5; the port of bank 0 sends the first line from 64 to 80, the second from 80 to 96.
    let run = two_loads("[interconnect]\nkind = \"crossbar\"\n");
    assert_eq!(waits(&run), (5, 80 + 91));
    assert_eq!(run["cycles"], 96 + 2);
    assert_eq!(run["interconnect"]["busiest_way_utilization"], 32.0 / 98.0);
}

#[test]
fn on_a_network_each_pair_has_its_link() {
    let run = two_loads("[interconnect]\nkind = \"network\"\nhop = \"3 cycles\"\n");
    assert_eq!(waits(&run), (5, 83 + 83));
}

#[test]
fn one_bank_serves_one_fetch_at_a_time() {
    // Granted at 24, the second finds its bank busy until 60.
    let run = two_loads("[memory]\nbank_time = \"60 cycles\"\n");
    assert_eq!(waits(&run), (24, 80 + 80 + 36));
    assert_eq!(run["interconnect"]["bank_wait_cycles"], 36);
    let apart = two_loads("[memory]\nbank_time = \"60 cycles\"\nbanks = 5\n");
    assert_eq!(waits(&apart), (24, 160), "line 32 lies in bank 2 of 5");
}
