//! What the macro wants to know of a struct, and what it refuses.

use proc_macro2::{Ident, Span, TokenStream};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Generics, Lifetime, LitStr, Result};

/// A struct that can be persistent.
pub(crate) struct Parsed {
    /// The path of what the derived code uses.
    pub(crate) typed: TokenStream,
    pub(crate) name: Ident,
    /// The name that counts for the shape.
    pub(crate) shape_name: String,
    /// The least alignment, in bytes.
    pub(crate) align: u64,
    pub(crate) generics: Generics,
    /// The lifetime of the struct, or one that it does not have.
    pub(crate) brand: Lifetime,
    /// Its type parameters.
    pub(crate) types: Vec<Ident>,
    /// Its constant parameters.
    pub(crate) numbers: Vec<Ident>,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) vis: syn::Visibility,
    pub(crate) ty: syn::Type,
}

pub(crate) fn parse(input: DeriveInput, typed: TokenStream) -> Result<Parsed> {
    let fields = fields(&input)?;
    let mut lifetimes = input.generics.lifetimes().map(|param| param.lifetime.clone());
    let brand = lifetimes.next().unwrap_or_else(|| Lifetime::new("'seawall", Span::call_site()));
    if let Some(second) = lifetimes.next() {
        let what = "a persistent struct has one lifetime, the brand of its pool: there are no \
                    references in a pool that would need another";
        return Err(Error::new(second.span(), what));
    }
    let (mut types, mut numbers) = (Vec::new(), Vec::new());
    for param in &input.generics.params {
        match param {
            GenericParam::Type(param) => types.push(param.ident.clone()),
            GenericParam::Const(param) => numbers.push(param.ident.clone()),
            _ => {}
        }
    }
    let (shape_name, align) = options(&input)?;
    let (name, generics) = (input.ident, input.generics);
    Ok(Parsed { typed, name, shape_name, align, generics, brand, types, numbers, fields })
}

fn fields(input: &DeriveInput) -> Result<Vec<Field>> {
    let what = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) if !named.named.is_empty() => {
                let field = |field: &syn::Field| Field {
                    name: field.ident.clone().expect("it is named"),
                    vis: field.vis.clone(),
                    ty: field.ty.clone(),
                };
                return Ok(named.named.iter().map(field).collect());
            }
            Fields::Unnamed(_) => {
                "name the fields of a persistent struct: their names are part of its layout"
            }
            _ => "a struct without fields keeps nothing: leave it out, or name a field",
        },
        Data::Enum(_) => {
            "an enum cannot be persistent, as a damaged pool may hold a value that it does not \
             have; keep a number and match on it, or `Option<Ptr<'p, T>>`"
        }
        Data::Union(_) => {
            "a union cannot be persistent, as nothing says which field is in use; use a struct"
        }
    };
    Err(Error::new(input.ident.span(), what))
}

/// What the attributes say: the name that counts, and the alignment.
fn options(input: &DeriveInput) -> Result<(String, u64)> {
    let (mut name, mut align) = (input.ident.to_string(), 1);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("lines") {
                align = 64;
                Ok(())
            } else if meta.path.is_ident("name") {
                name = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            } else {
                Err(Error::new(meta.path.span(), "`lines` or `name = \"...\"` are known here"))
            }
        })?;
    }
    Ok((name, align))
}
