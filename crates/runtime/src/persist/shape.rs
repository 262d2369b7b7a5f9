//! Layout and shape of persistent structs, computed by the compiler.
//!
//! Fields are laid out as in C: in their order, each at the next multiple of its alignment, the
//! struct's size a multiple of the largest. Shapes are 64-bit hashes (FNV-1a, then mixed), the same
//! on every machine and for every version of the compiler, as they are kept in pools.

const fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let (mut hash, mut place) = (hash, 0);
    while place < bytes.len() {
        hash = (hash ^ bytes[place] as u64).wrapping_mul(0x100_0000_01b3);
        place += 1;
    }
    // No byte of text is 0xff, so the end of a name is part of the hash.
    (hash ^ 0xff).wrapping_mul(0x100_0000_01b3)
}

const fn start(kind: &[u8]) -> u64 {
    mix(0xcbf2_9ce4_8422_2325, kind)
}

const fn finish(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let hash = hash ^ hash >> 33;
    if hash == 0 { 1 } else { hash }
}

/// The hash of a type's name and of the hashes of its parameters.
pub const fn name(name: &str, parts: &[u64]) -> u64 {
    let (mut hash, mut place) = (mix(start(b"name"), name.as_bytes()), 0);
    while place < parts.len() {
        hash = mix(hash, &parts[place].to_le_bytes());
        place += 1;
    }
    finish(hash)
}

/// The shape of a struct from its [`name`], its alignment, and the names and shapes of its fields.
pub const fn of_struct(name: u64, align: u64, fields: &[(&str, u64)]) -> u64 {
    let mut hash = mix(start(b"struct"), &name.to_le_bytes());
    hash = mix(hash, &align.to_le_bytes());
    let mut place = 0;
    while place < fields.len() {
        hash = mix(hash, fields[place].0.as_bytes());
        hash = mix(hash, &fields[place].1.to_le_bytes());
        place += 1;
    }
    finish(hash)
}

/// The offset of field `field` of a struct; `fields` are sizes and alignments.
pub const fn offset(fields: &[(u64, u64)], field: usize) -> u64 {
    let (mut end, mut place) = (0u64, 0);
    while place < field {
        end = end.next_multiple_of(fields[place].1) + fields[place].0;
        place += 1;
    }
    end.next_multiple_of(fields[field].1)
}

/// The alignment of a struct: `least`, or more if a field needs it.
pub const fn align(fields: &[(u64, u64)], least: u64) -> u64 {
    let (mut align, mut place) = (least, 0);
    while place < fields.len() {
        if fields[place].1 > align {
            align = fields[place].1;
        }
        place += 1;
    }
    align
}

/// The bytes of a struct.
pub const fn size(fields: &[(u64, u64)], least: u64) -> u64 {
    if fields.is_empty() {
        return 0;
    }
    let last = fields.len() - 1;
    (offset(fields, last) + fields[last].0).next_multiple_of(align(fields, least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_as_in_c() {
        #[repr(C)]
        struct Mixed {
            a: u8,
            b: u64,
            c: u16,
            d: u32,
            e: u8,
        }
        let fields = [(1, 1), (8, 8), (2, 2), (4, 4), (1, 1)];
        let ours: Vec<u64> = (0..5).map(|field| offset(&fields, field)).collect();
        let theirs = [
            std::mem::offset_of!(Mixed, a),
            std::mem::offset_of!(Mixed, b),
            std::mem::offset_of!(Mixed, c),
            std::mem::offset_of!(Mixed, d),
            std::mem::offset_of!(Mixed, e),
        ];
        assert_eq!(ours, theirs.map(|offset| offset as u64));
        assert_eq!(size(&fields, 1), size_of::<Mixed>() as u64);
        assert_eq!((size(&fields, 64), align(&fields, 64)), (64, 64));
        assert_eq!((size(&[], 1), align(&[], 1)), (0, 1));
    }

    proptest! {
        #[test]
        fn fields_are_aligned_and_do_not_overlap(
            fields in proptest::collection::vec((0u64..20, 0u32..4), 1..12),
        ) {
            let fields: Vec<(u64, u64)> =
                fields.iter().map(|(count, bits)| (count << bits, 1 << bits)).collect();
            let mut end = 0;
            for (place, (bytes, align)) in fields.iter().enumerate() {
                let at = offset(&fields, place);
                prop_assert!(at >= end && at - end < *align && at.is_multiple_of(*align));
                end = at + bytes;
            }
            let size = size(&fields, 1);
            prop_assert!(size >= end && size - end < 8 && size.is_multiple_of(align(&fields, 1)));
        }
    }

    #[test]
    fn each_change_of_a_struct_changes_its_shape() {
        let (a, b) = (name("A", &[]), name("B", &[]));
        let shapes = [
            of_struct(a, 8, &[("x", 1), ("y", 2)]),
            of_struct(b, 8, &[("x", 1), ("y", 2)]),
            of_struct(a, 64, &[("x", 1), ("y", 2)]),
            of_struct(a, 8, &[("y", 2), ("x", 1)]),
            of_struct(a, 8, &[("x", 2), ("y", 1)]),
            of_struct(a, 8, &[("x", 1)]),
            of_struct(a, 8, &[("xy", 1), ("", 2)]),
            of_struct(a, 8, &[]),
        ];
        for (place, shape) in shapes.iter().enumerate() {
            assert!(*shape != 0 && !shapes[place + 1..].contains(shape), "{place}");
        }
        assert_ne!(name("array", &[a, 1]), name("array", &[a, 2]));
    }

    #[test]
    fn shapes_are_those_of_pools_made_long_ago() {
        assert_eq!(name("u64", &[]), 0xa167_fa21_2ea4_f866);
        assert_eq!(of_struct(name("A", &[]), 8, &[("x", 1)]), 0x36c2_4093_ac38_ea16);
    }
}
