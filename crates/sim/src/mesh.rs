//! The network on the chip: a two-dimensional mesh, XY routing, one flit per link and cycle.
//!
//! A message holds each link of its route for as many cycles as it has flits; its head needs one
//! router and one link latency per hop, and its tail follows one flit a cycle behind.

use crate::Cycle;
use crate::config::Machine;
use crate::link::{Link, Links, Run};

/// A place on the mesh: a core with its L1, the LLC bank beside it, perhaps a controller.
pub(crate) type Tile = usize;

/// Tiles there may be: as many as cores.
const TILES: usize = 64;

/// A time for each tile.
pub(crate) type Times = [Cycle; TILES];

/// A message without data.
const CONTROL: Run = Run::new(1);

/// Links, routes and their bookings.
pub(crate) struct Mesh {
    tiles: usize,
    hop: u64,
    data: Run,
    routes: Vec<(u16, u16)>,
    path: Vec<Link>,
    links: Links,
    /// Per source: the tree of its routes to all tiles, parents before children.
    outward: Vec<Branch>,
    /// Per destination: the tree of all routes to it, children before parents.
    inward: Vec<Branch>,
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
        let trees = |source: bool| -> Vec<Branch> {
            let tree = |root| branches(root, tiles, columns, source);
            (0..tiles).flat_map(tree).collect()
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

    /// Sends a message of one flit at `at`; gives the arrival.
    #[inline(never)]
    pub(crate) fn control(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        self.send(from, to, CONTROL, at)
    }

    /// Sends a message with a line in it at `at`; gives the arrival of its tail.
    #[inline(never)]
    pub(crate) fn data(&mut self, from: Tile, to: Tile, at: Cycle) -> Cycle {
        self.send(from, to, self.data, at)
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
    /// routes share, nearest first; gives the arrivals by tile.
    pub(crate) fn broadcast(&mut self, from: Tile, at: Cycle, arrivals: &mut Times) {
        arrivals[from] = at;
        let mut flit_hops = 0;
        for branch in &self.outward[from * (self.tiles - 1)..][..self.tiles - 1] {
            let Branch { near, far, link, run } = *branch;
            let (near, far) = (usize::from(near) % TILES, usize::from(far) % TILES);
            // What goes beyond the near tile follows the message that was for the tile itself.
            let ready = arrivals[near] + u64::from(near != from);
            let start = self.links.book(link, ready, run);
            arrivals[far] = start + self.hop;
            flit_hops += run.flits();
        }
        self.flit_hops += flit_hops;
    }

    /// Every tile sends a message of one flit to `to`, when `ready` says; gives the arrival of the
    /// last, and leaves in `ready` when the last message through each tile had left it.
    pub(crate) fn gather(&mut self, to: Tile, ready: &mut Times) -> Cycle {
        let mut flit_hops = 0;
        for branch in &self.inward[to * (self.tiles - 1)..][..self.tiles - 1] {
            let Branch { near, far, link, run } = *branch;
            let (near, far) = (usize::from(near) % TILES, usize::from(far) % TILES);
            let first = (ready[far] + 1).saturating_sub(run.flits());
            let start = self.links.book(link, first, run);
            ready[near] = ready[near].max(start + run.flits() - 1 + self.hop);
            flit_hops += run.flits();
        }
        self.flit_hops += flit_hops;
        ready[to]
    }

    /// Latency of an undisturbed message.
    #[cfg(test)]
    pub(crate) fn lone(&self, from: Tile, to: Tile, data: bool) -> u64 {
        let (start, end) = self.routes[from * self.tiles + to];
        let flits = if data { self.data.flits() } else { 1 };
        if start == end { 0 } else { u64::from(end - start) * self.hop + flits - 1 }
    }
}

/// A link in a tree of routes, and how many routes go over it.
#[derive(Clone, Copy)]
struct Branch {
    /// The end nearer the root.
    near: u8,
    /// The other end.
    far: u8,
    link: Link,
    run: Run,
}

/// The links over which messages go from `root` to all tiles, nearest first; or from all tiles to
/// `root`, farthest first.
fn branches(root: Tile, tiles: usize, columns: usize, outward: bool) -> Vec<Branch> {
    let mut found: Vec<(usize, Branch)> = Vec::new();
    for other in (0..tiles).filter(|other| *other != root) {
        let (from, to) = if outward { (root, other) } else { (other, root) };
        let hops = route(from, to, columns);
        for (at, hop) in hops.iter().enumerate() {
            let (near, far) = if outward { (hop.from, hop.to) } else { (hop.to, hop.from) };
            let depth = if outward { at } else { hops.len() - at };
            let link = hop.link(tiles);
            match found.iter_mut().find(|(_, branch)| branch.link == link) {
                Some((_, branch)) => branch.run = Run::new(branch.run.flits() as u32 + 1),
                None => {
                    let (near, far) = (near as u8, far as u8);
                    found.push((depth, Branch { near, far, link, run: CONTROL }));
                }
            }
        }
    }
    found.sort_by_key(|(depth, branch)| (*depth, branch.link));
    if !outward {
        found.reverse();
    }
    found.into_iter().map(|(_, branch)| branch).collect()
}

/// A step from a tile to a neighbour.
struct Hop {
    from: Tile,
    to: Tile,
    direction: usize,
}

impl Hop {
    /// Links of one direction are numbered side by side.
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
