# SPDX-License-Identifier: GPL-2.0
#
# The stages of make check and make check-full. `make NAME` runs one of them; its whole
# output is in build/logs/NAME.log. ci/stage.sh counts what it says.
#
# Some run before the others, one by one: there threads race on both processors of a
# machine, or times are judged. Beside others the host gives the machine turns of
# milliseconds, in which nothing meets. The others run on all processors, the longest
# first.
#
# What is done by the million is done by TWHEEL_CHECK_SHARE percent (10) of that in make
# check-full. Each stage prints what it had to do of that, and has done: the parts of lives,
# lives-uml and stress are a whole.

share = $(shell expr $1 '*' $(or $(TWHEEL_CHECK_SHARE),10) / 100)
# make check-full sets FULL, and so may who runs a stage alone.
full = $(if $(FULL),$1,$2)

# How long the threads of libtwheel race. Not exported: make check-full starts a make that
# has FULL, which would take it for the user's.
race_seconds := $(or $(TWHEEL_RACE_SECONDS),$(call full,60,4))

# $(call stage,NAME,COMMAND[,TARGETS]): so many it has to print.
stage = $(eval $(call stage_rule,$(strip $1),$2,$3))
define stage_rule
stages += $1
.PHONY: $1
$1: $(if $(filter build,$1)$(IN_CHECK),,build)
	@TWHEEL_RACE_SECONDS=$(race_seconds) TARGETS=$3 ci/stage.sh $1 $2
endef

$(call stage, build, ci/build.sh)

# Alone, in make check.
$(call stage, stress-6.12, ci/stress.sh 6.12 short --parallel --not storms \
	--fuzz $(call full,10,5) --pairs $(call full,4,2) --lives $(call full,4,2))
$(call stage, core-races, tests/core/fuzz.sh races $(call full,--armings 10000000),2)
alone := stress-6.12 core-races

# Beside each other alone: they wait for most of their time, which is judged.
$(call stage, daemon, tests/daemon/check.sh 20 daemon)
$(call stage, daemon-redis, tests/daemon/check.sh $(call full,60,20) chaos redis cluster ctl race)
$(call stage, daemon-scripts, tests/daemon/check.sh 20 unit scripts demo)
# User-mode Linux waits, too, and has four times the time of others.
$(call stage, uml, nice -n 5 ci/suite.sh uml 64)
# And what can wait for them: none of this judges times. The clock of vm-6.1 counts
# instructions.
$(call stage, lint, nice -n 19 ci/lint/lint.sh)
$(call stage, model, nice -n 19 tests/model/run.sh $(call full,--full))
$(call stage, builds, nice -n 19 tests/library/builds.sh)
$(call stage, packaging, nice -n 19 tests/package/test.sh)
$(call stage, debian, nice -n 19 tests/package/debian.sh)
$(call stage, abi, nice -n 19 tests/library/abi.sh)
$(call stage, gate, nice -n 19 tests/mutants/gate.sh)
$(call stage, kunit-6.12, nice -n 19 tests/core/kunit.sh --kasan 6.12)
$(call stage, kunit-6.1, nice -n 19 tests/core/kunit.sh 6.1)
$(call stage, vm-6.1, nice -n 19 ci/suite.sh 6.1 64)
$(call stage, python, nice -n 19 tests/bindings/python.sh)
$(call stage, adapters, nice -n 19 tests/bindings/loops.sh)
$(call stage, go, nice -n 19 tests/bindings/go.sh $(call full,amd64 386))
waiting := uml daemon-scripts daemon daemon-redis vm-6.1 packaging lint model builds abi debian \
	gate kunit-6.12 kunit-6.1 python adapters go

# Beside each other.
$(call stage, vm-6.12, ci/suite.sh 6.12)
$(call stage, lib, tests/library/check.sh)
$(call stage, threads, ci/suite.sh 6.12 threads)
$(call stage, races-6.12, ci/suite.sh 6.12 races,1)
$(call stage, fuzz, tests/core/fuzz.sh models \
	$(call full,--operations $(call share,100000000)),$(call full,4,2))
$(call stage, daemon-vm, tests/daemon/vm.sh)
$(call stage, ctl, tests/tool/check.sh)
$(call stage, completion, tests/tool/completion_test.sh)
$(call stage, core, $(MAKE) -s -C tests/core check)
$(call stage, coverage, ci/coverage.sh core,2)
together := $(filter-out build $(alone) $(waiting),$(stages))

check_stages := $(stages)

# And these in make check-full, of which the last can be done without most easily.
$(call stage, kcsan, ci/suite.sh kcsan races)
$(call stage, storms-exact, ci/stress.sh 6.12 short --only storms)
$(call stage, fuzz-uml, ci/stress.sh uml short --only fuzz --fuzz 60)
$(call stage, vm-newest, ci/suite.sh newest 64)
$(call stage, rt, ci/suite.sh 6.12-rt 64)
$(call stage, tracing, ci/tracing.sh)
$(call stage, bench-test, bench/timers/test.sh)
$(call stage, fail-nth, ci/suite.sh uml fail_nth)
$(call stage, vm-6.1-32, ci/suite.sh 6.1 32)
$(call stage, vm-6.12-32, ci/suite.sh 6.12 lib32)
$(call stage, stress, ci/stress.sh debug full --not pairs --parallel --fuzz $(call share,1200) \
	--lives $(call share,100) --soak $(call share,600) --part $(call share,100),41)
