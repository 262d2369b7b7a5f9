//! The public face of the facade `seawall`, item by item, held to a file that is reviewed.
//!
//! `crates/seawall/surface.txt` lists what its `lib.rs` exports, of its own modules and of the
//! crates below: types with their public fields, variants and methods, traits with theirs,
//! functions, and the traits that a type implements. A change of the face is a change of that file:
//! `SEAWALL_SURFACE_WRITE=1 cargo test -p seawall-xtask surface` writes it. The sources are read as
//! text in the form that rustfmt gives them; what a macro makes is not seen.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A public item with what belongs to it, each in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Item {
    head: String,
    members: Vec<String>,
}

/// Something that `lib.rs` exports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Export {
    /// The condition of the export, or nothing.
    condition: String,
    path: Vec<String>,
    name: String,
}

/// The whole text of the surface; `root` is that of the workspace.
pub(crate) fn surface(root: &Path) -> Result<String> {
    let facade = root.join("crates/seawall/src");
    let lib = fs::read_to_string(facade.join("lib.rs")).context("the facade has no lib.rs")?;
    let mut found = BTreeMap::new();
    for export in exports(&lib) {
        let (from, inner) = match export.path.split_first() {
            Some((first, inner)) => match first.strip_prefix("seawall_") {
                Some(of) => (root.join("crates").join(of).join("src"), inner),
                None => (facade.clone(), &export.path[..]),
            },
            None => continue,
        };
        let (modules, original) = inner.split_at(inner.len() - 1);
        let item = item_in(&from, modules, &original[0])?;
        let path = export.path.join("::");
        let mut text = format!("{} = {path}\n", export.name);
        if !export.condition.is_empty() {
            text += &format!("    {}\n", export.condition);
        }
        for line in item.iter().flat_map(|item| [&item.head].into_iter().chain(&item.members)) {
            text += &format!("    {line}\n");
        }
        found.insert((export.name, path), text);
    }
    Ok(found.into_values().collect::<Vec<_>>().join("\n"))
}

/// The item of that name in the files of a module; if it has none of its own, in those around it.
fn item_in(src: &Path, modules: &[String], name: &str) -> Result<Option<Item>> {
    for depth in (0..=modules.len()).rev() {
        let module: PathBuf = modules[..depth].iter().collect();
        let mut files = Vec::new();
        match depth {
            0 => files_under(src, &mut files)?,
            _ => {
                files.push(src.join(&module).with_extension("rs"));
                files_under(&src.join(&module), &mut files)?;
            }
        }
        let mut item = Item::default();
        for file in files.iter().filter(|file| file.exists()) {
            let text = fs::read_to_string(file);
            read(&text.with_context(|| file.display().to_string())?, name, &mut item);
        }
        if !item.head.is_empty() {
            item.members.sort();
            item.members.dedup();
            return Ok(Some(item));
        }
    }
    Ok(None)
}

fn files_under(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files_under(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// What a `lib.rs` exports outside of modules.
fn exports(lib: &str) -> Vec<Export> {
    let mut found = Vec::new();
    for Chunk { attributes, head, .. } in chunks(lib, "") {
        let Some(list) = head.strip_prefix("pub use ").map(|list| list.trim_end_matches(';'))
        else {
            continue;
        };
        let condition = attributes.iter().find(|attribute| attribute.starts_with("#[cfg"));
        let condition = condition.cloned().unwrap_or_default();
        let (path, names) = match list.split_once('{') {
            Some((path, names)) => (path.trim_end_matches("::"), names.trim_end_matches('}')),
            None => list.rsplit_once("::").unwrap_or(("", list)),
        };
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let (original, name) = name.split_once(" as ").unwrap_or((name, name));
            let path = path.split("::").chain([original]);
            let path = path.filter(|part| !part.is_empty()).map(str::to_owned).collect();
            found.push(Export { condition: condition.clone(), path, name: name.into() });
        }
    }
    found
}

/// An item of some indentation: its attributes, its head in one line, and the lines of its block.
struct Chunk<'a> {
    attributes: Vec<String>,
    head: String,
    block: Vec<&'a str>,
}

