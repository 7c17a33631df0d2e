#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/tool/check.sh [--promtool]: what of twheelctl and of twheel_metrics() needs no
# module: a /proc that is made up, metrics, JSON as jq reads it. With --promtool, Prometheus
# judges the metrics, the alerts and the dashboard. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc jq make python3 uthash-dev
# A warning is an error here.
export WERROR=1
# Only without twheelctl's other flags, which other stages may just use.
out=$build/ctl
quietly make -s -C "$top/userspace" O="$out" ctl
promtool=
[ "${1-}" != --promtool ] || promtool=$("$top/ci/promtool.sh")
# It mounts over /proc.
as_root env PROMTOOL="$promtool" PYTHONDONTWRITEBYTECODE=1 unshare -m \
	"$top/tests/tool/metrics_test.py" "$out"
