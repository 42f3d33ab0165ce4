"""The sandbox without bubblewrap does the same."""

from __future__ import annotations

import pytest

from tests.harness.sandbox import (
    test_start_and_end,
    test_what_a_job_may_do,
    test_what_a_job_sees,
    test_what_is_left,
)

pytestmark = pytest.mark.proof  # it is the grader that uses it


@pytest.mark.parametrize(
    "test",
    [
        test_what_a_job_sees.test_a_job_sees_what_is_readable_and_nothing_else,
        test_what_a_job_sees.test_of_the_exchange_folder_a_job_sees_its_own_part,
        test_what_a_job_sees.test_no_process_but_its_own_and_no_environment_but_its_own,
        test_what_a_job_sees.test_the_first_process_of_a_job_cannot_be_looked_into,
        test_what_a_job_may_do.test_it_writes_into_its_box_only,
        test_what_a_job_may_do.test_no_network_of_any_family,
        test_what_a_job_may_do.test_no_rights_are_left,
        test_what_is_left.test_a_job_leaves_no_process,
        test_start_and_end.test_after_the_template_has_died_it_is_started_anew,
    ],
)
def test_namespaces_do_the_same(place_without_bubblewrap, test):
    test(place_without_bubblewrap)
