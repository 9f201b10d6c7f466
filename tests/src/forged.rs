//! Scorers written by hand, for what no compiler leaves in a guest.
//!
//! A core module in text with the metadata of a component, which the router wraps by itself. As it stands it
//! scores every candidate 0; each part can be replaced.

use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The parts of the module.
#[derive(Debug, Clone)]
pub struct Forged {
    /// Its memory.
    pub memory: String,
    /// What `describe` does.
    pub describe: String,
    /// What `configure` does.
    pub configure: String,
    /// What comes of the pointer and length, at 1040, of the scores.
    pub answer: String,
    /// Whatever else the module has.
    pub more: String,
}

impl Default for Forged {
    fn default() -> Self {
        Self {
            memory: "(memory (export \"memory\") 2)".into(),
            // All zero is a manifest without texts, and a good outcome.
            describe: "(i32.const 1024)".into(),
            configure: "(i32.const 1024)".into(),
            answer: String::new(),
            more: String::new(),
        }
    }
}

impl Forged {
    /// Its bytes.
    ///
    /// # Panics
    /// When a part is no WebAssembly text.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut module = wat::parse_str(self.text()).unwrap();
        let mut resolve = Resolve::default();
        resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).unwrap();
        let world = "package forged:guest;\n\
             world scorer {\n\
               include sluicegate:policy/policy@0.1.0;\n\
               include sluicegate:policy/scorer-policy@0.1.0;\n\
             }";
        let package = resolve.push_str("forged.wit", world).unwrap();
        let world = resolve.select_world(&[package], Some("scorer")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
        module
    }

    /// Made a component, with more core modules beside it that have a memory of so many pages each.
    ///
    /// # Panics
    /// When a part is no WebAssembly text.
    #[must_use]
    pub fn with_memories(&self, memories: u8, pages: u16) -> Vec<u8> {
        const CORE_MODULE: u8 = 1;
        const CORE_INSTANCE: u8 = 2;
        let mut encoder = ComponentEncoder::default();
        let mut component = encoder.module(&self.bytes()).unwrap().encode().unwrap();
        let mut depth = 0;
        let mut module = 0_u8;
        for payload in Parser::new(0).parse_all(&component) {
            match payload.unwrap() {
                Payload::ModuleSection { .. } => {
                    module += u8::from(depth == 0);
                    depth += 1;
                }
                Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                _ => {}
            }
        }
        section(&mut component, CORE_MODULE, &wat::parse_str(format!("(module (memory {pages}))")).unwrap());
        // Each instantiates that module, which is the next, without arguments.
        let mut instances = vec![memories];
        instances.extend([0, module, 0].repeat(memories.into()));
        section(&mut component, CORE_INSTANCE, &instances);
        component
    }

    fn text(&self) -> String {
        let Self { memory, describe, configure, answer, more } = self;
        format!(
            r#"(module
  (import "sluicegate:policy/view@0.1.0" "[resource-drop]request" (func $drop_request (param i32)))
  (import "sluicegate:policy/view@0.1.0" "[resource-drop]endpoints" (func $drop_endpoints (param i32)))
  (import "sluicegate:policy/view@0.1.0" "[method]endpoints.len" (func $len (param i32) (result i32)))
  {memory}
  (global $heap (mut i32) (i32.const 32768))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (i32.and (i32.add (local.get 3) (i32.const 15)) (i32.const -16)))))
  (func (export "sluicegate:policy/plugin@0.1.0#describe") (result i32) {describe})
  (func (export "sluicegate:policy/plugin@0.1.0#configure") (param i32 i32) (result i32) {configure})
  (func (export "sluicegate:policy/scorer@0.1.0#score") (param $request i32) (param $endpoints i32) (result i32)
    (i32.store (i32.const 1040) (i32.const 2048))
    (i32.store (i32.const 1044) (call $len (local.get $endpoints)))
    (call $drop_request (local.get $request))
    (call $drop_endpoints (local.get $endpoints))
    {answer}
    (i32.const 1040))
  {more})"#
        )
    }
}

/// Appends a section, whose length is in LEB128.
fn section(component: &mut Vec<u8>, id: u8, bytes: &[u8]) {
    component.push(id);
    let mut len = bytes.len();
    while len >= 0x80 {
        component.push(0x80 | (len & 0x7f) as u8);
        len >>= 7;
    }
    component.push(len as u8);
    component.extend(bytes);
}
