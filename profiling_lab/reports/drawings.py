"""Rooflines of a report's section."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from profiling_lab import roofline
from profiling_lab.reports.model import CaptureSection
from profiling_lab.roofline import Point, Roof


def draw(
    made: CaptureSection,
    roofs: list[Roof],
    points: Sequence[tuple[str, Point]],
    caption: str,
    number: int,
) -> None:
    """Add a roofline to a section, and from each subject a link to its point. points: (subject, point)."""
    which = hashlib.sha256(caption.encode()).hexdigest()[:4]
    ids = [f"point-{number}-{which}-{at}" for at in range(len(points))]
    drawing = roofline.svg(roofs, [point for _, point in points], ids=ids)
    made.drawings = [*made.drawings, (caption, drawing)]
    links = {subject: list(found) for subject, found in made.links.items()}
    for (subject, _), target in zip(points, ids, strict=True):
        links.setdefault(subject, []).append(("Point on the roofline", target))
    made.links = links
