//! The executor keeps wasmtime to itself: what it offers to others mentions none of its types.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};

use super::assert_clean;
use super::paths::{self, NamedPath};
use super::tree::{RustFile, rust_files};

fn check(file: &RustFile) -> Vec<String> {
    let mut imports = Imports(Vec::new());
    imports.visit_file(&file.syntax);
    let imported = imports
        .0
        .into_iter()
        .filter(is_of_wasmtime)
        .filter_map(|path| path.segments.last().cloned())
        .collect();
    let mut offers = Offers {
        path: &file.path,
        imported,
        complaints: Vec::new(),
    };
    offers.visit_file(&file.syntax);
    offers.complaints
}

fn is_of_wasmtime(path: &NamedPath) -> bool {
    let is_family = |first: &String| first == "wasmtime" || first.starts_with("wasmtime_");
    path.segments.len() > 1 && path.segments.first().is_some_and(is_family)
}

/// The paths of all `use` items.
struct Imports(Vec<NamedPath>);

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.0
            .extend(paths::of_tokens(item.tree.to_token_stream(), Vec::new()));
    }
}

struct Offers<'a> {
    path: &'a str,
    /// The names that the file imports from wasmtime.
    imported: Vec<String>,
    complaints: Vec<String>,
}

impl Offers<'_> {
    fn offer(&mut self, name: &syn::Ident, tokens: TokenStream) {
        for path in paths::of_tokens(tokens, Vec::new()) {
            let is_imported = path
                .segments
                .first()
                .is_some_and(|first| self.imported.contains(first));
            if is_imported || is_of_wasmtime(&path) {
                let (file, line, type_name) = (self.path, path.line, path.segments.join("::"));
                self.complaints.push(format!(
                    "{file}:{line}: {name} offers wasmtime's {type_name}"
                ));
            }
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

impl<'ast> Visit<'ast> for Offers<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_public(&item.vis) {
            self.offer(&item.sig.ident, item.sig.to_token_stream());
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // The methods of a trait have the trait's signatures, which are checked where it stands.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_public(&item.vis) {
            self.offer(&item.sig.ident, item.sig.to_token_stream());
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) {
            for method in &item.items {
                if let syn::TraitItem::Fn(method) = method {
                    self.offer(&method.sig.ident, method.sig.to_token_stream());
                }
            }
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_public(&item.vis) {
            for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                self.offer(&item.ident, field.ty.to_token_stream());
            }
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) {
            for field in item.variants.iter().flat_map(|variant| &variant.fields) {
                self.offer(&item.ident, field.ty.to_token_stream());
            }
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if is_public(&item.vis) {
            self.offer(&item.ident, item.ty.to_token_stream());
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_public(&item.vis) {
            for path in paths::of_tokens(item.tree.to_token_stream(), Vec::new()) {
                if is_of_wasmtime(&path) {
                    let (file, line) = (self.path, path.line);
                    let name = path.segments.join("::");
                    self.complaints
                        .push(format!("{file}:{line}: {name} is offered again"));
                }
            }
        }
    }
}

#[test]
fn the_executor_offers_no_type_of_wasmtime() {
    let files = rust_files().unwrap();
    let executor = files
        .iter()
        .filter(|file| file.top_module() == Some("executor"));
    let complaints: Vec<String> = executor.flat_map(check).collect();
    assert_clean(&complaints);
}

#[test]
fn an_offered_type_of_wasmtime_is_seen() {
    for text in [
        "pub fn f(engine: &wasmtime::Engine) {}",
        "use wasmtime::{Engine, Store}; pub struct X { pub engine: Option<Engine> }",
        "use wasmtime::component::Component; impl X { pub fn f(&self) -> Component { x } }",
        "pub trait T { fn f(&self) -> wasmtime_wasi::WasiCtx; }",
        "pub enum E { A(wasmtime::Trap) }",
        "pub use wasmtime::Engine;",
    ] {
        let file = RustFile::parse("src/executor/x.rs", text).unwrap();
        assert_eq!(check(&file).len(), 1, "{text}");
    }
    let inside = "use wasmtime::Engine; pub struct X { engine: Engine }
        impl X { pub(crate) fn f(&self) -> &Engine { &self.engine } pub fn g(&self) -> u8 { 1 } }
        impl wasmtime_wasi::WasiView for X { fn ctx(&mut self) -> wasmtime_wasi::WasiCtxView { x } }";
    assert_clean(&check(
        &RustFile::parse("src/executor/x.rs", inside).unwrap(),
    ));
}
