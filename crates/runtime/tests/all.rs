//! What the heap promises, seen from outside.

mod crash;
mod damage;
mod defrag;
mod dirtiness;
mod fences;
mod fixtures;
mod fuzz;
mod generations;
mod heap;
mod hostile;
mod misuse;
mod moves;
mod pairs;
mod places;
mod ribbon;
mod script;
mod strands;
mod subjects;
mod threads;
mod together;
mod typed;