$(call stage, debian-vm, tests/package/debian.sh install)
$(call stage, ctl-prometheus, tests/tool/check.sh --promtool)
$(call stage, daemon-more, tests/daemon/check.sh 60 more)
$(call stage, daemon-fuzz, tests/daemon/unit/check.sh --fuzz 60)
$(call stage, calls, ci/stress.sh uml full --only fuzz --fuzz $(call share,20000) \
	--calls $(call share,20000000) --part 10000,1)
$(call stage, signals, ci/suite.sh uml signals)
$(call stage, lives-uml, ci/stress.sh uml full --only lives --lives $(call share,150) \
	--loads 9000 --part $(call share,2300),9)
$(call stage, debug, ci/suite.sh debug 64 --bin build/stress/fail_nth --run 'fail_nth -F load')
$(call stage, kcsan-64, ci/suite.sh kcsan 64)
$(call stage, rt-debug, ci/suite.sh rt-debug 64)
$(call stage, kmsan, ci/suite.sh kmsan 64)
$(call stage, module, ci/coverage.sh module,2)
$(call stage, soak, ci/stress.sh 6.12 full --only soak --parallel --part 10000,2)
$(call stage, lives, ci/stress.sh 6.12 full --only lives --lives $(call share,400) \
	--loads 1400 --parallel --part $(call share,7600),9)
$(call stage, gate-tests, tests/mutants/gate.sh tests)
$(call stage, power, ci/power.sh)
$(call stage, detectors-debug, tests/mutants/gate.sh detectors debug)
$(call stage, detectors-kcsan, tests/mutants/gate.sh detectors kcsan)
$(call stage, detectors-rt-debug, tests/mutants/gate.sh detectors rt-debug)
$(call stage, s390x, ci/suite.sh s390x-6.1 64)
$(call stage, arm64, ci/suite.sh arm64-6.12 64)
$(call stage, detectors-kmsan, tests/mutants/gate.sh detectors kmsan)
$(call stage, debug-32, ci/suite.sh debug 32 --bin build/stress32/fail_nth:/bin32 \
	--run '/bin32/fail_nth -F load')
$(call stage, rt-6.1, ci/suite.sh 6.1-rt 64)
$(call stage, races32, ci/suite.sh 6.12 races32)
$(call stage, canary, ci/suite.sh 6.12 64 --variant canary)
full_together := $(filter-out $(check_stages),$(stages))

$(call stage, storms, ci/stress.sh 6.12 full --only storms --parallel --part 10000,1)
$(call stage, pairs, ci/stress.sh 6.12 full --only pairs --pairs $(call share,600) \
	--loops $(call share,1000000) --parallel --part 10000,30)
$(call stage, pairs-debug, ci/stress.sh debug full --only pairs --pairs $(call share,200) \
	--loops $(call share,1000000) --parallel)
$(call stage, exact, ci/exact.sh)
$(call stage, gate-core, tests/mutants/gate.sh core)
$(call stage, stress-32, ci/stress.sh 6.12 short --32 --parallel)
$(call stage, stress-6.1, ci/stress.sh 6.1 short --parallel --fuzz 10)
$(call stage, stress-rt, ci/stress.sh 6.12-rt short --parallel --fuzz 10)
$(call stage, kcsan-pairs, ci/stress.sh kcsan short --only pairs --parallel)
$(call stage, debug-races, ci/suite.sh debug races,1)
$(call stage, rt-races, ci/suite.sh 6.12-rt races,1)
$(call stage, rt-debug-races, ci/suite.sh rt-debug races,1)
$(call stage, s390x-races, ci/suite.sh s390x-6.1 races)
$(call stage, arm64-races, ci/suite.sh arm64-6.12 races)
$(call stage, races-6.1, ci/suite.sh 6.1 races)
$(call stage, newest-races, ci/suite.sh newest races)
full_alone := $(filter-out $(check_stages) $(full_together),$(stages))

# $(call run,STAGES,JOBS). What fails is counted, and the others go on.
run = @$(MAKE) -j$2 IN_CHECK=1 $1

check:
	@ci/check.sh begin short $(check_stages)
	$(call run,build,1)
	$(call run,$(alone),1)
	$(call run,$(waiting),7)
	$(call run,$(together),$(shell nproc))
	@ci/check.sh end

check-full:
	@ci/check.sh begin full $(stages)
	$(call run,build FULL=1,1)
	$(call run,$(alone) $(full_alone) FULL=1,1)
	$(call run,$(waiting) FULL=1,7)
	$(call run,$(together) $(full_together) FULL=1,$(shell nproc))
	@ci/check.sh end

.PHONY: check check-full
