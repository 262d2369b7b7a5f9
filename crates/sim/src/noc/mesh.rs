//! The network on the chip: a two-dimensional mesh, XY routing, one flit per link and cycle.
//!
//! A message holds each link of its route for as many cycles as it has flits; its head needs one
//! router and one link latency per hop, and its tail follows one flit a cycle behind.

use crate::Cycle;
use crate::config::Machine;
use crate::noc::link::{Link, Links, Run};
use std::cmp::Reverse;

/// A position on the mesh: a core with its L1, the LLC bank beside it, possibly a controller.
pub(crate) type Tile = usize;

/// The greatest number of tiles, equal to that of cores.
const TILES: usize = 64;

/// A time for each tile.
pub(crate) type Times = [Cycle; TILES];

/// A message without data.
const CONTROL: Run = Run::new(1);
/// A message with a line in flits of the usual 16 bytes; a constant for the optimiser.
const DATA: Run = Run::new(5);

/// Links, routes and their bookings.
pub(crate) struct Mesh {
    tiles: usize,
    hop: u64,
    data: Run,
    routes: Vec<(u16, u16)>,
    path: Vec<Link>,
    links: Links,
    /// Per source: the tree of its routes to all tiles.
    outward: Vec<Tree>,
    /// Per destination: the tree of all routes to it.
    inward: Vec<Tree>,
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
                let start = path.len() as u16;
                path.extend(route(from, to, columns).iter().map(|hop| hop.link(tiles)));
                routes.push((start, path.len() as u16));
            }
        }
        let trees = |outward| -> Vec<Tree> {
            (0..tiles).map(|root| Tree::new(root, tiles, columns, outward)).collect()
        };
        Mesh {
            outward: trees(true),
            inward: trees(false),
            tiles,
            hop: machine.mesh.router_latency + machine.mesh.link_latency,
            data: Run::new(1 + 64u64.div_ceil(machine.mesh.flit_bytes) as u32),
            routes,
            path,
            links: Links::default(),
            flit_hops: 0,
        }
    }

    /// Sends a message of one flit at `at`; returns the arrival.
    #[inline(never)]
    pub(crate) fn control(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        self.send(from, to, CONTROL, at)
    }

    /// Sends a message with a line in it at `at`; returns the arrival of its tail.
    #[inline(never)]
    pub(crate) fn data(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        if self.data == DATA {
            self.send(from, to, DATA, at)
        } else {
            self.send(from, to, self.data, at)
        }
    }

    #[inline(always)]
    fn send(&mut self, from: Tile, to: Tile, run: Run, at: Cycle) -> Cycle {
        let (start, end) = self.routes[from * self.tiles + to];
        if start == end {
            return at;
        }
        let mut head = at;
        for link in &self.path[usize::from(start)..usize::from(end)] {
            head = self.links.book(*link, head, run) + self.hop;
        }
        self.flit_hops += run.flits() * u64::from(end - start);
        head + run.flits() - 1
    }

    /// Sends a message of one flit to every tile, one after the other on the links that their
    /// routes share, nearest first; returns the arrivals by tile.
    pub(crate) fn broadcast(&mut self, from: Tile, at: Cycle, arrivals: &mut Times) {
        let (hop, links) = (self.hop, &mut self.links);
        // Messages beyond a tile follow the message to the tile itself.
        arrivals[from] = at.wrapping_sub(1);
        let tree = &self.outward[from];
        for (branch, run) in &tree.thick {
            branch.book_outward(*run, links, hop, arrivals);
        }
        for branch in &tree.of_3 {
            branch.book_outward(const { Run::new(3) }, links, hop, arrivals);
        }
        for branch in &tree.of_2 {
            branch.book_outward(const { Run::new(2) }, links, hop, arrivals);
        }
        for branch in &tree.of_1 {
            branch.book_outward(CONTROL, links, hop, arrivals);
        }
        arrivals[from] = at;
        self.flit_hops += tree.flit_hops;
    }

    /// Every tile sends a message of one flit to `to` at its cycle in `ready`; returns the arrival
    /// of the last, and leaves in `ready` when the last message through each tile left it.
    pub(crate) fn gather(&mut self, to: Tile, ready: &mut Times) -> Cycle {
        let (hop, links) = (self.hop, &mut self.links);
        let tree = &self.inward[to];
        for branch in &tree.of_1 {
            branch.book_inward(CONTROL, links, hop, ready);
        }
        for branch in &tree.of_2 {
            branch.book_inward(const { Run::new(2) }, links, hop, ready);
        }
        for branch in &tree.of_3 {
            branch.book_inward(const { Run::new(3) }, links, hop, ready);
        }
        for (branch, run) in tree.thick.iter().rev() {
            branch.book_inward(*run, links, hop, ready);
        }
        self.flit_hops += tree.flit_hops;
        ready[to]
    }

    /// The latency of a message on an idle mesh.
    pub(crate) fn lone(&self, from: Tile, to: Tile, data: bool) -> u64 {
        let (start, end) = self.routes[from * self.tiles + to];
        let flits = if data { self.data.flits() } else { 1 };
        if start == end { 0 } else { u64::from(end - start) * self.hop + flits - 1 }
    }
}

