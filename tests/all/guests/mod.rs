//! A module for every guest. One without does not compile.

mod greet;
mod probe;

macro_rules! assert_each_has_a_module {
    ($($guest:ident),+) => { $(use self::$guest as _;)+ };
}
skillrun_test_artifacts::for_all_guests!(assert_each_has_a_module);
