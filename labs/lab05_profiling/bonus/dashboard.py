"""Lab 05, bonus 4: a dashboard. It is one page that opens anywhere and says where the time went.

Names of kernels come from the profiled program, so on a page they are untrusted text.

On the page, times are in µs, and shares are shares of the components' sum in percent. Both have one decimal, and
so have operations per byte. A *label* begins with a component's name. A long name may be shortened, but to no fewer than
16 characters.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path
from typing import Any

from profiling_lab import devices, roofline

# The bars, in pixels: width of the plot, height of a strip and of the bar in it, and the distances from
# the top of the strip to the label's baseline and to the bar.
WIDTH, ROW, BAR, LABEL, BELOW = 480, 42, 16, 15, 20
NS_PER_S = 1e9


def dashboard(results: dict[str, Any], path: str | None = None) -> str:
    """The page as text. If a path is given, the page also replaces the content of that file (UTF-8).

    results: {"title": text, "device": a name of `profiling_lab.devices`, "dtype": a data type,
    "shapes": {name: value}, "components": [{"name", "time_ns", "flops", "bytes"}, …], "whole_ns": the
    time measured for all components together}.

    The page is one file. It begins with <!doctype html>, <html> has a lang, and every element that is opened is
    closed. It has, with components always in the order given:

    - a <title> and an <h1> that both name title, device and dtype; and every shape with its value in the text;
    - <p class="longest">: the component that took longest, and its share;
    - <table class="components">: in the body, a row for each component with the cells name (a
      <th scope="row">), time, share, and operations per byte. The foot has two
      rows: "sum" (the sum of the times, 100.0 %) and "whole" (whole_ns, its share);
    - <svg class="bars">: for each component, a <rect class="bar"> that contains a <title> with the name.
      Widths are proportional to the times. Nothing overlaps or leaves the viewBox; x, y, width and height are
      plain attributes in its units, without transforms. Each bar has a <text> that is closer to it than to any
      other bar: a label with the time;
    - a second <svg>: the roofline of device and dtype (`roofline.svg`) with a point and a label for each component
      that has operations; the <figcaption> says in digits how many components have none;
    - for each <svg> a viewBox and role="img"; it is in a <figure> with a <figcaption>, and the
      table says the same in numbers;
    - <meta charset="utf-8"> and, for phones, a viewport of width=device-width;
    - colours for light and for dark schemes (@media (prefers-color-scheme: dark)).

    The page loads nothing from elsewhere. It has no <script>, <link>, <img>, <iframe>, <base> or <form>, no src or
    href, no attribute on…, no @import or url(…). Every text of `results` is escaped, so every name is
    shown as it is. The same results give the same page.

    Raises, before anything is written, an error whose message names what is wrong (for example "flops" and the component):
    - ValueError if there are no components, or two of one name;
    - ValueError if a time (or whole_ns) is not a finite number above 0;
    - ValueError if flops is not an integer of at least 0, or bytes not an integer of at least 1;
    - DeviceError for an unknown device or data type.
    """
    raise NotImplementedError
