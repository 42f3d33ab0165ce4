"""What is wrong with a drawn figure: data beyond the axes, words over words or beyond the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

FAR = 1e5  # pixels from the picture at which nothing is drawn
NEAR = 1.0  # pixels by which a shape may stand over the edge of its axes, words over each other


def faults(figure: Figure) -> list[str]:
    """What is cut off or unreadable in a figure, in words; drawn with the Agg backend at its own dpi."""
    figure.draw_without_rendering()
    return [*cut_data(figure), *overprinted_words(figure), *struck_words(figure)]


def cut_data(figure: Figure) -> Iterator[str]:
    """Points and bars beyond the limits of their axes. A line between two points may go on beyond them:
    it is a ruler, and is seen to go on.
    """
    for axes in figure.axes:
        box = axes.bbox.padded(NEAR)
        rulers = [line for line in axes.lines if np.size(line.get_xdata()) == 2]
        for artist in (*axes.lines, *axes.patches, *axes.collections):
            if artist in rulers or not (artist.get_visible() and artist.get_clip_on()):
                continue
            x, y = _points(artist).T
            outside = (x < box.x0) | (x > box.x1) | (y < box.y0) | (y > box.y1)
            if outside.any():
                first = axes.transData.inverted().transform((x[outside][0], y[outside][0]))
                where = axes.get_title("left") or axes.get_xlabel()
                what = f"{outside.sum()} of {len(x)} points of a {type(artist).__name__}"
                yield f"{where!r}: {what} are cut off, one at ({first[0]:.4g}, {first[1]:.4g})"


def overprinted_words(figure: Figure) -> Iterator[str]:
    """Words that stand over other words, or beyond the picture."""
    placed = [(text, _extent(text)) for text in _words(figure)]
    picture = figure.bbox.padded(NEAR)
    for text, box in placed:
        if not (picture.x0 <= box.x0 and box.x1 <= picture.x1) or not (
            picture.y0 <= box.y0 and box.y1 <= picture.y1
        ):
            yield f"{text.get_text()!r} stands beyond the picture's edge"
    for (one, box), (other, its) in combinations(placed, 2):
        if box.x0 < its.x1 and its.x0 < box.x1 and box.y0 < its.y1 and its.y0 < box.y1:
            yield f"{one.get_text()!r} and {other.get_text()!r} stand over each other"


def struck_words(figure: Figure) -> Iterator[str]:
    """Words that a line, an arrow or a marker runs through; a box of their own hides what lies below."""
    placed = [(text, _extent(text)) for text in _words(figure) if text.get_rotation() % 90 == 0]

    def over(artist: Artist) -> Iterator[tuple[str, Bbox]]:
        for text, box in placed:
            if text.get_bbox_patch() is None or artist.get_zorder() >= text.get_zorder():
                yield text.get_text(), box

    for axes in figure.axes:
        for line in axes.lines:
            path = line.get_transform().transform_path(line.get_path())
            marked = line.get_marker() not in ("None", "none", "", " ", None)
            drawn = line.get_linestyle() != "None" and np.shape(path.vertices)[0] > 1
            for words, box in over(line):
                seen = Bbox.intersection(box, axes.bbox) if line.get_clip_on() else box
                if drawn and seen is not None and path.intersects_bbox(seen, filled=False):
                    yield f"a line runs through {words!r}"
                elif marked and box.count_contains(path.vertices):
                    yield f"a marker stands on {words!r}"
        for lines in axes.collections:
            for path in lines.get_paths() if isinstance(lines, LineCollection) else ():
                for words, box in over(lines):
                    if lines.get_transform().transform_path(path).intersects_bbox(box, False):
                        yield f"a line runs through {words!r}"
    for note in figure.findobj(Annotation):
        if (arrow := note.arrow_patch) is not None:
            path = arrow.get_transform().transform_path(arrow.get_path())
            for words, box in over(note):
                if words != note.get_text() and path.intersects_bbox(box, filled=False):
                    yield f"an arrow runs through {words!r}"


def _points(artist: Artist) -> np.ndarray:
    """The corners of what an artist shows, (n, 2) in pixels; of a scatter, its points."""
    if isinstance(artist, PathCollection):
        points = artist.get_offset_transform().transform(artist.get_offsets())
    else:
        single = getattr(artist, "get_path", None)
        paths = artist.get_paths() if hasattr(artist, "get_paths") else [single()] if single else []
        found = [path.vertices for path in paths if len(path.vertices)]
        points = np.concatenate(found) if found else np.empty((0, 2))
        points = artist.get_transform().transform(points)
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    # A bar that begins at zero on a logarithmic axis begins nowhere: far below all pixels.
    return points[(np.abs(points) < FAR).all(axis=1)]


def _words(figure: Figure) -> list[Text]:
    """The texts that are seen: of tick labels those within the limits."""
    axes_of_figure = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    ticks = {
        label
        for axis in axes_of_figure
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
    }
    drawn = {
        label
        for axis in axes_of_figure
        if axis.axes.axison
        for tick in axis._update_ticks()  # pyrefly: ignore[missing-attribute] - what is drawn is told by nothing public
        for label in (tick.label1, tick.label2)
    }
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and (text not in ticks or text in drawn)
    ]


def _extent(text: Text) -> Bbox:
    """A text's box in pixels, less the room above and below that letters rarely use."""
    box = text.get_window_extent()
    size = float(text.get_fontsize()) * text.figure.dpi / 72
    return box.padded(-0.1 * size) if min(box.width, box.height) > 0.5 * size else box
