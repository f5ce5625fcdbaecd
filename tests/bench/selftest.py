#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What judges timings, on timings made up: ratios, medians, spreads, flags of growth."""
import os
import sys
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import growth
import tables


def row(peer, ms, number, **more):
    return {"mode": "infer", "model": "m", "batch": 1, "threads": 1, "peer": peer, "ms": ms, "round": number,
            "mb": 10, "first_ms": 5, **more}


class Tables(unittest.TestCase):
    rows = [row("hone", 2, 0), row("hone", 3, 1), row("hone", 2.5, 2),
            row("ort-c-1.30", 5, 0, mb=30, first_ms=50), row("ort-c-1.30", 5, 1, mb=30, first_ms=50),
            row("torch", 9, 0, layout="nchw"), row("torch", 6, 0, layout="nhwc"), row("torch-stock", 1, 0)]

    def case(self):
        c = tables.Case()
        for r in self.rows:
            c.add(r)
        return c

    def test_a_time_is_the_median_of_rounds_and_the_faster_layout_counts(self):
        self.assertEqual(self.case().median("hone"), 2.5)
        self.assertEqual(self.case().median("torch"), 6)
        self.assertEqual(self.case().spread("hone"), 0.5)

    def test_the_ratio_is_to_the_best_peer_that_counts(self):
        self.assertEqual(self.case().best(), "ort-c-1.30")  # torch-stock is faster, and only shown
        self.assertEqual(self.case().ratio("ort-c-1.30"), 2)

    def text(self, rows, **more):
        return tables.markdown({"machine": "a machine", "peers": True, "cases": rows, "limits": [], **more})

    def test_the_table_has_times_ratio_and_spread(self):
        text = self.text(self.rows)
        self.assertIn("| m | 1 | 1 | 2.50 | 5.00 | 6.00 | 1.00 | 2.00 | 50%, 0% |", text)
        self.assertIn("geometric mean of the ratios **2.00**, Hone ahead in 1 of 1 rows.", text)
        self.assertIn("| m | 1 | 10.0 | 30.0 (ort-c-1.30) | 3.0 | 5.00 | 50.0 (ort-c-1.30) | 10.0 |", text)

    def test_rows_that_are_behind_are_named(self):
        text = self.text([row("hone", 4, 0), row("torch", 2, 0)])
        self.assertIn("**0.50**", text)
        self.assertIn("Hone ahead in 0 of 1 rows; behind: m b1 (0.50).", text)

    def test_what_is_missing_is_said(self):
        text = self.text([row("hone", 4, 0), dict(row("torch", 0, 0), error="it broke")], peers=False)
        self.assertIn("only Hone was timed", text)
        self.assertIn("it broke", text)
        self.assertIn("| m | 1 | 1 | 4.00 | – |", text)
        self.assertIn("Other work ran", self.text(self.rows, load=3))


class Growth(unittest.TestCase):
    def flags(self, chart, times, flops=(1, 2, 4), plan=(1, 1, 1)):
        points = [{"ms": t, "flops": f, "plan_ms": p} for t, f, p in zip(times, flops, plan)]
        return growth.flags(chart, [1, 2, 4], {"inference": points})

    def test_time_may_grow_as_the_size_or_the_arithmetic_does(self):
        self.assertEqual(self.flags("batch", (1, 2, 4.5)), [])
        self.assertEqual(self.flags("length", (1, 4, 16), flops=(1, 4, 16)), [])
        self.assertEqual(len(self.flags("batch", (1, 2, 5))), 1)
        self.assertEqual(len(self.flags("length", (1, 4, 16))), 2)

    def test_planning_may_grow_as_the_size_does(self):
        self.assertEqual(self.flags("depth", (1, 2, 4), plan=(1, 2, 4)), [])
        self.assertEqual(len(self.flags("depth", (1, 2, 4), plan=(1, 4, 16))), 2)

    def test_more_threads_may_not_take_longer(self):
        self.assertEqual(self.flags("threads", (4, 2, 2)), [])
        self.assertEqual(len(self.flags("threads", (4, 2, 3))), 1)

    def test_the_picture_is_xml_with_a_line_for_each_series(self):
        points = [{"ms": t, "flops": 1, "plan_ms": 2 * t} for t in (0.5, 20, 300)]
        text = growth.picture("size", [1, 2, 4], {"inference": points, "training": points})
        lines = xml.dom.minidom.parseString(text).getElementsByTagName("polyline")
        self.assertEqual(len(lines), 5)  # two of each, and the one that grows as the size does


if __name__ == "__main__":
    unittest.main()
