//! The network on the chip: a two-dimensional mesh, XY routing, one flit per link and cycle.
//!
//! A message holds each link of its route for as many cycles as it has flits; its head needs one
//! router and one link latency per hop, and its tail follows one flit a cycle behind.

use crate::Cycle;
use crate::calendar::Calendar;
use crate::config::Machine;

/// A place on the mesh: a core with its L1, the LLC bank beside it, perhaps a controller.
pub(crate) type Tile = usize;

/// Links, routes and their bookings.
pub(crate) struct Mesh {
    tiles: usize,
    hop: u64,
    data_flits: u64,
    routes: Vec<(u32, u32)>,
    path: Vec<u16>,
    links: Vec<Calendar>,
    /// Flits times links so far.
    pub(crate) flit_hops: u64,
}

impl Mesh {
    pub(crate) fn new(machine: &Machine) -> Mesh {
        let (tiles, columns) = (machine.core.count, machine.columns());
        let mut path = Vec::new();
        let mut routes = Vec::with_capacity(tiles * tiles);
        for from in 0..tiles {
            for to in 0..tiles {
                let start = path.len() as u32;
                route(from, to, columns, &mut path);
                routes.push((start, path.len() as u32));
            }
        }
        Mesh {
            tiles,
            hop: machine.mesh.router_latency + machine.mesh.link_latency,
            data_flits: 1 + 64u64.div_ceil(machine.mesh.flit_bytes),
            routes,
            path,
            links: vec![Calendar::default(); tiles * 4],
            flit_hops: 0,
        }
    }

    /// Sends a message of one flit at `at`; gives the arrival.
    #[inline]
    pub(crate) fn control(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        self.send(from, to, 1, at)
    }

    /// Sends a message with a line in it at `at`; gives the arrival of its tail.
    #[inline]
    pub(crate) fn data(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        self.send(from, to, self.data_flits, at)
    }

    #[inline]
    fn send(&mut self, from: Tile, to: Tile, flits: u64, at: Cycle) -> Cycle {
        let (start, end) = self.routes[from * self.tiles + to];
        if start == end {
            return at;
        }
        let mut head = at;
        for link in &self.path[start as usize..end as usize] {
            head = self.links[*link as usize].book(head, flits) + self.hop;
        }
        self.flit_hops += flits * u64::from(end - start);
        head + flits - 1
    }

    /// Latency of an undisturbed message.
    #[cfg(test)]
    pub(crate) fn lone(&self, from: Tile, to: Tile, data: bool) -> u64 {
        let (start, end) = self.routes[from * self.tiles + to];
        let flits = if data { self.data_flits } else { 1 };
        if start == end { 0 } else { u64::from(end - start) * self.hop + flits - 1 }
    }
}

fn route(from: Tile, to: Tile, columns: usize, path: &mut Vec<u16>) {
    let (mut row, mut column) = (from / columns, from % columns);
    let (to_row, to_column) = (to / columns, to % columns);
    while (row, column) != (to_row, to_column) {
        let link = (row * columns + column) * 4;
        let direction = if column < to_column {
            column += 1;
            0
        } else if column > to_column {
            column -= 1;
            1
        } else if row < to_row {
            row += 1;
            2
        } else {
            row -= 1;
            3
        };
        path.push((link + direction) as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_message_takes_its_hops_and_its_flits() {
        let machine = Machine::load("micro15").unwrap();
        let mut mesh = Mesh::new(&machine);
        // Tile 0 is in row 0, column 0; tile 10 in row 1, column 2: three hops of two cycles.
        assert_eq!(mesh.control(0, 10, 100), 106);
        assert_eq!(mesh.data(31, 0, 0), 10 * 2 + 4);
        assert_eq!(mesh.data(7, 7, 50), 50);
    }

    #[test]
    fn a_saturated_link_moves_one_flit_a_cycle() {
        let machine = Machine::load("micro15").unwrap();
        let mut mesh = Mesh::new(&machine);
        let last = (0..100).map(|_| mesh.data(0, 1, 0)).max().unwrap();
        assert_eq!(last, 99 * 5 + mesh.lone(0, 1, true));
    }
}
