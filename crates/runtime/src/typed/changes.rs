//! Checks that a pool has the types of the program that opens it, at any depth.
//!
//! The header has the shape of the root, and a hash of all types that the root leads to. Pools from
//! before there was such a hash are checked by their table of types: a type with the name of one of
//! the program's and another shape has changed. The table also shows which field has changed.

use crate::heap::type_table::{self, CUT};
use crate::persist::pointers::{Target, all_from};
use crate::persist::{Branded, Persist};
use crate::{Heap, HeapError, HeapOptions};
use seawall_memory::Memory;

pub(super) const fn size_of_root<R: Branded>() -> u64 {
    <R::In<'static> as Persist<'static>>::SIZE
}

pub(super) const fn shape_of_root<R: Branded>() -> u64 {
    <R::In<'static> as Persist<'static>>::SHAPE
}

/// Refuses options that are not those of a heap with a root of type `R`.
pub(super) fn check_options<R: Branded>(options: &HeapOptions) -> Result<(), HeapError> {
    let given = (options.root_bytes, options.root_shape);
    if given == (size_of_root::<R>(), shape_of_root::<R>()) {
        return Ok(());
    }
    let (wanted, bytes) = (size_of_root::<R>(), options.root_bytes);
    Err(HeapError::Shape { what: format!("the root ({wanted} bytes, there {bytes} bytes)") })
}

/// Refuses a heap whose root is no `R`, or leads to objects of other types than an `R` does, by its
/// header; to be called before recovery.
pub(super) fn check_header<R: Branded, M: Memory>(
    heap: &Heap,
    memory: &M,
) -> Result<(), HeapError> {
    let all = all_from::<R::In<'static>>();
    if is_root::<R>(heap) && [0, all.shape].contains(&heap.reached_shape) {
        return Ok(());
    }
    let there = type_table::described(memory, &heap.layout);
    Err(changed(heap, &all.types, &there).unwrap_or_else(|| other_root::<R>(heap, &there)))
}

/// As [`check_header`], for an open heap.
pub(super) fn check<R: Branded, M: Memory>(heap: &Heap, memory: &M) -> Result<(), HeapError> {
    check_header::<R, M>(heap, memory)?;
    if heap.reached_shape != 0 {
        return Ok(());
    }
    let all = all_from::<R::In<'static>>();
    let there = type_table::described(memory, &heap.layout);
    changed(heap, &all.types, &there).map_or(Ok(()), Err)
}

fn is_root<R: Branded>(heap: &Heap) -> bool {
    (heap.root_bytes(), heap.root_shape()) == (size_of_root::<R>(), shape_of_root::<R>())
}

/// The error for the first of the program's types, the root first, that has other fields in the
/// pool.
fn changed(heap: &Heap, all: &[Target], there: &[(u64, String, String)]) -> Option<HeapError> {
    let text = |to: fn(&mut String)| {
        let mut text = String::new();
        to(&mut text);
        text
    };
    all.iter().enumerate().find_map(|(number, target)| {
        let (name, is) = (text(target.name), text(target.fields));
        let is_it = |(shape, of, _): &&(u64, String, String)| {
            *of == name && (number > 0 || *shape == heap.root_shape())
        };
        let found: Vec<_> = there.iter().filter(is_it).collect();
        let (.., was) = found.first()?;
        let is_there = found.iter().any(|(shape, ..)| *shape == target.shape);
        (!is_there).then(|| HeapError::Changed { how: difference(was, &is), name })
    })
}

/// The error for a root of which no changed field is known.
fn other_root<R: Branded>(heap: &Heap, there: &[(u64, String, String)]) -> HeapError {
    if is_root::<R>(heap) {
        return HeapError::Shape { what: "something that the root leads to".to_owned() };
    }
    let mut name = String::new();
    <R::In<'static> as Persist<'static>>::name_to(&mut name);
    let old = there.iter().find(|(shape, ..)| *shape == heap.root_shape());
    let old = old.map_or(String::new(), |(_, old, _)| format!("{old}, "));
    let (wanted, bytes) = (size_of_root::<R>(), heap.root_bytes());
    HeapError::Shape {
        what: format!("the root ({name}, {wanted} bytes; there {old}{bytes} bytes)"),
    }
}

/// The fields of a text: names and types. Commas within a type do not separate fields.
fn fields(text: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut start, mut all) = (0u32, 0, Vec::new());
    let text = text.strip_suffix(CUT).unwrap_or(text);
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '[' => depth += 1,
            '>' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                all.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[start..]);
    all.iter().filter_map(|field| field.trim().split_once(": ")).collect()
}

/// How the fields `is` differ from the fields `was`.
fn difference(was: &str, is: &str) -> String {
    let is_cut = was.ends_with(CUT);
    let (mut old, new) = (fields(was), fields(is));
    if is_cut {
        old.pop();
    }
    for (name, ty) in &old {
        match new.iter().find(|(other, _)| other == name) {
            None => return format!("field {name} ({ty}) is gone"),
            Some((_, now)) if now != ty => return format!("field {name} was {ty} and is {now}"),
            Some(_) => {}
        }
    }
    let is_new = |(name, _): &&(&str, &str)| !old.iter().any(|(other, _)| other == name);
    match new.iter().find(is_new) {
        Some((name, ty)) if !is_cut => format!("field {name} ({ty}) is new"),
        _ if old != new[..old.len().min(new.len())] => {
            format!("its fields have another order, they were {{ {was} }}")
        }
        _ if is_cut => format!("a field behind those that the pool keeps, {{ {was} }}"),
        _ => format!("a type within one of its fields, which are {{ {was} }}, or its alignment"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_that_differs_is_named() {
        let was = "value: u64, next: Option<Ptr<Pair<u8, [u16; 3]>>>, more: [u8; 4]";
        let cases = [
            ("value: i64, next: u8", "field value was u64 and is i64"),
            ("next: Option<Ptr<Pair<u8, [u16; 3]>>>, more: [u8; 4]", "field value (u64) is gone"),
            (&format!("{was}, last: Bytes<3>"), "field last (Bytes<3>) is new"),
            (
                "next: Option<Ptr<Pair<u8, [u16; 3]>>>, value: u64, more: [u8; 4]",
                "its fields have another order, they were",
            ),
            (was, "a type within one of its fields"),
            (
                "value: u64, next: Option<Ptr<Pair<u8, [u32; 3]>>>, more: [u8; 4]",
                "field next was Option<Ptr<Pair<u8, [u16; 3]>>> and is Option<Ptr<Pair<u8, [u32; ",
            ),
        ];
        for (is, said) in cases {
            assert!(difference(was, is).starts_with(said), "{}", difference(was, is));
        }
        let cut = "value: u64, next: Option<Pt..";
        assert!(difference(cut, was).starts_with("a field behind those that the pool keeps"));
    }
}
