//! `#[derive(Persist)]`: makes a struct of persistent fields persistent.
//!
//! It writes, for a struct with named fields: the layout (as in C), the shape, loading and storing
//! field by field, and a `Field` constant for each field, named as it in capitals. Nothing that it
//! writes is unsafe. What cannot be persistent is refused with a message that says what to do.
//!
//! - A struct has at most one lifetime: the brand of the pool that its pointers are of.
//! - `#[persist(lines)]`: objects start at a cache line, of which nothing else has a part.
//! - `#[persist(name = "Node")]`: the name that counts for the shape, to rename a struct and still
//!   open its pools.

#![forbid(unsafe_code)]

mod parse;

use parse::{Parsed, parse};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Token, TypeParamBound, WherePredicate, parse_macro_input, parse_quote};

/// Makes a struct with named fields, all of them persistent, persistent; see the crate's head.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(parse_macro_input!(input as DeriveInput), quote!(::seawall_runtime::typed))
}

/// The same for those who use the crate `seawall`.
#[proc_macro_derive(PersistOfSeawall, attributes(persist))]
pub fn derive_persist_of_seawall(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(parse_macro_input!(input as DeriveInput), quote!(::seawall::typed))
}

/// `typed` is where the program finds what the code uses.
fn derive(input: DeriveInput, typed: TokenStream) -> proc_macro::TokenStream {
    let parsed = parse(input, typed);
    parsed.map_or_else(|error| error.to_compile_error(), |parsed| expand(&parsed)).into()
}

fn expand(parsed: &Parsed) -> TokenStream {
    let (fields, persist) = (expand_fields(parsed), expand_persist(parsed));
    let branded = expand_branded(parsed);
    quote! { #fields #persist #branded }
}

/// The generics of an impl: those of the struct, its brand, and what is asked of its parameters.
fn impl_generics(parsed: &Parsed) -> syn::Generics {
    let mut generics = parsed.generics.clone();
    let Parsed { brand, typed, .. } = parsed;
    if generics.lifetimes().next().is_none() {
        generics.params.insert(0, parse_quote!(#brand));
    }
    for name in &parsed.types {
        generics.make_where_clause().predicates.push(parse_quote!(#name: #typed::Persist<#brand>));
    }
    generics
}

/// The constant of a field.
fn constant(field: &Ident) -> Ident {
    let name = field.to_string();
    format_ident!("{}", name.trim_start_matches("r#").to_uppercase(), span = field.span())
}

fn expand_fields(parsed: &Parsed) -> TokenStream {
    let Parsed { name, brand, typed, .. } = parsed;
    let generics = impl_generics(parsed);
    let (impl_generics, _, predicates) = generics.split_for_impl();
    let (_, arguments, _) = parsed.generics.split_for_impl();
    let count = parsed.fields.len();
    let types: Vec<_> = parsed.fields.iter().map(|field| &field.ty).collect();
    let constants = parsed.fields.iter().enumerate().map(|(place, field)| {
        let (visibility, constant, ty) = (&field.vis, constant(&field.name), &field.ty);
        let doc = format!("The field `{}`.", field.name);
        quote! {
            #[doc = #doc]
            #[allow(dead_code, reason = "not every field is used by itself")]
            #visibility const #constant: #typed::Field<Self, #ty> =
                #typed::Field::derived(
                    #typed::derived::offset(&Self::__FIELDS, #place),
                );
        }
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics #name #arguments #predicates {
            const __FIELDS: [(u64, u64); #count] = [#((
                <#types as #typed::Persist<#brand>>::SIZE,
                <#types as #typed::Persist<#brand>>::ALIGN,
            )),*];
            #(#constants)*
        }
    }
}

fn expand_persist(parsed: &Parsed) -> TokenStream {
    let Parsed { name, brand, shape_name, align, typed, .. } = parsed;
    let generics = impl_generics(parsed);
    let (impl_generics, _, predicates) = generics.split_for_impl();
    let (_, arguments, _) = parsed.generics.split_for_impl();
    let names: Vec<_> = parsed.fields.iter().map(|field| &field.name).collect();
    let texts = names.iter().map(|name| name.to_string().trim_start_matches("r#").to_owned());
    let types: Vec<_> = parsed.fields.iter().map(|field| &field.ty).collect();
    let constants: Vec<_> = names.iter().map(|name| constant(name)).collect();
    let parts = parsed.types.iter().map(|ty| quote!(<#ty as #typed::Persist<#brand>>::NAME));
    let numbers = parsed.numbers.iter().map(|number| quote!(#number as u64));
    let described = expand_described(parsed);
    quote! {
        #[automatically_derived]
        impl #impl_generics #typed::Persist<#brand> for #name #arguments
        #predicates
        {
            const SIZE: u64 =
                #typed::derived::size(&Self::__FIELDS, #align);
            const ALIGN: u64 =
                #typed::derived::align(&Self::__FIELDS, #align);
            const NAME: u64 = #typed::derived::name(
                #shape_name,
                &[#(#parts,)* #(#numbers),*],
            );
            const SHAPE: u64 = #typed::derived::of_struct(
                <Self as #typed::Persist<#brand>>::NAME,
                <Self as #typed::Persist<#brand>>::ALIGN,
                &[#((
                    #texts,
                    <#types as #typed::Persist<#brand>>::SHAPE,
                )),*],
            );

            const IS_VALUE: bool = true #(&& <#types as #typed::Persist<#brand>>::IS_VALUE)*;

            #described

            #[inline]
            fn load<S: #typed::derived::Source>(
                from: &S,
                at: #typed::derived::Addr,
            ) -> Self {
                Self { #(
                    #names: <#types as #typed::Persist<#brand>>::load(
                        from,
                        at.plus(Self::#constants.offset()),
                    ),
                )* }
            }

            #[inline]
            fn store<S: #typed::derived::Sink>(
                self,
                to: &mut S,
                at: #typed::derived::Addr,
            ) {
                #(
                    <#types as #typed::Persist<#brand>>::store(
                        self.#names,
                        to,
                        at.plus(Self::#constants.offset()),
                    );
                )*
            }
        }
    }
}

