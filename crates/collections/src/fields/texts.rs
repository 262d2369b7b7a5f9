//! Where a type has pointers and structures, found out by the texts that a pool keeps of its types:
//! for a program that examines pools of others.
//!
//! A text can be cut off, name a struct that another module has, too, or one that the pool does not
//! describe. So the hash of a type is computed from its text, as the compiler has computed it from
//! the type: only if the pool has the same, the text was understood.

use seawall_runtime::typed::{TypeInfo, derived};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The first size, in bytes, that no type of a pool has.
const SIZE_LIMIT: u64 = 1 << 24;

/// What is at a place in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// To a type of this name, of which so much is known without the pool's types.
    Pointer {
        target: u64,
        bytes: u64,
        align: u64,
    },
    /// The address of bytes with their length, or zero.
    Bytes,
    /// A vector of elements of so many bytes.
    Vector(u64),
    Map,
    /// A tree whose keys are cut into slices with marks, or words; values are words, or bytes.
    Tree {
        has_marks: bool,
        has_words: bool,
    },
    /// So many values of so many bytes, each with these parts.
    Array(u64, u64, Rc<[(u64, Part)]>),
}

/// What a text says of a type.
#[derive(Clone, Debug)]
pub(super) struct Type {
    pub(super) name: u64,
    pub(super) shape: u64,
    pub(super) bytes: u64,
    pub(super) align: u64,
    /// By their offsets.
    pub(super) parts: Rc<[(u64, Part)]>,
    kind: Kind,
    /// The name of the type that a pointer leads to.
    target: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A key or a value has it as its bytes.
    Value,
    /// `str` or `[u8]`.
    Text,
    Byte,
    /// It is known by its name only.
    Named,
}

impl Type {
    fn new(name: u64, bytes: u64, align: u64, part: Option<Part>) -> Type {
        let parts = part.map(|part| (0, part)).into_iter().collect();
        Type { name, shape: name, bytes, align, parts, kind: Kind::Value, target: 0 }
    }

    fn is_known(&self) -> bool {
        matches!(self.kind, Kind::Value | Kind::Byte)
    }
}

/// The types of a pool.
pub(super) struct Texts<'a> {
    types: &'a [TypeInfo],
    /// What was read of each, by number; none meanwhile: a struct that contains itself is none.
    read: RefCell<HashMap<u8, Option<Type>>>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(types: &'a [TypeInfo]) -> Texts<'a> {
        Texts { types, read: RefCell::default() }
    }

    /// The type that the pool describes so; none if that is not all that there is to know.
    pub(super) fn read(&self, info: &TypeInfo) -> Option<Type> {
        if let Some(read) = self.read.borrow().get(&info.number) {
            return read.clone();
        }
        self.read.borrow_mut().insert(info.number, None);
        let read = self.read_anew(info);
        self.read.borrow_mut().insert(info.number, read.clone());
        read
    }

    fn read_anew(&self, info: &TypeInfo) -> Option<Type> {
        let mut reader = Reader { texts: self, rest: &info.name, wants_fields: false };
        let outer = reader.ty()?;
        if !reader.rest.is_empty() {
            return None;
        }
        let mut fields = Reader { texts: self, rest: &info.fields, wants_fields: true };
        let read = match info.fields.is_empty() {
            true => [Some(outer), described(info)],
            false => [described(info), fields.structure(outer.name, info.shape)],
        };
        let is_it = |read: &Type| (read.shape, read.bytes) == (info.shape, info.bytes);
        read.into_iter().flatten().find(is_it)
    }
}

/// A type that a program has described when it ran.
fn described(info: &TypeInfo) -> Option<Type> {
    let fields = info.fields.split(", ").filter(|field| !field.is_empty());
    let offset = |field: &str| field.strip_suffix(": pointer")?.parse::<u64>().ok();
    let offsets: Vec<u64> = fields.map(offset).collect::<Option<_>>()?;
    let numbers: Vec<u64> = [info.bytes].into_iter().chain(offsets.iter().copied()).collect();
    let shape = derived::name(&info.name, &[derived::name("described", &numbers)]);
    let is_inside = |offset: &u64| offset.checked_add(8).is_some_and(|end| end <= info.bytes);
    let pointer = Part::Pointer { target: 0, bytes: 1, align: 1 };
    let inside = offsets.iter().filter(|at| is_inside(at));
    let parts = inside.map(|at| (*at, pointer.clone())).collect();
    Some(Type { shape, parts, ..Type::new(0, info.bytes, 8, None) })
}

/// Reads a text from left to right.
struct Reader<'t, 'a> {
    texts: &'t Texts<'a>,
    rest: &'t str,
    /// Of a pointer's target, and of a parameter of a struct, only the name counts.
    wants_fields: bool,
}

impl<'t> Reader<'t, '_> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> Option<&'t str> {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn number(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }

    fn ty(&mut self) -> Option<Type> {
        if self.take("[") {
            return self.array();
        }
        let start = self.rest;
        let word = self.word()?;
        let (mut types, mut numbers) = (Vec::new(), Vec::new());
        let is_field = matches!(word, "Boxed" | "Vector" | "Map" | "BTree");
        let wants_fields = std::mem::replace(&mut self.wants_fields, is_field);
        if self.take("<") {
            loop {
                match self.rest.starts_with(|first: char| first.is_ascii_digit()) {
                    true => numbers.push(self.number()?),
                    false => types.push(self.ty()?),
                }
                if !self.take(", ") {
                    break;
                }
            }
            if !self.take(">") {
                return None;
            }
        }
        self.wants_fields = wants_fields;
        let whole = &start[..start.len() - self.rest.len()];
        self.named(word, whole, &types, &numbers)
    }

