//! The contract, instantiated for each backend: one test of every function that is named here.

/// Makes a test of each function, for each backend. The functions take a rig.
macro_rules! contract {
    ($($module:ident: $($test:ident),+;)+) => {
        mod in_process { contract!(@ InProcess $($($module $test),+),+); }
        mod subprocess { contract!(@ Subprocess $($($module $test),+),+); }
        mod fake { contract!(@ Fake $($($module $test),+),+); }
    };
    (@ $kind:ident $($module:ident $test:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                use super::super::rig::{Kind, Rig};
                super::super::$module::$test(&Rig::new(Kind::$kind)).await;
            }
        )+
    };
}

contract! {
    launches: a_launch_is_seen_at_once_and_has_its_events,
        a_prompt_of_the_launch_is_its_first_turn,
        parallel_launches_of_a_session_share_one_result,
        what_is_refused_leaves_nothing_behind,
        a_caller_who_goes_away_leaves_no_execution,
        the_launch_request_is_carried_over_and_does_not_show,
        a_folder_is_made_for_an_execution_and_goes_with_it,
        an_id_that_is_none_is_an_argument_error_and_an_unknown_one_is_not_found;
    turns: prompts_are_taken_in_their_order,
        a_turn_ends_with_the_reason_that_the_agent_has,
        a_cancelled_turn_ends_and_the_next_goes_on,
        an_agent_that_does_not_listen_is_interrupted_and_goes_on_without_the_turn,
        a_wait_that_is_given_up_takes_the_prompt_back_or_ends_its_turn,
        a_mode_is_changed_in_the_middle_of_a_turn_and_told_once;
    ends: an_agent_that_ends_itself_completes,
        an_agent_that_traps_fails_and_its_caller_is_told,
        a_stop_ends_whoever_waits_and_keeps_its_reason,
        ten_stops_have_one_owner_and_one_end,
        an_agent_that_does_not_finish_is_ended_and_that_is_told,
        an_execution_is_read_from_its_ledger_as_it_was;
    events: whoever_comes_late_sees_everything_and_the_end,
        a_handler_may_call_every_method,
        a_subscriber_who_does_not_read_holds_nothing_up,
        events_are_replayed_from_a_number_on;
    families: children_end_with_their_parent,
        only_the_parent_stops_its_children,
        a_parent_has_a_list_of_its_children,
        launches_end_at_a_depth;
    workspaces: a_folder_is_given_under_its_one_name;
    restarts: what_a_shutdown_interrupts_is_taken_up_where_it_was;
}