/// A link in a tree of routes.
#[derive(Clone, Copy)]
struct Branch {
    /// The end nearer to the root.
    near: u8,
    /// The other end.
    far: u8,
    link: Link,
}

impl Branch {
    fn ends(self) -> (Tile, Tile) {
        (usize::from(self.near) % TILES, usize::from(self.far) % TILES)
    }

    #[inline(always)]
    fn book_outward(self, run: Run, links: &mut Links, hop: u64, arrivals: &mut Times) {
        let (near, far) = self.ends();
        arrivals[far] = links.book(self.link, arrivals[near].wrapping_add(1), run) + hop;
    }

    #[inline(always)]
    fn book_inward(self, run: Run, links: &mut Links, hop: u64, ready: &mut Times) {
        let (near, far) = self.ends();
        let first = (ready[far] + 1).saturating_sub(run.flits());
        let start = links.book(self.link, first, run);
        ready[near] = ready[near].max(start + run.flits() - 1 + hop);
    }
}

/// The links over which messages travel from a root to all tiles, or from all tiles to it, by the
/// number of routes over each. A link carries fewer routes than any link nearer to the root, so the
/// order from most to fewest routes visits parents before their children. Most links have few
/// routes; for these the number is a constant for the optimiser.
#[derive(Default)]
struct Tree {
    /// Links of four and more routes, most first.
    thick: Vec<(Branch, Run)>,
    of_3: Vec<Branch>,
    of_2: Vec<Branch>,
    of_1: Vec<Branch>,
    flit_hops: u64,
}

impl Tree {
    fn new(root: Tile, tiles: usize, columns: usize, outward: bool) -> Tree {
        let mut found: Vec<(Branch, u32)> = Vec::new();
        for other in (0..tiles).filter(|other| *other != root) {
            let (from, to) = if outward { (root, other) } else { (other, root) };
            for hop in route(from, to, columns) {
                let (near, far) = if outward { (hop.from, hop.to) } else { (hop.to, hop.from) };
                let link = hop.link(tiles);
                match found.iter_mut().find(|(branch, _)| branch.link == link) {
                    Some((_, routes)) => *routes += 1,
                    None => found.push((Branch { near: near as u8, far: far as u8, link }, 1)),
                }
            }
        }
        found.sort_by_key(|(branch, routes)| (Reverse(*routes), branch.link));
        let mut tree = Tree::default();
        for (branch, routes) in found {
            tree.flit_hops += u64::from(routes);
            match routes {
                1 => tree.of_1.push(branch),
                2 => tree.of_2.push(branch),
                3 => tree.of_3.push(branch),
                _ => tree.thick.push((branch, Run::new(routes))),
            }
        }
        tree
    }
}

/// A hop from a tile to a neighbour.
struct Hop {
    from: Tile,
    to: Tile,
    direction: usize,
}

impl Hop {
    /// The links of one direction have consecutive numbers.
    fn link(&self, tiles: usize) -> Link {
        (self.direction * tiles + self.from) as Link
    }
}

fn route(from: Tile, to: Tile, columns: usize) -> Vec<Hop> {
    let mut hops = Vec::new();
    let mut here = from;
    while here != to {
        let (direction, next) = if here % columns < to % columns {
            (0, here + 1)
        } else if here % columns > to % columns {
            (1, here - 1)
        } else if here < to {
            (2, here + columns)
        } else {
            (3, here - columns)
        };
        hops.push(Hop { from: here, to: next, direction });
        here = next;
    }
    hops
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
    fn a_message_to_all_arrives_everywhere_as_soon_as_the_shared_links_allow() {
        let machine = Machine::load("micro15").unwrap();
        let mut mesh = Mesh::new(&machine);
        let mut arrivals = [0; TILES];
        mesh.broadcast(0, 100, &mut arrivals);
        for (tile, arrival) in arrivals[..32].iter().enumerate() {
            let alone = 100 + mesh.lone(0, tile, false);
            assert!(*arrival >= alone && *arrival <= alone + 31, "tile {tile}: {arrival}");
        }
        let hops: u64 = (0..32).map(|tile| mesh.lone(0, tile, false) / 2).sum();
        assert_eq!(mesh.flit_hops, hops, "as many flits as one message a tile");
        let mut ready = [1000; TILES];
        let last = mesh.gather(0, &mut ready);
        assert!((1000 + 20..=1000 + 20 + 31).contains(&last), "{last}");
        assert_eq!(mesh.flit_hops, 2 * hops);
    }

    #[test]
    fn a_saturated_link_moves_one_flit_a_cycle() {
        let machine = Machine::load("micro15").unwrap();
        let mut mesh = Mesh::new(&machine);
        let last = (0..100).map(|_| mesh.data(0, 1, 0)).max().unwrap();
        assert_eq!(last, 99 * 5 + mesh.lone(0, 1, true));
    }
}