/// What it and its fields are called in the pool, and which of them have pointers.
fn expand_described(parsed: &Parsed) -> TokenStream {
    let Parsed { brand, shape_name, typed, .. } = parsed;
    let types =
        parsed.types.iter().map(|ty| quote!(<#ty as #typed::Persist<#brand>>::name_to(text)));
    let numbers = parsed
        .numbers
        .iter()
        .map(|number| quote!(text.push_str(&::std::string::ToString::to_string(&#number))));
    let parameters = types.chain(numbers).enumerate().map(|(place, parameter)| {
        let before = if place == 0 { "<" } else { ", " };
        quote!(text.push_str(#before); #parameter;)
    });
    let end = if parsed.types.len() + parsed.numbers.len() > 0 { ">" } else { "" };
    let types_of_fields = parsed.fields.iter().map(|field| &field.ty);
    let constants = parsed.fields.iter().map(|field| constant(&field.name));
    let fields = parsed.fields.iter().enumerate().map(|(place, field)| {
        let before = if place == 0 { "" } else { ", " };
        let name = format!("{before}{}: ", field.name.to_string().trim_start_matches("r#"));
        let ty = &field.ty;
        quote! {
            text.push_str(#name);
            <#ty as #typed::Persist<#brand>>::name_to(text);
        }
    });
    quote! {
        fn name_to(text: &mut ::std::string::String) {
            text.push_str(#shape_name);
            #(#parameters)*
            text.push_str(#end);
        }

        fn fields_to(text: &mut ::std::string::String) {
            #(#fields)*
        }

        fn pointers_to(found: &mut #typed::derived::Pointers, offset: u64) {
            #(
                <#types_of_fields as #typed::Persist<#brand>>::pointers_to(
                    found,
                    offset + Self::#constants.offset(),
                );
            )*
        }
    }
}

/// Leaves out the bounds `Persist`, which one for every brand replaces.
fn forget_persist(generics: &mut syn::Generics) {
    let others = |bounds: &mut Punctuated<TypeParamBound, Token![+]>| {
        let is_persist = |bound: &TypeParamBound| match bound {
            TypeParamBound::Trait(bound) => {
                bound.path.segments.last().is_some_and(|last| last.ident == "Persist")
            }
            _ => false,
        };
        *bounds = bounds.iter().filter(|bound| !is_persist(bound)).cloned().collect();
    };
    generics.type_params_mut().for_each(|param| others(&mut param.bounds));
    for predicate in generics.where_clause.iter_mut().flat_map(|clause| &mut clause.predicates) {
        if let WherePredicate::Type(predicate) = predicate {
            others(&mut predicate.bounds);
        }
    }
}

/// The struct with its brand left open; its parameters, if it has any, are types without one.
fn expand_branded(parsed: &Parsed) -> TokenStream {
    let Parsed { name, types, numbers, typed, .. } = parsed;
    let mut generics = parsed.generics.clone();
    forget_persist(&mut generics);
    for ty in types {
        generics
            .make_where_clause()
            .predicates
            .push(parse_quote!(#ty: for<'any> #typed::Persist<'any>));
    }
    let (impl_generics, _, predicates) = generics.split_for_impl();
    let (_, own, _) = parsed.generics.split_for_impl();
    let brand = parsed.generics.lifetimes().map(|_| quote!('seawall_in));
    let arguments = brand
        .chain(types.iter().map(|ty| quote!(#ty)))
        .chain(numbers.iter().map(|number| quote!(#number)));
    quote! {
        #[automatically_derived]
        impl #impl_generics #typed::Branded for #name #own #predicates {
            type In<'seawall_in> = #name<#(#arguments),*>;
        }
    }
}
