//! Whoever writes a skill reads the package, or what a generator made of its comments: nothing in it
//! is without one.

use wit_parser::{Docs, Interface, PackageId, Resolve, Type, TypeDef, TypeDefKind, TypeOwner};

use super::{package, package_of};

/// Everything of the package that has no comment.
fn undocumented(resolve: &Resolve, package: PackageId) -> Vec<String> {
    let package = &resolve.packages[package];
    let mut found = Vec::new();
    for (name, &world) in &package.worlds {
        check(&mut found, "world", name, &resolve.worlds[world].docs);
    }
    for (name, &id) in &package.interfaces {
        let interface = &resolve.interfaces[id];
        check(&mut found, "interface", name, &interface.docs);
        check_items(&mut found, resolve, name, interface);
    }
    found
}

fn check_items(found: &mut Vec<String>, resolve: &Resolve, of: &str, interface: &Interface) {
    for (name, &id) in &interface.types {
        let definition = &resolve.types[id];
        if !is_borrowed(resolve, definition) {
            let kind = definition.kind.as_str();
            check(found, kind, &format!("{of}.{name}"), &definition.docs);
        }
    }
    for (name, function) in &interface.functions {
        check(found, "function", &format!("{of}.{name}"), &function.docs);
    }
}

fn check(found: &mut Vec<String>, kind: &str, name: &str, docs: &Docs) {
    let text = docs.contents.as_deref().unwrap_or_default();
    if text.trim().is_empty() {
        found.push(format!("{kind} {name}"));
    }
}

/// Whether a type came by `use` and is documented where it is from.
fn is_borrowed(resolve: &Resolve, definition: &TypeDef) -> bool {
    match definition.kind {
        TypeDefKind::Type(Type::Id(original)) => {
            let owner = resolve.types[original].owner;
            owner != definition.owner && matches!(owner, TypeOwner::Interface(_))
        }
        _ => false,
    }
}

#[test]
fn everything_in_the_package_has_a_comment() {
    let (resolve, package) = package();
    let found = undocumented(&resolve, package);
    assert!(found.is_empty(), "without a comment: {found:#?}");
}

#[test]
fn what_has_no_comment_is_found() {
    let bare = "package a:b;
        interface c { type d = string; record e { f: u32 } variant g { h } enum i { j }
            flags k { l } resource m { constructor(); n: func(); o: static func(); } p: func(); }
        /// Has one.
        interface q { use c.{d}; /// Has one.
            r: func(s: d); }
        world t { import c; }";
    let (resolve, package) = package_of(bare);
    assert_eq!(
        undocumented(&resolve, package),
        [
            "world t",
            "interface c",
            "type c.d",
            "record c.e",
            "variant c.g",
            "enum c.i",
            "flags c.k",
            "resource c.m",
            "function c.[constructor]m",
            "function c.[method]m.n",
            "function c.[static]m.o",
            "function c.p",
        ]
    );
}
