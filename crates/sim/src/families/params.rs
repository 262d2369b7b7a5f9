//! The parameters of a design, declared once: field, default, range, and the text of `seawall show
//! design`. Values are checked here against the declaration, so that each error names the key, the
//! value and the valid values.

use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use std::fmt;
use toml::{Table, Value};

/// The description of a parameter of a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterDoc {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, with its unit.
    pub about: &'static str,
    /// The least and the greatest value of a number.
    pub range: Option<(u64, u64)>,
}

/// The parameters of a design.
pub(crate) trait Parameters: Default + Serialize + DeserializeOwned {
    /// The parameters, in the order of declaration.
    const DOCS: &'static [ParameterDoc];

    /// The valid names of `key`; empty if its value is no name.
    fn names(key: &str) -> &'static [&'static str];
}

/// The values of the parameters, as TOML.
pub(crate) fn table<P: Parameters>(params: &P) -> Table {
    Table::try_from(params).unwrap_or_default()
}

/// True if a write is durable once its controller's queue has accepted it.
pub(crate) fn adr<P: Parameters>(params: &P) -> bool {
    table(params).get("adr").and_then(Value::as_bool).unwrap_or(false)
}

/// Reads `key=value`. A value needs no quotes, because a shell removes them.
pub(crate) fn read(part: &str) -> Option<(&str, Value)> {
    let (key, text) = part.split_once('=')?;
    let (key, text) = (key.trim(), text.trim());
    let mut read: Table = toml::from_str(&format!("value = {text}")).unwrap_or_default();
    let value = read.remove("value").filter(|value| !value.is_float() && read.is_empty());
    let value = value.unwrap_or_else(|| Value::String(text.into()));
    (!key.is_empty()).then_some((key, value))
}

/// A value in the form in which it follows `key=`.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The text that lists the known keys.
pub(crate) fn known(docs: &[ParameterDoc]) -> String {
    let names: Vec<&str> = docs.iter().map(|doc| doc.name).collect();
    match names.as_slice() {
        [] => "it has no parameters".into(),
        names => format!("known: {}", names.join(", ")),
    }
}

pub(crate) fn parse<P: Parameters>(given: &Table) -> Result<P, String> {
    for doc in P::DOCS {
        if let Some(value) = given.get(doc.name) {
            fits(doc, P::names(doc.name), value)?;
        }
    }
    let params: P =
        given.clone().try_into().map_err(|error: toml::de::Error| error.message().to_string())?;
    match crowded(&table(&params)) {
        Some((from, entries)) if given.contains_key(FLUSH_FROM) => Err(format!(
            "{FLUSH_FROM}={from} is more than {ENTRIES}={entries}; give {FLUSH_FROM} 1 to \
             {entries}, or more {ENTRIES}"
        )),
        _ => Ok(params),
    }
}

/// Rejects a value of the wrong type or out of range.
fn fits(doc: &ParameterDoc, names: &[&str], value: &Value) -> Result<(), String> {
    let text = shown(value);
    let wrong = |what: &str| Err(format!("{}={text} is {what}", doc.name));
    if let Some((low, high)) = doc.range {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        match number {
            Some(number) if (low..=high).contains(&number) => Ok(()),
            _ if value.is_str() && text.parse::<i64>().is_ok() => {
                wrong(&format!("a text; give a whole number, {low} to {high}"))
            }
            _ if is_number => wrong(&format!("out of range; give {low} to {high}")),
            _ => wrong(&format!("not a whole number; give {low} to {high}")),
        }
    } else if names.is_empty() {
        if value.is_bool() { Ok(()) } else { wrong("not a boolean; give true or false") }
    } else if value.as_str().is_some_and(|text| names.contains(&text)) {
        Ok(())
    } else {
        wrong(&format!("unknown; give {}", names.join(", ")))
    }
}

const FLUSH_FROM: &str = "flush_from";
const ENTRIES: &str = "entries";

/// The fill from which a buffer is written and its size, if it never fills that far.
fn crowded(all: &Table) -> Option<(i64, i64)> {
    let number = |key: &str| all.get(key).and_then(Value::as_integer);
    let (from, entries) = (number(FLUSH_FROM)?, number(ENTRIES)?);
    (from > entries).then_some((from, entries))
}

/// Lowers a default that exceeds what the given values permit, as the machine does.
pub(crate) fn lower(all: &mut Table) {
    if let Some((_, entries)) = crowded(all) {
        all.insert(FLUSH_FROM.into(), entries.into());
    }
}

/// The names of the variants of `T`, from serde's error for an unknown name; empty if `T` is no
/// enum.
pub(crate) fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let unknown: StrDeserializer<'_, Expected> = "".into_deserializer();
    T::deserialize(unknown).err().map_or(&[], |expected| expected.0)
}

/// The valid names.
#[derive(Debug)]
struct Expected(&'static [&'static str]);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Expected {}

impl Error for Expected {
    fn custom<T: fmt::Display>(_: T) -> Expected {
        Expected(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Expected {
        Expected(expected)
    }
}

/// Declares the `Params` of a design: `/// doc`, `name: Type = default`, and for a number its
/// range, `in low..=high`.
macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $name:ident: $Type:ty = $default:expr $(, in $range:expr)?;)*) => {
        /// The design's parameters.
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct Params {
            $($(#[doc = $doc])* $name: $Type,)*
        }

        impl Default for Params {
            fn default() -> Params {
                Params { $($name: $default,)* }
            }
        }

        impl crate::families::params::Parameters for Params {
            const DOCS: &'static [crate::families::params::ParameterDoc] = &[$(
                crate::families::params::ParameterDoc {
                    name: stringify!($name),
                    about: concat!($($doc),*).trim_ascii(),
                    range: {
                        let range: &[std::ops::RangeInclusive<u64>] = &[$($range)?];
                        match range {
                            [range] => Some((*range.start(), *range.end())),
                            _ => None,
                        }
                    },
                },
            )*];

            fn names(key: &str) -> &'static [&'static str] {
                match key {
                    $(stringify!($name) => crate::families::params::names::<$Type>(),)*
                    _ => &[],
                }
            }
        }
    };
}
pub(crate) use parameters;
