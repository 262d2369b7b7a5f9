//! What the heap promises, seen from outside.

mod crash;
mod damage;
mod defrag;
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
mod script;
mod subjects;
mod threads;
mod together;
mod typed;
