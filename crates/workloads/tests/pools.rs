//! Invalid pools are rejected with a reason.

use seawall_memory::{Addr, Image, MemoryExt};
use seawall_workloads::{Layout, Setup, Visitor, WORKLOADS, Workload, with_workload};

fn made<W: Workload>() -> (Image, Layout) {
    let setup = Setup { entries: 6, ..Setup::of::<W>(2) };
    setup.check().expect("a good setup");
    let layout = W::layout(&setup);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    W::create(&image, &setup);
    (image, layout)
}

struct Refuse;

impl Visitor for Refuse {
    type Output = ();

    fn visit<W: Workload>(self) {
        let (image, layout) = made::<W>();
        let pm = image.into_pm();
        let open = |pm: Vec<u8>, layout: Layout| {
            let image = Image::from_pm(pm, layout.dram_bytes);
            W::open(&image, layout).map(|_| ()).map_err(|damage| damage.to_string())
        };
        assert_eq!(open(pm.clone(), layout), Ok(()));

        // Less than a heap needs before it has grown.
        let part = Layout { pm_bytes: (layout.pm_bytes / 2).min(4096), ..layout };
        let message = open(pm[..part.pm_bytes as usize].to_vec(), part).unwrap_err();
        assert!(message.contains("truncated"), "{message}");

        let empty = Layout { pm_bytes: 0, ..layout };
        assert!(open(Vec::new(), empty).unwrap_err().contains("not a seawall pool"));

        let small = Layout { dram_bytes: 0, ..layout };
        if layout.dram_bytes > 0 {
            assert!(open(pm.clone(), small).unwrap_err().contains("DRAM"));
        }
        for root in 0..4 {
            for value in [0, 1, 7, 1 << 20, 1 << 40, u64::MAX] {
                let _ = open(with_root(&pm, root, value), layout);
            }
        }
    }
}

/// The pool with another root word and a checksum that fits.
fn with_root(pm: &[u8], root: u64, value: u64) -> Vec<u8> {
    let image = Image::from_pm(pm.to_vec(), 0);
    let bytes = pm.len() as u64;
    let name = seawall_runtime::pool::name(&image, bytes).expect("a whole pool");
    let mut roots = seawall_runtime::pool::open(&image, &name, bytes).expect("a whole pool");
    roots[root as usize] = value;
    seawall_runtime::pool::create(&image, &name, 1, bytes, &roots);
    image.into_pm()
}

#[test]
fn bad_pools_are_refused_with_a_reason_and_bad_roots_never_panic() {
    for entry in WORKLOADS {
        with_workload(entry.name, Refuse).expect("a workload of the table");
    }
}

#[test]
fn a_pool_of_another_workload_is_refused_by_name() {
    use seawall_workloads::{Hash, Queue};
    let (image, layout) = made::<Hash>();
    let message = Queue::open(&image, layout).unwrap_err().to_string();
    assert!(message.contains("workload `hash`, not to `queue`"), "{message}");
}

#[test]
fn a_pool_whose_creation_was_cut_short_is_none() {
    use seawall_workloads::Hash;
    let (image, layout) = made::<Hash>();
    image.store(Addr::pm(0), 0u64);
    assert!(Hash::open(&image, layout).unwrap_err().to_string().contains("cut short"));
}

#[test]
fn a_setup_out_of_range_is_refused_by_name() {
    let setup = Setup { threads: 0, entries: 9, ..Setup::of::<seawall_workloads::Hash>(1) };
    assert_eq!(setup.check().unwrap_err().to_string(), "threads is 0; it must be 1 to 1024");
    let setup = Setup { threads: 1, search_percent: 101, ..setup };
    assert!(setup.check().unwrap_err().to_string().contains("search_percent"));
}
