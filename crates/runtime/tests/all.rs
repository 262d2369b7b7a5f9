//! What the heap promises, seen from outside.

mod ahead;
mod crash;
mod damage;
mod defrag;
mod extensions;
mod fences;
mod fixtures;
mod full;
mod generations;
mod heap;
mod hostile;
mod in_place;
mod long_undo;
mod misuse;
mod pairs;
mod reservations;
mod stamps;
mod steps;
mod threads;
mod together;
mod typed;
