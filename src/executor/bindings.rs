//! The only `bindgen!`: host and guest meet here, and the files in `host/` implement what it makes.

wasmtime::component::bindgen!({
    path: "wit",
    world: "skill",
    imports: {
        "skillrun:skill/approval": async | trappable,
        "skillrun:skill/handoff": async | trappable,
        "skillrun:skill/llm": async | trappable,
        "skillrun:skill/tools": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "skillrun:skill/recorder.node": crate::executor::guest_record::Node,
        "skillrun:skill/llm.completion": crate::executor::host::llm::Completion,
    },
});
