//! The parameters of a design, declared once: field, default, range, and the words that
//! `seawall show design` prints.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A parameter of a design, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterDoc {
    /// Its name.
    pub name: &'static str,
    /// What it says, with its unit.
    pub about: &'static str,
    /// The least and the most that it may be, where it is a number.
    pub range: Option<(u64, u64)>,
}

/// The parameters of a design.
pub(crate) trait Parameters: Default + Serialize + DeserializeOwned {
    /// Each of them, in the order of declaration.
    const DOCS: &'static [ParameterDoc];

    /// Refuses values that make no design, naming key, value and range.
    fn check(&self) -> Result<(), String>;
}

/// Their values, as TOML.
pub(crate) fn table<P: Parameters>(params: &P) -> toml::Table {
    toml::Table::try_from(params).unwrap_or_default()
}

/// True if a write is durable once its controller's queue has accepted it.
pub(crate) fn adr<P: Parameters>(params: &P) -> bool {
    table(params).get("adr").and_then(toml::Value::as_bool).unwrap_or(false)
}

pub(crate) fn parse<P: Parameters>(table: &toml::Table) -> Result<P, String> {
    let params: P =
        table.clone().try_into().map_err(|error: toml::de::Error| error.message().to_string())?;
    params.check()?;
    Ok(params)
}

/// Declares the `Params` of a design: `/// doc`, `name: Type = default`, and for a number its
/// range, `in low..=high`.
macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $name:ident: $Type:ty = $default:expr $(, in $range:expr)?;)*) => {
        /// The design's parameters.
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct Params {
            $($(#[doc = $doc])* $name: $Type,)*
        }

        impl Default for Params {
            fn default() -> Params {
                Params { $($name: $default,)* }
            }
        }

        impl crate::designs::params::Parameters for Params {
            const DOCS: &'static [crate::designs::params::ParameterDoc] = &[$(
                crate::designs::params::ParameterDoc {
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

            fn check(&self) -> Result<(), String> {
                $($(
                    let range: std::ops::RangeInclusive<u64> = $range;
                    let (low, high) = range.into_inner();
                    crate::config::within(stringify!($name), self.$name as u64, low, high)?;
                )?)*
                Ok(())
            }
        }
    };
}
pub(crate) use parameters;
