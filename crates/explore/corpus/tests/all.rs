//! What the corpus promises, seen from outside.

mod cases;
mod measured;
