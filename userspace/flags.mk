# SPDX-License-Identifier: GPL-2.0
#
# Each makefile of programs includes this file. The user sets CPPFLAGS, CFLAGS, CXXFLAGS and
# LDFLAGS, in the environment or as arguments. No makefile changes them, because make passes
# them on to the makes that it starts, and the library would get the flags of the programs.
#
#   make WERROR=1 ...   treats warnings as errors. CI sets this, but users should only see them
#   make CROSS_COMPILE=aarch64-linux-gnu- ...
#                       builds for another architecture, with the kernel's variable. You can also
#                       set CC, CXX, AR and PKG_CONFIG one by one

# make predefines the compilers of this machine, except with -R.
ifneq ($(CROSS_COMPILE),)
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(CROSS_COMPILE)gcc
endif
ifneq ($(filter default undefined,$(origin CXX)),)
CXX := $(CROSS_COMPILE)g++
endif
ifneq ($(filter default undefined,$(origin AR)),)
AR := $(CROSS_COMPILE)ar
endif
PKG_CONFIG ?= $(CROSS_COMPILE)pkg-config
endif
CC ?= cc
CXX ?= c++
AR ?= ar
RM ?= rm -f
PKG_CONFIG ?= pkg-config

CFLAGS ?= -O2 -g
CXXFLAGS ?= $(CFLAGS)

werror := $(if $(filter 1,$(WERROR)),-Werror)

# $(call remember,FLAGS): the recipe of a file that records the flags of the last build. The file
# changes only if the flags do. Objects that were built with -Werror are kept for a build without.
define remember
@mkdir -p $(@D)
@grep -qxF -e '$1 -Werror' $(if $(werror),,-e '$1') $@ 2>/dev/null || \
	echo '$1$(werror:%= %)' >$@
endef
