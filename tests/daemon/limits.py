# SPDX-License-Identifier: GPL-2.0
"""Limits that end what hangs, in seconds. No verdict depends on them, so they are long enough for
a host that runs fifty times as many processes as it has processors."""

# For one answer, one message, or one condition that is to come true.
HANG = 180
# For one test.
TEST = 1200
