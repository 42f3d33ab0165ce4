"""Whose points changed between two reports: who is who in them."""

from __future__ import annotations

from grading.gradebook import changes


def test_a_student_whose_entry_has_another_name_is_the_same_student() -> None:
    """Canvas numbers what is handed in again anew; who had handed in nothing stands under the class list's name."""

    def told(**students: tuple[str, str]) -> dict:
        return {
            "students": {
                entry: {
                    "name": name,
                    "points": points,
                    "tasks": {"ex_33.a": points},
                    "handed_in": {"ex_33": entry},
                }
                for entry, (name, points) in students.items()
            }
        }

    before = told(pirescleo_77_1_week=("Cleo", "3"), nothing=("Zoe", "0"), lee_5_1_a=("Kim", "4"))
    after = told(pirescleo_77_2_week=("Cleo", "5"), zoe=("Zoe", "6"), lee_6_2_b=("Kim", "7"))
    lines = changes.in_words(changes.found(before, after, "now"))
    assert lines == [
        "Cleo: total 3 → 5, ex_33.a 3 → 5 (handed in anew)",
        "Zoe: total 0 → 6, ex_33.a 0 → 6 (handed in anew)",
    ]
