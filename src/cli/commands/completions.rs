//! `skillrun completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::args::Cli;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;

pub(crate) fn completions(shell: Shell, printer: Printer) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skillrun", &mut script);
    printer.line(String::from_utf8(script)?.trim_end())?;
    Ok(Exit::Ok)
}
