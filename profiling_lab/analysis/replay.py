"""A recorded order played again, with something changed: when would everything have ended?

A plain loop over the nodes: each starts when the latest of its links allows. Two links a node is what
most have; they stand in columns of their own, the rest beside them.
"""

from __future__ import annotations

from array import array

import numpy as np

from profiling_lab.analysis.order import NEVER, Order

# Nodes that are Python's numbers at one time: they take five times the space of an array's.
_BLOCK = 2**16


class Replay:
    """Plays an order; made once, played for each change."""

    def __init__(self, order: Order) -> None:
        self.order = order
        n = len(order)
        first = (
            np.flatnonzero(np.append(True, order.to[1:] != order.to[:-1]))
            if len(order.to)
            else None
        )
        self.one = np.full(n, n, dtype=np.int32)  # node n stands for "no link": it ended at 0
        self.two = np.full(n, n, dtype=np.int32)
        self.link_one = np.full(n, -1, dtype=np.int32)
        self.link_two = np.full(n, -1, dtype=np.int32)
        self.rest: dict[int, list[int]] = {}
        if first is not None:
            place = np.arange(len(order.to)) - np.repeat(
                first, np.diff(np.append(first, len(order.to)))
            )
            for number, (target, link) in enumerate(
                ((self.one, self.link_one), (self.two, self.link_two))
            ):
                rows = np.flatnonzero(place == number)
                target[order.to[rows]] = order.on[rows]
                link[order.to[rows]] = rows
            for row in np.flatnonzero(place > 1).tolist():
                self.rest.setdefault(int(order.to[row]), []).append(row)

    def ends(
        self,
        *,
        lead: np.ndarray | None = None,
        own: np.ndarray | None = None,
        lag: np.ndarray | None = None,
        delay: np.ndarray | None = None,
        no_earlier: np.ndarray | None = None,
    ) -> np.ndarray:
        """When each node would end, with other durations, lags (NEVER: a link is gone) or delays.

        no_earlier: nodes that start when they did, whatever else is faster.
        """
        order = self.order
        lead = order.lead if lead is None else lead
        own = order.own if own is None else own
        lag = order.lag if lag is None else lag
        delay = order.delay if delay is None else delay
        lags = np.append(lag, 0)
        out = array("q", bytes(8 * (len(order) + 1)))
        nodes = np.zeros(0, dtype=np.int64) if no_earlier is None else no_earlier
        least = dict(
            zip(
                nodes.tolist(),
                (order.start - lead - delay)[nodes].tolist(),
                strict=True,
            )
        )
        several = [*sorted(self.rest.keys() | least.keys()), -1]
        turn = 0
        for low in range(0, len(order), _BLOCK):
            rows = slice(low, low + _BLOCK)
            link_one, link_two = self.link_one[rows], self.link_two[rows]
            # Without a link a node starts when it did.
            recorded = order.start[rows] - order.lead[rows]
            columns = zip(
                self.one[rows].tolist(),
                np.where(link_one >= 0, lags[link_one], recorded).tolist(),
                self.two[rows].tolist(),
                np.where(link_two >= 0, lags[link_two], NEVER).tolist(),
                (lead[rows] + own[rows] + delay[rows]).tolist(),
                strict=True,
            )
            for place, (one, after_one, two, after_two, takes) in enumerate(columns, low):
                begin = out[one] + after_one
                other = out[two] + after_two
                if other > begin:
                    begin = other
                if place == several[turn]:
                    turn += 1
                    for link in self.rest.get(place, ()):
                        begin = max(begin, out[order.on[link]] + int(lag[link]))
                    begin = max(begin, least.get(place, NEVER))
                out[place] = begin + takes
        return np.frombuffer(out, dtype=np.int64)[:-1]
