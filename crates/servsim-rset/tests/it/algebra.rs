//! Sets of numbers and of resources, beside lists of booleans.

use proptest::prelude::*;
use servsim_rset::{Nodes, Processors, ResourceSet, RsetError};

const SIZE: usize = 130;

/// The set of all places that hold.
fn set(held: &[bool]) -> Processors {
    (0u32..).zip(held).filter(|(_, &held)| held).map(|(number, _)| number).collect()
}

fn both(a: &[bool], b: &[bool], of: impl Fn(bool, bool) -> bool) -> Vec<bool> {
    a.iter().zip(b).map(|(&a, &b)| of(a, b)).collect()
}

fn held() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), SIZE)
}

proptest! {
    #[test]
    fn sets_are_what_lists_of_booleans_are(a in held(), b in held()) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(x.union(&y), set(&both(&a, &b, |a, b| a || b)));
        prop_assert_eq!(x.intersection(&y), set(&both(&a, &b, |a, b| a && b)));
        prop_assert_eq!(x.difference(&y), set(&both(&a, &b, |a, b| a && !b)));
        prop_assert_eq!(x.is_subset(&y), both(&a, &b, |a, b| a && !b).iter().all(|outside| !outside));
        prop_assert_eq!(x.len(), a.iter().filter(|&&held| held).count());
        prop_assert_eq!(x.iter().collect::<Vec<_>>().len(), x.len());
    }

    #[test]
    fn text_and_masks_lead_back(a in held()) {
        let x = set(&a);
        prop_assert_eq!(x.to_string().parse::<Processors>().unwrap(), x.clone());
        prop_assert_eq!(Processors::from_mask(&x.mask()), x);
    }

    #[test]
    fn the_one_after_is_the_next_held_in_turn(a in held(), from in 0..SIZE) {
        let next = (1..=SIZE).map(|step| (from + step) % SIZE).find(|&at| a[at]);
        prop_assert_eq!(set(&a).after(from as u32), next.map(|at| at as u32));
    }
}

fn resources(processors: &str, nodes: &str) -> ResourceSet {
    ResourceSet { processors: processors.parse().unwrap(), nodes: nodes.parse().unwrap() }
}

#[test]
fn the_text_is_the_kernels() {
    let set: Nodes = " 0-3,8,10-11\n".parse().unwrap();
    assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8, 10, 11]);
    assert_eq!(set.to_string(), "0-3,8,10-11");
    assert!("".parse::<Nodes>().unwrap().is_empty());
    for wrong in ["3-1", "a", "1,,2", "-1", "1-", "0-65536", "4294967296", "1;2"] {
        let fault = wrong.parse::<Nodes>().unwrap_err().to_string();
        assert!(fault.contains("no list of nodes"), "{wrong}: {fault}");
    }
}

#[test]
fn processors_and_memory_are_combined_apart() {
    let a = resources("0-3", "0");
    let b = resources("2-5", "0-1");
    assert_eq!(a.union(&b), resources("0-5", "0-1"));
    assert_eq!(a.intersection(&b), resources("2-3", "0"));
    assert_eq!(b.difference(&a), resources("4-5", "1"));
    assert!(ResourceSet::empty().is_subset(&a) && ResourceSet::empty().is_empty());
    assert!(!resources("", "1").is_empty());
}

#[test]
fn children_stay_inside_their_parents() {
    let parent = resources("0-3", "0-1");
    let child = parent.child(resources("1-2", "1")).unwrap();
    assert!(child.is_subset(&parent));
    let fault = parent.child(resources("3-4", "1-2")).unwrap_err();
    assert!(matches!(fault, RsetError::OutsideParent { .. }));
    assert_eq!(
        fault.to_string(),
        "a child must lie inside its parent: processors 4 and memory of nodes 2 is not in it"
    );
}
