#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/tool/check.sh [--promtool]: tests the parts of twheelctl and of twheel_metrics() that
# need no module: a made-up /proc, the metrics, and JSON as jq reads it. With --promtool,
# Prometheus checks the metrics, the alerts and the dashboard. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc jq make python3 uthash-dev
# Any warning is an error in these builds.
export WERROR=1
# A directory of its own, because other stages may be using the usual twheelctl.
out=$build/ctl
quietly make -s -C "$top/userspace" O="$out" ctl
promtool=
[ "${1-}" != --promtool ] || promtool=$("$top/ci/promtool.sh")
# The test mounts over /proc.
as_root env PROMTOOL="$promtool" PYTHONDONTWRITEBYTECODE=1 unshare -m \
	"$top/tests/tool/metrics_test.py" "$out"
