//! The command line of skillrun; everything is in the library's `cli` module.

fn main() -> std::process::ExitCode {
    skillrun::cli::main()
}
