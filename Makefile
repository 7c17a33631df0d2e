# SPDX-License-Identifier: GPL-2.0
# What a person types. What the kernel builds is in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)

# One line, where the kernel's makefiles would print many.
kbuild = $(if $(wildcard $(KDIR)/Makefile),,$(error no kernel headers in \
	$(KDIR): install them, or say KDIR=))$(MAKE) -C $(KDIR) M=$(CURDIR)

all: userspace modules

modules:
	+$(kbuild) modules

modules_install: modules
	+$(kbuild) modules_install

userspace:
	$(MAKE) -C userspace

load: modules
	$(SUDO) insmod twheel.ko

unload:
	$(SUDO) rmmod twheel

vm:
	vm/deps.sh
	$(MAKE) -s userspace
	vm/run.sh --name shell --bin build/user --shell

demo:
	vm/deps.sh
	$(MAKE) -s userspace
	vm/run.sh --name demo --bin build/user/idle_server -- idle_server --demo

check:
	@vm/check.sh

lint:
	@vm/deps.sh check
	@vm/lint.sh

kunit:
	kunit/run.sh 6.12
	kunit/run.sh 6.1

coverage:
	kunit/coverage.sh

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
	@echo 'make modules_install  twheel.ko to where modprobe finds it'
	@echo 'make load, unload     insmod, rmmod, on this machine'
	@echo 'make vm               a shell in a virtual machine with /dev/twheel'
	@echo 'make demo             a server with 1,000 connections in one'
	@echo 'make check            all tests, each in its kernels'
	@echo 'make lint             the static ones alone'
	@echo 'make kunit            the suites of the wheel, in user-mode Linux'
	@echo 'make coverage         what of the wheel they reach'
	@echo 'make clean            removes what all of these built'

.PHONY: all modules modules_install userspace load unload vm demo check lint \
	kunit coverage clean help
