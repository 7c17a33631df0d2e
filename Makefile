# SPDX-License-Identifier: GPL-2.0
# The targets that you call. Kbuild lists what the kernel's build system compiles.

KDIR ?= /lib/modules/$(shell uname -r)/build
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)

ifneq ($(word 2,$(CURDIR)),)
$(error the kernel's makefiles take no space in a path: move the checkout out of "$(CURDIR)")
endif

# If CDPATH is set, cd prints the directory that it enters.
unexport CDPATH

# make -R does not define it.
RM ?= rm -f

# Do not report each directory that make enters or leaves.
MAKEFLAGS += --no-print-directory

# Without headers, this prints one error; the kernel's makefiles would print many.
kbuild = $(if $(wildcard $(KDIR)/Makefile),,$(error there are no kernel headers in \
	$(KDIR): install linux-headers-$(shell uname -r), or set KDIR to other headers; \
	make vm and make demo need no headers))$(MAKE) -C $(KDIR) M=$(CURDIR)

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

# make would treat a further word as a file that is up to date, and succeed.
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
	@echo '(the verdict PASS means that the kernel logged no problem and the module could be unloaded)'

twheeld:
	@vm/deps.sh daemon
	@$(MAKE) -s -C userspace/daemon
	@$(MAKE) -s -C userspace ctl
	@echo 'the daemon is build/user/twheeld, its command-line client build/user/twheelctl'

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

# This lists the files that the kernel's build system leaves here, because its own clean would
# need the headers of a kernel.
clean:
	$(RM) -r build
	$(RM) *.o *.ko *.mod *.mod.c .*.cmd .*.o .*.d kunit/*.o kunit/.*.cmd \
		Module.symvers modules.order

help:
	@echo 'make [KDIR=DIR]       build the programs, and the module for the running kernel'
	@echo 'make modules          build only the module, twheel.ko'
	@echo 'make userspace        build only the programs, into build/user'
	@echo 'make modules_install  install twheel.ko for its kernel; run depmod afterwards'
	@echo 'make install          install twheelctl, the library and their manual pages below'
	@echo '                      PREFIX, and twheeld with its unit and configuration if built'
	@echo 'make uninstall        remove what make install installed'
	@echo 'make load, unload     insmod and rmmod on this machine; PARAMS="max_timers=N ..."'
	@echo 'make dkms-install     register the module with DKMS, for the kernels of this machine'
	@echo 'make dkms-remove      remove it from DKMS'
	@echo 'make sign             sign twheel.ko with the key of DKMS, or with KEY= and CERT='
	@echo 'make vm               open a shell in a virtual machine with /dev/twheel, or run a'
	@echo '                      script there: SCRIPT=FILE, and fail if the script does'
	@echo 'make demo             run a server with 1,000 connections in a virtual machine'
	@echo 'make twheeld          build the daemon for delayed tasks, into build/user'
	@echo 'make demo-tasks       run 1,000 callbacks with two daemons, and kill one of them'
	@echo 'make check            test all parts: 3 minutes, the first time 6'
	@echo 'make check-ci         test all that CI does: 32 minutes, the first time 60'
	@echo 'make check-full       run the longer tests, too: TWHEEL_CHECK_MINUTES (default: 90)'
	@echo 'make NAME             run one stage of these checks:'
	@echo '$(stages)' | fold -s -w 64 | sed 's/^/                        /'
	@echo 'make bench            measure what timers cost, beside other libraries, and compare'
	@echo '                      with the targets; HERE=1 uses /dev/twheel of this machine'
	@echo 'make bench-full       the same with more numbers of timers and more repetitions'
	@echo 'make bench-tasks      measure twheeld beside BullMQ and a bare timerfd;'
	@echo '                      SMOKE=1 makes a short run, whose numbers do not count'
	@echo 'make hardware         test and measure the module on this machine, and write a file'
	@echo '                      for its developers; asks before it loads the module'
	@echo 'make upstream         write the kernel part as patches into build/upstream, for the'
	@echo '                      source KERNEL=DIR (default: the newest that Debian has)'
	@echo 'make clean            remove what all of these built, except for the kernels in'
	@echo '                      ~/.cache/twheel'

.PHONY: all modules modules_install userspace install uninstall load unload \
	dkms-install dkms-remove sign vm demo twheeld demo-tasks \
	bench bench-full bench-tasks hardware upstream clean help check check-rest check-ci check-full \
	$(stages)
