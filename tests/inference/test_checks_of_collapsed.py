"""Which test holds which check of the specification of collapsed inference.

A check has a number (C1 to C36) and a golden problem a letter (G1, G3, G4); a test has a name that
says what must hold. This is the table between them, and a test that every name in it exists.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
GOLDEN, LAWS, CHAINS = (
    f"inference/test_collapsed_{name}.py" for name in ("golden", "laws", "chains")
)
TABLES, BLOCKS = "inference/test_collapsed_tables.py", "inference/test_guarded_blocks.py"
SUBCHAINS, STEPS = "inference/test_subchains.py", "inference/test_stochastic_collapsed.py"
GIBBS, GRAMMARS = "inference/test_collapsed_gibbs.py", "inference/test_golden_grammars.py"
PRIOR, ABSENT = "priors/test_tables.py", "kernels/test_absent.py"
SCORES = "metrics/test_agreement.py"
CHECKS = {
    "C1 chain rule of predictives, log evidences": [
        (GOLDEN, "test_golden_evidence_is_the_sum_over_all_labelings"),
        (GOLDEN, "test_predictives_one_by_one_make_up_the_log_joint"),
    ],
    "C2 forward-backward against all paths": [
        ("kernels/chain/test_smooth.py", "test_all_paths"),
        ("kernels/chain/test_smooth.py", "test_sums"),
    ],
    "C3 inside-outside against all trees": [
        ("kernels/test_tree.py", "test_sums_counts_and_spans_equal_enumeration"),
    ],
    "C4 bounds rise, and are in order": [
        (GOLDEN, "test_golden_variational_bayes"),
        (GOLDEN, "test_the_bound_is_that_of_all_labelings_and_below_the_evidence"),
        (GRAMMARS, "test_bounds_of_a_small_grammar_are_ordered"),
    ],
    "C5 Gibbs conditionals, marginals of a long run": [
        (GIBBS, "test_weights_of_a_state_are_ratios_of_joints"),
        (GIBBS, "test_a_long_run_has_the_golden_marginals"),
        ("inference/test_collapsed_every_cell.py", "test_a_drawn_sweep_equals_the_plain_loop"),
    ],
    "C6 expected counts of a token's neighbors": [
        (LAWS, "test_tokens_expect_what_all_labelings_of_the_others_say"),
    ],
    "C7 counts after updates are counts anew": [
        (CHAINS, "test_counts_stay_those_of_the_own_counts"),
        (CHAINS, "test_own_counts_follow_the_edits"),
    ],
    "C8 golden marginals by token": [(GOLDEN, "test_golden_marginals_token_by_token")],
    "C9 one state; strong priors": [
        (LAWS, "test_one_state_has_everything"),
        (LAWS, "test_a_strong_prior_leaves_legal_states_alike"),
    ],
    "C10 one sequence alone": [(LAWS, "test_one_sequence_alone_has_all_paths_alike")],
    "C11 predictives sum to one": [
        (LAWS, "test_predictives_sum_to_one_and_nobody_leaves_more_than_there_is"),
    ],
    "C12 golden marginals by sequence; states permuted": [
        (GOLDEN, "test_golden_marginals_and_bounds_sequence_by_sequence"),
        (GOLDEN, "test_states_in_another_order_give_the_same_in_another_order"),
        (GRAMMARS, "test_collapsed_sweeps_of_a_small_grammar"),
    ],
    "C13 many copies need no exclusion": [
        (GOLDEN, "test_many_copies_of_all_sequences_need_no_exclusion"),
        (LAWS, "test_exclusion_matters_less_and_less"),
    ],
    "C14 no exclusion is a mode with prior counts one larger": [
        (GOLDEN, "test_without_exclusion_steps_are_those_of_a_mode_with_prior_counts_one_larger"),
    ],
    "C15 joint predictives": [
        (LAWS, "test_joint_predictives_are_near_products_of_predictives"),
    ],
    "C16 guards against enumeration": [
        (LAWS, "test_guards_as_published_are_the_same_and_a_wrong_denominator_is_not"),
        (LAWS, "test_guards_that_are_certain_do_no_harm"),
        (CHAINS, "test_a_sweep_of_blocks_equals_the_enumeration_of_their_paths"),
    ],
    "C17 a wrong denominator fails": [
        (LAWS, "test_guards_as_published_are_the_same_and_a_wrong_denominator_is_not"),
    ],
    "C18 what a block removes; one block": [
        (CHAINS, "test_a_sweep_of_blocks_equals_the_enumeration_of_their_paths"),
        (GOLDEN, "test_golden_marginals_block_by_block"),
    ],
    "C19 blocks of one row": [(LAWS, "test_blocks_of_one_row_are_tokens_without_corrections")],
    "C20 a whole step of rate one": [
        (STEPS, "test_a_whole_step_is_the_local_step_under_the_predictive"),
    ],
    "C21 scales of minibatches and cuts": [
        (SUBCHAINS, "test_minibatches_of_sequences_average_to_the_statistics_of_all"),
        (SUBCHAINS, "test_cuts_hold_every_row_once_and_every_pair_equally_often"),
        (BLOCKS, "test_a_fit_equals_the_plain_loop_over_all_paths"),
    ],
    "C22 schedule": [("inference/test_stochastic.py", "test_schedule")],
    "C23 Stirling numbers": [
        (PRIOR, "test_tables_of_known_steps_are_those_of_stirling_numbers"),
    ],
    "C24 absence three ways": [
        (ABSENT, "test_exact_equals_all_paths"),
        (ABSENT, "test_exact_equals_first_passages"),
        (ABSENT, "test_mean_field_equals_all_paths_of_independent_states"),
        (ABSENT, "test_first_states_are_exact"),
    ],
    "C25 union bound; errors of the approximations": [
        (ABSENT, "test_no_more_is_expected_absent_than_the_sum_of_pairs_allows"),
        (ABSENT, "test_no_more_is_absent_than_the_products_of_independent_states_allow"),
        (ABSENT, "test_independent_pairs_are_closer_than_independent_states"),
    ],
    "C26 tables between steps and their chance": [
        (PRIOR, "test_tables_lie_between_the_probability_of_a_step_and_the_expected_steps"),
    ],
    "C27 closed forms and gradients": [
        (PRIOR, "test_closed_forms_are_where_the_surrogate_is_flat"),
        (PRIOR, "test_gradients_in_closed_form"),
    ],
    "C28 shares, order, dead states": [
        (PRIOR, "test_states_in_order_of_size_stay_in_it"),
        (PRIOR, "test_dead_states_stay_finite"),
    ],
    "C29 states of a ring, plain sweeps and defaults": [
        (TABLES, "test_states_of_a_ring_die_out_one_by_one"),
        (TABLES, "test_most_starts_end_with_the_states_of_a_ring"),
        (TABLES, "test_defaults_reach_the_states_of_a_ring_where_plain_sweeps_do_not"),
    ],
    "C30 equal prior counts": [
        (TABLES, "test_equal_prior_counts_are_those_of_a_finite_chain"),
    ],
    "C35 perfect clusters, one cluster, information": [
        (SCORES, "test_perfect_clusters_have_perfect_scores"),
        (SCORES, "test_one_cluster_scores_the_commonest_label"),
        (SCORES, "test_information_is_symmetric_and_the_sum_of_conditional_entropies"),
    ],
    "C36 random legal tags": [
        ("test_tagging_experiment.py", "test_baselines_need_no_model"),
    ],
    "G1 three words, six sequences, a dictionary": [
        (GOLDEN, "test_golden_marginals_and_bounds_sequence_by_sequence"),
        (GOLDEN, "test_golden_bound_without_exclusion_is_that_of_batches"),
    ],
    "G3 labels that may be exchanged": [
        (GOLDEN, "test_golden_labels_that_may_be_exchanged"),
        (GOLDEN, "test_golden_labels_that_may_be_exchanged_by_variational_bayes"),
    ],
    "G4 one chain in blocks": [(GOLDEN, "test_golden_marginals_block_by_block")],
}
ASKED = [*(f"C{i}" for i in range(1, 31)), "C35", "C36", "G1", "G3", "G4"]


def test_every_check_that_was_asked_for_has_a_test() -> None:
    assert [check.split()[0] for check in CHECKS] == ASKED


@pytest.mark.parametrize("path", sorted({path for found in CHECKS.values() for path, _ in found}))
def test_tests_of_the_table_exist(path: str) -> None:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    named = {name for found in CHECKS.values() for at, name in found if at == path}
    assert named <= defined
