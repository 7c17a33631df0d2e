# SPDX-License-Identifier: GPL-2.0
# What a person types. What the kernel builds is in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)

ifneq ($(word 2,$(CURDIR)),)
$(error the kernel's makefiles take no space in a path: move the checkout out of "$(CURDIR)")
endif

# With it, cd prints a directory.
unexport CDPATH

# make -R has none.
RM ?= rm -f

# Where make is, is of no interest.
MAKEFLAGS += --no-print-directory

# One line, where the kernel's makefiles would print many.
kbuild = $(if $(wildcard $(KDIR)/Makefile),,$(error no kernel headers in \
	$(KDIR): install linux-headers-$(shell uname -r), or say KDIR=; \
	make vm and make demo need none))$(MAKE) -C $(KDIR) M=$(CURDIR)

programs = $(MAKE) -s -C userspace

all: userspace modules

modules:
	+@$(kbuild) modules

modules_install: modules
	+@$(kbuild) modules_install

userspace:
	@$(programs)
	@echo 'the programs are in build/user'

install uninstall:
	@$(MAKE) -s -C userspace $@

load: modules
	$(SUDO) insmod twheel.ko $(PARAMS)

unload:
	$(SUDO) rmmod twheel

dkms-install:
	$(SUDO) packaging/dkms.sh install

dkms-remove:
	$(SUDO) packaging/dkms.sh remove

sign: modules
	$(SUDO) KDIR="$(KDIR)" KEY="$(KEY)" CERT="$(CERT)" packaging/dkms.sh sign twheel.ko

# make would take a further word for a file that is up to date, and pass.
ifneq ($(filter vm,$(MAKECMDGOALS)),)
ifneq ($(filter-out vm,$(MAKECMDGOALS)),)
$(error make vm takes no further word: "$(filter-out vm,$(MAKECMDGOALS))". \
	To run a script in the VM: make vm SCRIPT=FILE)
endif
endif

vm:
	$(if $(SCRIPT),$(if $(shell [ -r '$(SCRIPT)' ] && [ ! -d '$(SCRIPT)' ] && echo yes),,\
		$(error make vm: no file "$(SCRIPT)")))
	@vm/deps.sh
	@$(programs)
	@vm/run.sh --name shell --bin build/user --shell $(if $(SCRIPT),<'$(SCRIPT)')

demo:
	@vm/deps.sh
	@$(programs) ../build/user/idle_server
	@vm/run.sh --name demo --bin build/user/idle_server $(if $(filter kvm,$(VM_ACCEL)),,--exact) -- \
		idle_server --demo $(if $(filter kvm,$(VM_ACCEL)),,--emulated)
	@echo '(twheel-vm is the machine: the kernel had no complaint, the module could be unloaded)'

twheeld:
	@vm/deps.sh daemon
	@$(MAKE) -s -C userspace/daemon
	@$(MAKE) -s -C userspace ctl
	@echo 'the daemon is build/user/twheeld, and build/user/twheelctl asks it'

demo-tasks:
	@vm/deps.sh daemon
	@$(MAKE) -s -C userspace/daemon
	@tests/daemon/demo.sh build/user/twheeld

bench:
	@vm/deps.sh bench
	@bench/timers/run.sh $(if $(HERE),--here)

bench-full:
	@vm/deps.sh bench
	@bench/timers/run.sh --full $(if $(HERE),--here)

bench-tasks:
	@vm/deps.sh bench-tasks
	@bench/daemon/run.sh $(if $(SMOKE),--smoke)

hardware:
	@ci/hardware.sh

upstream:
	@kernel='$(KERNEL)' && [ -n "$$kernel" ] || kernel=$$(packaging/upstream/source.sh) && \
		packaging/upstream/series.py "$$kernel" build/upstream
	@ls build/upstream/*.patch

stages := $(shell sed -n 's/^\([a-z][^ ]*\) .*/\1/p' ci/stages)

check check-rest check-ci check-full $(stages):
	@vm/deps.sh $(if $(tiers_$@),check,check-ci)
	@ci/check.pl $(or $(tiers_$@),$@)

tiers_check := check
tiers_check-rest := ci
tiers_check-ci := check ci
tiers_check-full := check ci full

# The droppings of the kernel's build are listed here, so that it takes no
# kernel to be rid of them.
clean:
	$(RM) -r build
	$(RM) *.o *.ko *.mod *.mod.c .*.cmd .*.o .*.d kunit/*.o kunit/.*.cmd \
		Module.symvers modules.order

help:
	@echo 'make [KDIR=DIR]       module and programs, the module for the running kernel'
	@echo 'make modules          twheel.ko alone'
	@echo 'make userspace        the programs alone, into build/user'
	@echo 'make modules_install  twheel.ko into the tree of its kernel; then run depmod'
	@echo 'make install          twheelctl, the library and their manual pages into PREFIX;'
	@echo '                      twheeld with its unit and configuration, where it was built'
	@echo 'make uninstall        and out of it'
	@echo 'make load, unload     insmod, rmmod, on this machine; PARAMS="max_timers=N ..."'
	@echo 'make dkms-install, dkms-remove  the module by DKMS, for the kernels of this machine'
	@echo 'make sign             twheel.ko signed with the key of DKMS, or KEY= and CERT='
	@echo 'make vm               a shell in a virtual machine with /dev/twheel; or a script,'
	@echo '                      SCRIPT=FILE, whose exit status counts'
	@echo 'make demo             a server with 1,000 connections in one'
	@echo 'make twheeld          the daemon for delayed tasks, into build/user'
	@echo 'make demo-tasks       1,000 callbacks by two daemons, one of which is killed'
	@echo 'make check            the tests of all parts: 4 minutes, the first time 10'
	@echo 'make check-ci         and what CI runs beside them: 32 minutes, the first time 45'
	@echo 'make check-full       and those that take longer, in TWHEEL_CHECK_MINUTES (90)'
	@echo 'make NAME             a stage of these alone: '
	@echo '$(stages)' | fold -s -w 64 | sed 's/^/                        /'
	@echo 'make bench            what timers cost, of many kinds, and what must be reached;'
	@echo '                      HERE=1 with the /dev/twheel of this machine'
	@echo 'make bench-full       with all numbers of timers'
	@echo 'make bench-tasks      the numbers of twheeld, beside BullMQ and a bare timerfd;'
	@echo '                      SMOKE=1 for a short run, whose numbers do not count'
	@echo 'make hardware         tests and measures the module on this machine, into a file for'
	@echo '                      those who develop it; asks before it loads the module'
	@echo 'make upstream         the kernel part as patches for the list, into build/upstream;'
	@echo '                      KERNEL=DIR for that source, otherwise for the newest of Debian'
	@echo 'make clean            removes what all of these built, but for the kernels that'
	@echo '                      were fetched or built: those are kept in ~/.cache/twheel'

.PHONY: all modules modules_install userspace install uninstall load unload \
	dkms-install dkms-remove sign vm demo twheeld demo-tasks \
	bench bench-full bench-tasks hardware upstream clean help check check-rest check-ci check-full \
	$(stages)