/// The items of `text` that are indented by `indent`; what is inside of them is in their blocks.
fn chunks<'a>(text: &'a str, indent: &str) -> Vec<Chunk<'a>> {
    let mut found = Vec::new();
    let mut attributes = Vec::new();
    let mut lines = text.lines();
    let end = format!("{indent}}}");
    while let Some(line) = lines.next() {
        let Some(start) = line.strip_prefix(indent) else { continue };
        if start.is_empty() || start.starts_with([' ', '}', ')']) || start.starts_with("//") {
            continue;
        }
        let mut whole = start.to_owned();
        while !is_ended(&whole) {
            let Some(next) = lines.next() else { break };
            let joint = if whole.ends_with(['(', '<', '{', '[']) { "" } else { " " };
            whole = format!("{whole}{joint}{}", next.trim());
        }
        if whole.starts_with("#[") {
            attributes.push(whole);
            continue;
        }
        let has_block = whole.ends_with('{');
        let block = match has_block {
            true => lines.by_ref().take_while(|line| !line.starts_with(&end)).collect(),
            false => Vec::new(),
        };
        let head = whole.trim_end_matches('{').trim_end();
        let head = [(",)", ")"), (",>", ">"), (",}", "}"), (", )", ")"), (", }", "}")]
            .into_iter()
            .fold(head.to_owned(), |head, (from, to)| head.replace(from, to));
        found.push(Chunk { attributes: std::mem::take(&mut attributes), head, block });
    }
    found
}

/// Whether an item, or its head, is whole: brackets are closed, or the one of its block is open.
fn is_ended(text: &str) -> bool {
    let text = text.strip_suffix('{').filter(|_| !text.starts_with("pub use")).unwrap_or(text);
    let count = |of: &[char]| text.matches(of).count();
    let is_closed = count(&['(', '[', '{']) == count(&[')', ']', '}']);
    let is_end = text.ends_with([';', '}', ',', ']']) || text.ends_with(' ');
    is_closed && is_end
}

/// Adds what `text` says of the item `name`.
fn read(text: &str, name: &str, item: &mut Item) {
    for chunk in chunks(text, "") {
        if chunk.attributes.iter().any(|attribute| attribute.starts_with("#[cfg(test)")) {
            continue;
        }
        let block = chunk.block.join("\n");
        if let Some((kind, declared)) = declared(&chunk.head) {
            if declared != name {
                continue;
            }
            item.head = chunk.head.clone();
            let attributes = chunk.attributes.iter();
            let shown = |of: &&String| of.starts_with("#[derive") || of.starts_with("#[non_exh");
            item.members.extend(attributes.filter(shown).cloned());
            item.members.extend(match kind {
                "enum" => variants(&block),
                "trait" => members(&block, |_| true),
                "fn" => Vec::new(),
                _ => members(&block, |head| head.starts_with("pub ")),
            });
        } else if let Some((is_trait, of)) = implemented(&chunk.head)
            && of == name
        {
            match is_trait {
                true if chunk.head.contains("Sealed") => {}
                true => item.members.push(chunk.head),
                false => item.members.extend(members(&block, |head| head.starts_with("pub "))),
            }
        }
    }
}

/// The heads in a block, without what is only for other crates of ours.
fn members(block: &str, is_public: impl Fn(&str) -> bool) -> Vec<String> {
    let all = chunks(block, "    ").into_iter();
    let is_shown = |chunk: &Chunk<'_>| {
        let is_hidden = chunk.attributes.iter().any(|of| of.starts_with("#[doc(hidden)"));
        !is_hidden && is_public(&chunk.head) && !chunk.head.starts_with("pub(")
    };
    let heads = all.filter(is_shown).map(|chunk| chunk.head);
    heads.map(|head| head.trim_end_matches([',', ';']).to_owned()).collect()
}

/// The variants of an enum with their fields.
fn variants(block: &str) -> Vec<String> {
    let variant = |chunk: Chunk<'_>| {
        let inside = chunk.block.join("\n");
        let fields: Vec<String> =
            chunks(&inside, "        ").into_iter().map(|field| field.head).collect();
        match fields.is_empty() {
            true => chunk.head.trim_end_matches(',').to_owned(),
            false => format!("{} {{ {} }}", chunk.head, fields.join(" ").trim_end_matches(',')),
        }
    };
    chunks(block, "    ").into_iter().map(variant).collect()
}

