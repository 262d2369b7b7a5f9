//! The hardware's recovery after a crash under buffered strict persistency in bulk mode.
//!
//! MICRO'15, section 5.2: epochs that persisted only partly are undone, and each processor resumes
//! from the state saved at the end of its last durable epoch. An epoch is durable when the line
//! that names it is ([`names`](super::names)); its number in full is in the saved states. The order
//! of undoing matters if several epochs that were not durable wrote one line: its value must be
//! that from before the first of them, and the first is the one whose old line was itself a durable
//! version. So each line is restored from exactly one entry, in any order, and recovery is
//! idempotent.

use super::names::name_in;
use super::own::{Header, Layout, RECORD_LINES, low_bits, read_state};
use crate::memory::versions::LineData;
use crate::{Epoch, LineId};

/// Undoes in `image` the writes of epochs that are not durable; returns the number of stores of
/// each core that are in it.
pub(super) fn recover(layout: &Layout, image: &mut [LineData], undoes_all: bool) -> Vec<u64> {
    let cores = 0..layout.cores as usize;
    let durable: Vec<Epoch> = cores.clone().map(|core| named(layout, image, core)).collect();
    for core in cores.clone() {
        for number in 0..layout.records {
            let header = layout.record(core, number.into());
            undo(&durable, core, header, image, layout.first, undoes_all);
        }
    }
    cores
        .map(|core| match durable[core] {
            0 => 0,
            // The last line, which was written last, stands for all.
            epoch => read_state(&image[layout.last_of_state(core, epoch) as usize]).1,
        })
        .collect()
}

/// The last durable epoch of `core`: the one of the saved states that has its name.
fn named(layout: &Layout, image: &[LineData], core: usize) -> Epoch {
    let name = name_in(&image[layout.names() as usize], core);
    let states = (0..layout.states).map(|slot| image[layout.state(core, slot) as usize]);
    let mut epochs = states.map(|state| read_state(&state).0);
    epochs.find(|epoch| *epoch > 0 && *epoch as u8 == name).unwrap_or(0)
}

fn undo(
    durable: &[Epoch],
    core: usize,
    header: LineId,
    image: &mut [LineData],
    program_lines: LineId,
    undoes_all: bool,
) {
    let Some(record) = Header::read(&image[header as usize]) else { return };
    if record.epoch <= durable[core] {
        return;
    }
    debug_assert!(RECORD_LINES as usize > record.entries);
    for (place, (line, prior)) in (header + 1..).zip(record.lines()) {
        let is_first = prior.is_none_or(|(core, epoch)| {
            durable.get(core).is_none_or(|durable| is_up_to(epoch, *durable))
        });
        if (is_first || undoes_all) && line < program_lines {
            image[line as usize] = image[place as usize];
        }
    }
}

/// True if the epoch with these low bits is `durable` or an earlier one. Epochs in flight are few,
/// so the shorter distance modulo 2^24 is the right one.
fn is_up_to(low: Epoch, durable: Epoch) -> bool {
    let ahead = low_bits(low.wrapping_sub(durable));
    ahead == 0 || ahead > low_bits(Epoch::MAX) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::epochs::names::names_line;
    use crate::families::epochs::own::state_line;

    const LAYOUT: Layout = Layout { cores: 2, first: 4, records: 2, state_lines: 1, states: 3 };

    fn image() -> Vec<LineData> {
        vec![[9; 8]; 4].into_iter().chain(vec![[0; 8]; LAYOUT.lines() as usize]).collect()
    }

    fn log(image: &mut [LineData], core: usize, number: u64, epoch: Epoch, line: LineId, old: u64) {
        log_after(image, core, number, epoch, line, old, None);
    }

    fn log_after(
        image: &mut [LineData],
        core: usize,
        number: u64,
        epoch: Epoch,
        line: LineId,
        old: u64,
        prior: Option<(usize, Epoch)>,
    ) {
        let mut header = Header::new(epoch);
        header.push(line, prior);
        let at = LAYOUT.record(core, number) as usize;
        image[at] = header.to_line();
        image[at + 1] = [old; 8];
    }

    fn durable(image: &mut [LineData], core: usize, epoch: Epoch, stores: u64) {
        let line = &mut image[LAYOUT.names() as usize];
        let mut named = [0, 1].map(|core| name_in(line, core).into());
        named[core] = epoch;
        *line = names_line(&named);
        image[LAYOUT.state(core, epoch) as usize] = state_line(epoch, stores);
    }

    #[test]
    fn an_epoch_that_is_not_durable_is_undone_and_a_durable_one_stays() {
        let mut image = image();
        durable(&mut image, 0, 5, 70);
        log(&mut image, 0, 0, 5, 1, 1);
        log(&mut image, 0, 1, 6, 2, 2);
        assert_eq!(recover(&LAYOUT, &mut image, false), [70, 0]);
        assert_eq!(image[..4], [[9; 8], [9; 8], [2; 8], [9; 8]]);
    }

    #[test]
    fn a_line_that_several_epochs_wrote_gets_the_value_from_before_the_first() {
        for first_number in [0, 1] {
            let mut image = image();
            durable(&mut image, 0, 2, 8);
            log_after(&mut image, 1, first_number, 4, 3, 50, Some((0, 3)));
            log(&mut image, 0, first_number, 3, 3, 40);
            recover(&LAYOUT, &mut image, false);
            assert_eq!(image[3], [40; 8]);
            let again = image.clone();
            recover(&LAYOUT, &mut image, false);
            assert_eq!(image, again, "idempotent");
        }
    }

    #[test]
    fn an_old_line_whose_version_has_become_durable_is_restored() {
        let mut image = image();
        durable(&mut image, 0, 3, 8);
        log_after(&mut image, 1, 0, 4, 3, 50, Some((0, 3)));
        recover(&LAYOUT, &mut image, false);
        assert_eq!(image[3], [50; 8]);
    }

    #[test]
    fn nobody_reads_a_header_that_was_never_written_or_that_points_elsewhere() {
        let mut image = image();
        log(&mut image, 0, 0, 1, LAYOUT.first + 1, 7);
        let before = image.clone();
        assert_eq!(recover(&LAYOUT, &mut image, false), [0, 0]);
        assert_eq!(image, before);
    }

    #[test]
    fn epochs_are_compared_by_their_low_bits() {
        let turn = 1 << 24;
        assert!(is_up_to(low_bits(turn - 1), turn + 1));
        assert!(is_up_to(low_bits(turn + 1), turn + 1));
        assert!(!is_up_to(low_bits(turn + 2), turn + 1));
    }
}
