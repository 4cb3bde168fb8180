//! A plain command: it prints its arguments and what it reads, and ends in the way that it is asked for.

use std::env;
use std::io::{self, Read};

fn main() -> Result<(), String> {
    let mut input = String::new();
    io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| error.to_string())?;
    let arguments: Vec<String> = env::args().collect();
    println!("{}", arguments.join(" "));
    print!("{input}");
    let number = |index: usize| arguments.get(index).and_then(|number| number.parse().ok());
    match arguments.get(1).map(String::as_str) {
        Some("exit") => wasip2::cli::exit::exit_with_code(number(2).unwrap_or(0)),
        Some("fail") => return Err("as it was asked to".to_owned()),
        Some("panic") => unreachable!("as it was asked to"),
        Some("flood") => {
            (0..number(2).unwrap_or(0_u8)).for_each(|_| print!("{}", "y".repeat(1000)))
        }
        Some("env") => println!("{}", env::vars().count()),
        _ => {}
    }
    Ok(())
}