/// Kind and name of what a head declares for everyone.
fn declared(head: &str) -> Option<(&'static str, &str)> {
    let rest = head.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const ").filter(|rest| rest.starts_with("fn ")).unwrap_or(rest);
    let kinds = ["struct", "enum", "trait", "type", "fn", "const", "union"];
    let kind = kinds.into_iter().find(|kind| rest.starts_with(&format!("{kind} ")))?;
    Some((kind, word(&rest[kind.len() + 1..])))
}

/// Of the head of an `impl`: whether it is of a trait, and the name of the type.
fn implemented(head: &str) -> Option<(bool, &str)> {
    let rest = head.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { &rest[closing(rest)..] } else { rest };
    let (is_trait, of) = match rest.split_once(" for ") {
        Some((_, of)) => (true, of),
        None => (false, rest),
    };
    let of = of.trim().trim_start_matches('&');
    let path = &of[..of.find(['<', ' ']).unwrap_or(of.len())];
    Some((is_trait, word(path.rsplit("::").next().unwrap_or(path))))
}

/// The place behind the bracket that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_surface_of_the_facade_is_the_one_that_was_reviewed() {
        let file = root().join("crates/seawall/surface.txt");
        let found = surface(&root()).unwrap();
        if std::env::var_os("SEAWALL_SURFACE_WRITE").is_some() {
            fs::write(&file, &found).unwrap();
        }
        let reviewed = fs::read_to_string(&file).unwrap_or_default();
        for (number, (now, before)) in found.lines().zip(reviewed.lines()).enumerate() {
            assert_eq!(now, before, "line {}: SEAWALL_SURFACE_WRITE=1 writes it", number + 1);
        }
        assert_eq!(found.lines().count(), reviewed.lines().count());
    }

    const SOURCE: &str = "\
#[derive(Clone, Debug)]
pub struct Pool<R> {
    /// Bytes.
    pub bytes: u64,
    inner: R,
}

impl<R: Into<u64>> Pool<R> {
    /// Opens.
    pub fn open(
        path: &str,
        inner: R,
    ) -> Pool<R> {
        pub_like();
    }

    fn hidden(&self) {}
    pub(crate) fn ours(&self) {}
}

impl<R> Drop for Pool<R> {
    fn drop(&mut self) {}
}

pub struct Pools;

#[cfg(test)]
mod tests {
    pub struct Pool;
}
";

    #[test]
    fn a_type_is_listed_with_its_public_fields_methods_and_traits() {
        let mut item = Item::default();
        read(SOURCE, "Pool", &mut item);
        assert_eq!(item.head, "pub struct Pool<R>");
        let expected = [
            "#[derive(Clone, Debug)]",
            "pub bytes: u64",
            "pub fn open(path: &str, inner: R) -> Pool<R>",
            "impl<R> Drop for Pool<R>",
        ];
        assert_eq!(item.members, expected);
    }

    #[test]
    fn variants_and_methods_of_traits_are_listed_without_a_pub() {
        let mut item = Item::default();
        let way =
            "pub enum Way {\n    /// One.\n    One,\n    Two {\n        at: u64,\n    },\n}\n";
        read(way, "Way", &mut item);
        assert_eq!(item.members, ["One", "Two { at: u64 }"]);
        let mut item = Item::default();
        let key =
            "pub trait Key {\n    fn key(&self) -> u64;\n    fn is(&self) -> bool {\n    }\n}\n";
        read(key, "Key", &mut item);
        assert_eq!(item.members, ["fn key(&self) -> u64", "fn is(&self) -> bool"]);
    }

    #[test]
    fn exports_are_told_with_their_path_and_condition() {
        let lib = "mod pool;\n#[cfg(feature = \"x\")]\npub use pool::{Pool, open};\n\
                   pub use seawall_a::{\n    B as C,\n    D,\n};\n";
        let found = exports(lib);
        let names: Vec<&str> = found.iter().map(|export| export.name.as_str()).collect();
        assert_eq!(names, ["Pool", "open", "C", "D"]);
        assert_eq!(found[0].condition, "#[cfg(feature = \"x\")]");
        assert_eq!(found[2].path, ["seawall_a", "B"]);
        assert_eq!(found[2].condition, "");
    }
}
