//! The only `bindgen!`s: host and guest meet here, and the files in `host/` implement what they make.

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

/// The world `agent`, which has all that the world `skill` has and a session.
pub(crate) mod agent {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "agent",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "skillrun:skill/types": super::skillrun::skill::types,
            "skillrun:skill/run": super::skillrun::skill::run,
            "skillrun:skill/recorder": super::skillrun::skill::recorder,
            "skillrun:skill/log": super::skillrun::skill::log,
            "skillrun:skill/tools": super::skillrun::skill::tools,
            "skillrun:skill/llm": super::skillrun::skill::llm,
            "skillrun:skill/approval": super::skillrun::skill::approval,
            "skillrun:skill/handoff": super::skillrun::skill::handoff,
        },
    });
}
