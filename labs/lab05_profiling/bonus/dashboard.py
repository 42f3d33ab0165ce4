"""Lab 05, bonus 4: a dashboard. One page that opens anywhere and says where the time went.

Names of kernels come from whatever was profiled; on a page they are untrusted text.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path
from typing import Any

from profiling_lab import devices, roofline

# Of the bars, in pixels: width of the plot, height of a strip, and in it of the bar; from the top of the
# strip to the label's baseline and to the bar.
WIDTH, ROW, BAR, LABEL, BELOW = 480, 42, 16, 15, 20
NS_PER_S = 1e9


def dashboard(results: dict[str, Any], path: str | None = None) -> str:
    """The page as text; with a path it is also written there (UTF-8), over what was there.

    results: {"title": text, "device": a name of `profiling_lab.devices`, "dtype": a data type,
    "shapes": {name: value}, "components": [{"name", "time_ns", "flops", "bytes"}, …], "whole_ns": the
    time measured for all components together}.

    The page is one file that needs nothing else, no network and no script. It begins with
    <!doctype html>, <html> has a lang, and every element that is opened is closed:

    - a <title> and an <h1> that both name title, device and dtype; every shape with its value in the text;
    - <p class="longest"> names the component that took longest and its share of the sum of all, in
      percent with one decimal;
    - <table class="components">: a row in the body for each component, in the order given, with the
      cells name (a <th scope="row">), time in µs with one decimal, share of the sum of all
      components in percent with one decimal, operations per byte with one decimal. The foot has two
      rows: "sum" (the sum of the times, 100.0 %) and "whole" (whole_ns, its share of the sum);
    - <svg class="bars">: for each component, in the order given, a <rect class="bar"> that holds a
      <title> with the name; widths are proportional to the times, and nothing overlaps or
      leaves the viewBox (x, y, width and height are plain attributes in its units, no transforms).
      Nearer to each bar than to any other stands a <text> that begins with the name (a long one
      shortened, to 16 characters at least) and holds its time in µs with one decimal;
    - a second <svg>: the roofline of device and dtype (`roofline.svg`) with a point for each component
      that has operations, with its name (a long one shortened, to 16 characters at least); the
      <figcaption> says in digits how many components have none;
    - each <svg> has a viewBox and role="img", is in a <figure> with a <figcaption>, and the
      table says the same in numbers;
    - <meta charset="utf-8"> and a viewport of width=device-width, so that it can be read on a phone;
      colours for light and for dark surroundings (@media (prefers-color-scheme: dark)).

    Nothing refers to another place: no <script>, <link>, <img>, <iframe>, <base> or <form>, no src or
    href, no attribute on…, no @import or url(…). Every text of `results` is escaped, so whatever a name holds
    is shown as it is. The same results give the same page.

    Raises ValueError for no components, two of one name, a time (or whole_ns) that is no finite number
    above 0, flops that are no whole number of at least 0, or bytes of at least 1; DeviceError for an
    unknown device or data type; the message names what is wrong ("flops", say, and the component). Then
    nothing is written.
    """
    raise NotImplementedError
