"""Pages: what is shown is right and harmless, what is hidden is nowhere, the same input the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grading.gradebook import class_page, feedback, policy, reporting
from grading.gradebook.policy import Policy
from grading.gradebook.student_view import MEANING
from grading.gradebook.where_to_read import Guide
from grading.grader.intake.submissions import Submission
from grading.runner.results import Check, Result
from tests.harness.written_feedback import COURSE, EX_30, Page, drawn, one_result, write


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("class")
    reporting.write_all(COURSE, out=out, **drawn.whole(COURSE))
    return out


# -- what a student reads -----------------------------------------------------------------------------


def test_a_failed_task_says_what_was_called_what_came_back_and_what_to_read(tmp_path):
    check = Check("test_busy[a]", "failed", "busy_time('decode_eager') returned 3, expected 4 (ns)")
    write(tmp_path, one_result(busy_time=("failed", check, Check("test_b", "passed"))))
    for text in (
        Page((tmp_path / "feedback/ada.html").read_text()).text,
        (tmp_path / "feedback/ada.md").read_text(),
    ):
        assert "busy_time('decode_eager') returned 3, expected 4 (ns)" in text
        assert "uv run lab hint ex_30.busy_time" in text
        assert "week07/day1_nsight_systems/README.md, “2. Was it busy?”" in text
        assert "Ask yourself: Two kernels of 10 µs run at the same time" in text
        assert "Of its other checks 1 passed." in text
        assert f"0 of {EX_30.points}" in text


def test_every_outcome_is_explained(tmp_path):
    tasks = {
        "busy_time": ("error", Check("test_a", "error", "no answer in 20 s", "time-out")),
        "launch_latency": ("blocked", Check("test_a", "blocked", "needs busy_time, which is todo")),
        "idle_gaps": ("failed", Check("test_a", "failed", "x")),
        "utilization": ("infrastructure", Check("test_a", "infrastructure", "no sandbox")),
        "nsys_command": ("passed", Check("test_a", "passed")),
        "pipeline_improved": ("not run", Check("test_a", "not run", "needs nvcc")),
    }
    write(tmp_path, one_result(**tasks))
    text = Page((tmp_path / "feedback/ada.html").read_text()).text
    assert "time-out: your code did not come back in time" in text
    for outcome in ("error", "blocked", "failed", "infrastructure", "todo", "not run"):
        assert " ".join(MEANING[outcome]) in text
    assert "Not complete yet" in text and "Not your fault" in text
    assert f"of {EX_30.points} points" not in text


def test_what_to_do_next_is_what_is_nearly_done(tmp_path):
    tasks = {"idle_gaps": ("failed", Check("t", "failed", "x")), "nsys_command": ("passed",)}
    view = shown(one_result(**tasks))
    assert [task.name for task in view] == ["idle_gaps", "busy_time", "utilization"]


def shown(result: Result, made: Policy | None = None):
    sheet = reporting.Sheet((EX_30,), made or Policy())
    mark = reporting.mark_student("ada", {"ex_30": result}, sheet)
    view = feedback.view(COURSE, Guide(COURSE), mark, sheet.policy)
    return [COURSE.task(task.id) for task in view.following]


def test_one_cause_is_told_once(tmp_path):
    import_error = [Check(f"test_{n}", "error", "SyntaxError: line 3", "bad import") for n in "abc"]
    write(tmp_path, one_result(busy_time=("error", *import_error)))
    assert (tmp_path / "feedback/ada.html").read_text().count("SyntaxError: line 3") == 1


def test_what_befalls_a_whole_file_is_told_once(tmp_path):
    broken = [Check("test_a", "error", "SyntaxError: line 3", "bad import")]
    other = [Check("test_b", "error", "SyntaxError: line 9", "bad import")]
    result = one_result(
        busy_time=("error", *broken),
        idle_gaps=("error", *broken),
        utilization=("error", *other),
        launch_latency=("error", *broken, Check("test_c", "failed", "returned 3")),
    )
    write(tmp_path, result)
    for page in ("ada.html", "ada.md"):
        text = (tmp_path / "feedback" / page).read_text().replace("\\_", "_")
        assert text.count("SyntaxError: line 3") == 2, page  # the last one had more to say
        assert text.count("SyntaxError: line 9") == 1
        assert text.count("So there is no verdict on busy_time, idle_gaps.") == 1
        assert "lab hint ex_30.idle_gaps" not in text  # the file comes first
        first = text.split("What to do next")[1].split("Exercises")[0]
        assert first.index("ex_30_nsight_systems.py") < first.index("ex_30.launch_latency")
        assert "lab check ex_30" in first.split("ex_30.launch_latency")[0]


def test_a_class_page_tells_of_a_whole_file_once(tmp_path):
    broken = [Check("test_a", "error", "a.py cannot be imported: line 3", "bad import")]
    endless = [Check("test_a", "error", "a.py cannot be imported: no end", "time-out")]
    own = [Check("test_a", "failed", "returned 3")]
    names = ("busy_time", "idle_gaps")
    found = [
        one_result(student, **dict.fromkeys(names, (outcome, *checks)))
        for student, outcome, checks in (
            ("ada", "error", broken), ("ben", "error", broken), ("cleo", "error", endless),
            ("dan", "failed", own),
        )
    ]  # fmt: skip
    write(tmp_path, *found)
    for page in ("class.html", "class.md"):
        text = (tmp_path / page).read_text()
        assert text.count("cannot be imported: line #") == 1, page
        assert text.count("cannot be imported: no end") == 1
        assert text.count("returned #") == 2
    assert "2 × bad import" in Page((tmp_path / "class.html").read_text()).text


def test_of_many_checks_that_failed_a_few_are_shown_and_all_are_counted(tmp_path):
    many = [Check(f"test_{n}", "failed", f"returned {n}") for n in range(9)]
    secret = Check("test_s", "failed", "secret", hidden=True)
    checks = [*many, secret, Check("test_p", "passed")]
    write(tmp_path, one_result(busy_time=("failed", *checks)))
    text = Page((tmp_path / "feedback/ada.html").read_text()).text
    assert text.count("returned") == 3
    assert "Of its other checks 7 more did not pass and 1 passed." in text


def test_a_refused_submission_is_told_so(tmp_path):
    refused = one_result()
    refused.files = {
        str(EX_30.stubs[0]): "refused: larger than 1 MB",
        str(EX_30.stubs[1]): "missing",
    }
    one = Submission("ada", tmp_path, "", extra=("a.txt",), extra_count=1)
    write(tmp_path, refused, submissions=[one])
    text = Page((tmp_path / "feedback/ada.html").read_text()).text
    assert "larger than 1 MB" in text
    assert "Not handed in: week07/day1_nsight_systems/cuda/" in text and "a.txt" in text
    for page in ("class.html", "class.md"):
        look = (tmp_path / page).read_text().split("Needs a look")[1]
        assert "larger than 1 MB" in look.partition("To do: ask for it again")[0], page


def test_of_a_submission_that_could_not_be_taken_nothing_else_is_told(tmp_path):
    whole = [Check("the submission", "error", "zip bomb", "refused file")]
    everything = one_result(**{task.name: ("error", *whole) for task in EX_30.tasks})
    one = Submission("ada", tmp_path, "", error="zip bomb")
    write(tmp_path, everything, submissions=[one])
    pages = [(tmp_path / "feedback" / name).read_text() for name in ("ada.md", "ada.html")]
    for text in (*pages, (tmp_path / "gradescope/ada.json").read_text()):
        assert text.split('"tests"')[0].count("zip bomb") == 1 and "lab submit" in text
        assert "lab hint" not in text and "busy_time" not in text.split('"tests"')[0]
    for page in ("class.html", "class.md"):
        assert (
            "could not be accepted: zip bomb. To do: ask for it again"
            in (tmp_path / page).read_text()
        )


# -- what is hidden -----------------------------------------------------------------------------------


def test_nothing_of_a_hidden_check_gets_out(out):
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 100
    told = [path for path in files if drawn.SECRET in path.read_text(encoding="utf-8")]
    assert told == []
    pages = [path.read_text(encoding="utf-8") for path in out.glob("feedback/*.html")]
    assert any("A hidden check of this task failed." in page for page in pages)
    assert "a hidden check failed" in (out / "class.html").read_text(encoding="utf-8")


def test_the_cause_of_a_hidden_error_is_hidden_too(tmp_path):
    for hidden in (True, False):
        check = Check("test_busy", "error", "it said so", "crash", hidden=hidden)
        write(tmp_path, one_result(busy_time=("error", check)))
        for name in (
            "feedback/ada.html",
            "feedback/ada.md",
            "gradescope/ada.json",
            "junit/ada.xml",
        ):
            assert ("crash" in (tmp_path / name).read_text()) != hidden, name


def test_a_policy_withholds_messages(tmp_path):
    check = Check("test_busy", "failed", "the answer is 42")
    made = policy.loads("[hidden]\ntasks = ['ex_30.busy_time']", COURSE)
    write(tmp_path, one_result(busy_time=("failed", check)), policy=made)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name not in ("class.html", "class.md"):
            assert "the answer is 42" not in path.read_text(encoding="utf-8"), path
    write(tmp_path, one_result(busy_time=("failed", check)))
    assert "the answer is 42" in (tmp_path / "feedback/ada.html").read_text()


# -- what is not trusted ------------------------------------------------------------------------------


def test_pages_are_whole_and_hold_no_markup_of_a_submission(out):
    pages = [*out.glob("feedback/*.html"), out / "class.html"]
    for path in pages:
        page = Page(path.read_text(encoding="utf-8"))
        tags = {tag for tag, _ in page.tags}
        assert not tags & {"script", "img", "iframe", "object", "form", "base"}, path
        for tag, attributes in page.tags:
            assert not [name for name in attributes if name.startswith("on")], path
            target = attributes.get("href") or attributes.get("src") or "#"
            assert target.startswith(("#", "data:,")), (tag, target)
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids)), path
        named = {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a}
        links = {a["href"][1:] for t, a in page.tags if t == "a"}
        assert named | links <= set(ids), path
        assert [tag for tag, _ in page.tags].count("h1") == 1


def test_no_control_or_direction_character_gets_into_a_file(out):
    for path in out.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text), path


def test_markdown_keeps_untrusted_text_in_its_place(tmp_path):
    evil = "``` \n````\n# heading\n<script>alert(1)</script>"
    name = "<script>x</script> [a](javascript:b) `c` **d**"
    write(tmp_path, one_result(name, busy_time=("failed", Check("t`x", "failed", evil))))
    text = next((tmp_path / "feedback").glob("*.md")).read_text()
    fence = re.search(r"^(`{5,})text$", text, re.MULTILINE)
    assert fence and evil.split("\n")[2] in text.split(fence[1])[1]
    outside = "".join(text.split(fence[1])[::2])
    assert (
        "<script" not in outside
        and "# heading" not in outside
        and not re.search(r"(?<!\\)\]\(", outside)
    )


@pytest.mark.parametrize(
    "entry",
    ["../../etc/passwd", "a/b", "..", ".", "", "CON", "nul.txt", "-rf", "ada\n", "a\u202eb", "é" * 300,
     "\udcff", "a:b", 'a"b', " ada", "x" * 300],
)  # fmt: skip
def test_any_name_makes_a_safe_file(tmp_path, entry):
    write(tmp_path / "out", one_result(entry), one_result("ada"))
    made = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert len(list((tmp_path / "out/feedback").iterdir())) == 4
    assert all(tmp_path / "out" in path.resolve().parents for path in made)
    assert len({path for path in made if path.parent.parent.name == "returned"}) == 2 - (not entry)
    assert all(len(path.name.encode()) < 200 and path.name.isprintable() for path in made)
    assert not any(path.name.startswith((".", "-")) for path in made)


def test_names_that_a_file_system_may_mix_up_stay_apart():
    entries = ["Ada", "ada", "a b", "a_b", "grace"]
    names = reporting.file_names(entries)
    assert len({name.casefold() for name in names.values()}) == 5
    assert names["grace"] == "grace" and names["a_b"] == "a_b"
    # Who knows the rule cannot take another's name either.
    for _ in range(2):
        entries.append(names["a b"])
        names = reporting.file_names(entries)
        assert len({name.casefold() for name in names.values()}) == len(entries)


# -- the class ----------------------------------------------------------------------------------------


def test_the_class_page_counts(out):
    text = Page((out / "class.html").read_text(encoding="utf-8")).text
    assert "29 handed in, of 30 in the roster" in text
    look = text.split("Needs a look")[1].split("Distribution")[0]
    assert "ex_30: the sandbox did not start. To do: run the same command again" in look
    assert "Aiko Tanaka" not in text.split("No submission")[1]
    assert drawn.NAMES[drawn.ABSENT] in text.split("No submission")[1]
    alike = text.split("Alike")[1]
    assert "no verdict" in alike and "ex_30: busy_time" in alike
    assert (
        "Grace Hopper; Alan Turing" in alike
        and "equal but for names, 90 nodes; 2 of 29 who have it" in alike
    )


def test_wrong_answers_are_grouped_and_counted(tmp_path):
    say = "busy_time('decode_{}') returned {}, expected {} (ns), see /box/a/b.py:{}"
    found = [
        one_result(
            f"s{n}",
            busy_time=(
                "failed",
                *[Check(f"t{k}", "failed", say.format("x", n * k, 7, n)) for k in (1, 2)],
            ),
        )
        for n in range(4)
    ]
    found.append(one_result("t", busy_time=("failed", Check("t1", "failed", "other\nmore"))))
    write(tmp_path, *found)
    text = (tmp_path / "class.md").read_text()
    assert "- 4 × busy\\_time(…) returned #, expected # (ns), see PATH\n" in text
    assert "- 1 × other\n" in text


@pytest.mark.parametrize(
    ("message", "group"),
    [
        ("returned -1.5e-3, expected 12,345.6 ns", "returned #, expected # ns"),
        ("ex_30 on H200 gave 3", "ex_30 on H200 gave #"),
        ("[1, 2, 3] is not (1, 2), {0: 3.5}", "[#] is not (#), {#}"),
        (
            "f('x', [1]) says 3; expected 'a' (generated; LAB_SEED=3 repeats it)",
            "f(…) says #; expected 'a'",
        ),
        ("ended while idle('PATH/x', 3) ran", "ended while idle(…) ran"),
        ("\n\n  at 0x7f00ab in C:\\Users\\ada\\x.py", "at 0x# in PATH"),
        ("line /box/a.py:44: no", "line PATH: no"),
        ("", ""),
    ],
)
def test_messages_are_normalised(message, group):
    assert class_page.normalised(message) == group


def test_the_histogram_counts_everybody():
    from fractions import Fraction as F  # noqa: N817

    made = class_page.histogram([F(0), F(5), F(10), F(100), F(120)], F(100), str)
    assert made is not None
    assert [column["count"] for column in made["columns"]] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert class_page.histogram([], F(100), str) is None


# -- files --------------------------------------------------------------------------------------------


def test_the_same_results_give_the_same_bytes_in_any_order(tmp_path, out):
    given = drawn.whole(COURSE)
    given["results"] = given["results"][::-1]
    for result in given["results"]:
        result.seconds, result.attempts = 99.0, 3
    reporting.write_all(COURSE, out=tmp_path, **given)
    first, second = contents(out), contents(tmp_path)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_reports_of_students_who_are_gone_are_removed_and_nothing_else(tmp_path):
    write(tmp_path, one_result("ada"), one_result("grace"))
    (tmp_path / "feedback/notes.txt").write_text("mine")
    (tmp_path / "results.jsonl").write_text("")
    write(tmp_path, one_result("ada"))
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"ada.html", "ada.md", "ada.json", "ada.xml", "notes.txt", "results.jsonl"} < left
    assert not any(name.startswith("grace") for name in left)


def test_a_class_without_results_has_its_gradebook(tmp_path):
    written = reporting.write_all(COURSE, [], tmp_path, roster=drawn.people(3))
    assert {path.name for path in written.files} == {
        *("gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv"),
        *("class.html", "class.md"),
    }
    assert (tmp_path / "gradebook.csv").read_text().count("no submission") == 3


def test_the_paths_are_returned_and_no_draft_is_left(tmp_path):
    written = reporting.write_all(COURSE, [one_result()], tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == written.files


def test_every_task_has_something_to_read():
    guide = Guide(COURSE)
    without = [task.id for task in COURSE.tasks.values() if not guide.question(task)]
    assert without == []
    named = sum("“" in guide.lesson(task) for task in COURSE.tasks.values())
    assert named >= len(COURSE.tasks) - 5
