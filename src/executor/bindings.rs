//! The only `bindgen!`: host and guest meet here, and the files in `host/` implement what it makes.

wasmtime::component::bindgen!({
    path: "wit",
    world: "skill",
    imports: { default: trappable },
    exports: { default: async },
    with: {
        "skillrun:skill/recorder.node": crate::executor::guest_record::Node,
        "skillrun:skill/llm.completion": crate::executor::host::llm::Completion,
    },
});