    fn array(&mut self) -> Option<Type> {
        let of = self.ty()?;
        if of.kind == Kind::Byte && self.take("]") {
            let name = derived::name("[u8]", &[]);
            return Some(Type { kind: Kind::Text, ..Type::new(name, 0, 1, None) });
        }
        let count = if self.take("; ") { self.number()? } else { return None };
        if !self.take("]") {
            return None;
        }
        let name = derived::name("array", &[of.name, count]);
        let bytes = of.bytes.checked_mul(count).filter(|bytes| *bytes < SIZE_LIMIT)?;
        let part = Part::Array(count, of.bytes, of.parts.clone());
        let part = Some(part).filter(|_| !of.parts.is_empty() && of.bytes > 0);
        let array = Type::new(name, bytes, of.align, part);
        let kind = if of.is_known() { Kind::Value } else { Kind::Named };
        Some(Type { shape: derived::name("array", &[of.shape, count]), kind, ..array })
    }

    /// The type of that name, with these parameters.
    fn named(&self, word: &str, whole: &str, types: &[Type], numbers: &[u64]) -> Option<Type> {
        let width = match word {
            "u8" | "i8" | "bool" => 1,
            "u16" | "i16" => 2,
            "u32" | "i32" | "f32" => 4,
            "u64" | "i64" | "f64" => 8,
            _ => 0,
        };
        let name = derived::name(word, &[]);
        let value = |bytes, part| Some(Type::new(name, bytes, bytes, part));
        let field = |bytes, part| {
            let names: Vec<u64> = types.iter().map(|ty| ty.name).collect();
            let shapes: Vec<u64> = types.iter().map(|ty| ty.shape).collect();
            let field = Type::new(derived::name(word, &names), bytes, 8, Some(part));
            Some(Type { shape: derived::name(word, &shapes), ..field })
        };
        let is_word = |ty: &Type| ty.kind != Kind::Text && ty.bytes <= 8;
        match (word, types, numbers) {
            ("u8", [], []) => Some(Type { kind: Kind::Byte, ..value(1, None)? }),
            (_, [], []) if width > 0 => value(width, None),
            ("str", [], []) => Some(Type { kind: Kind::Text, ..value(0, None)? }),
            ("Bytes", [], [bytes]) if *bytes < SIZE_LIMIT => {
                Some(Type::new(derived::name("Bytes", numbers), *bytes, 1, None))
            }
            ("Ptr", [to], []) => {
                let (target, bytes, align) = (to.name, to.bytes.max(1), to.align);
                let part = Part::Pointer { target, bytes, align };
                let name = derived::name("Ptr", &[target]);
                Some(Type { target, ..Type::new(name, 8, 8, Some(part)) })
            }
            ("Option", [ptr], []) if ptr.target != 0 => {
                let part = ptr.parts.first().map(|(_, part)| part.clone());
                Some(Type::new(derived::name("Option<Ptr>", &[ptr.target]), 8, 8, part))
            }
            ("Text", [], []) | ("Boxed", [_], []) => field(8, Part::Bytes),
            ("Vector", [of], []) if of.is_known() => field(24, Part::Vector(of.bytes)),
            ("Map", [..], []) if types.len() == 2 => field(8, Part::Map),
            ("BTree", [key, value], []) => {
                let has_marks = key.kind == Kind::Text || whole.starts_with("BTree<Bytes<");
                field(16, Part::Tree { has_marks, has_words: is_word(value) })
            }
            _ => Some(self.called(word, whole, types, numbers)),
        }
    }

    /// The struct of that name; with its fields, if the pool has only one that is called so.
    fn called(&self, word: &str, whole: &str, types: &[Type], numbers: &[u64]) -> Type {
        let types = types.iter().map(|ty| ty.name);
        let parts: Vec<u64> = types.chain(numbers.iter().copied()).collect();
        let name = derived::name(word, &parts);
        let mut same = self.texts.types.iter().filter(|info| info.name == whole);
        let known = match (same.next(), same.next()) {
            (Some(info), None) if self.wants_fields => self.texts.read(info),
            _ => None,
        };
        let unknown = Type { kind: Kind::Named, ..Type::new(name, 0, 1, None) };
        known.map_or(unknown, |known| Type { name, ..known })
    }

    /// The struct of that name and shape, from its fields.
    fn structure(&mut self, name: u64, shape: u64) -> Option<Type> {
        let (mut names, mut types) = (Vec::new(), Vec::new());
        loop {
            names.push(self.word()?);
            if !self.take(": ") {
                return None;
            }
            types.push(self.ty().filter(Type::is_known)?);
            if !self.take(", ") {
                break;
            }
        }
        if !self.rest.is_empty() {
            return None;
        }
        let sizes: Vec<(u64, u64)> = types.iter().map(|ty| (ty.bytes, ty.align)).collect();
        let shapes = names.into_iter().zip(types.iter().map(|ty| ty.shape));
        let shapes: Vec<(&str, u64)> = shapes.collect();
        let aligns = [1, 64].map(|least| derived::align(&sizes, least));
        let is_it = |align: &u64| derived::of_struct(name, *align, &shapes) == shape;
        let align = aligns.into_iter().find(is_it)?;
        let mut parts = Vec::new();
        for (number, ty) in types.iter().enumerate() {
            let offset = derived::offset(&sizes, number);
            parts.extend(ty.parts.iter().map(|(at, part)| (offset + at, part.clone())));
        }
        let bytes = derived::size(&sizes, align);
        Some(Type { shape, parts: parts.into(), ..Type::new(name, bytes, align, None) })
    }
}
