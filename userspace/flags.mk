# SPDX-License-Identifier: GPL-2.0
#
# Included by each makefile of programs. CPPFLAGS, CFLAGS, CXXFLAGS and LDFLAGS belong to
# the user, in the environment or as arguments. No makefile changes them, because make
# hands them down: the library would get the flags of the programs.
#
#   make WERROR=1 ...   a warning is an error. CI sets it, users see warnings only
#   make CROSS_COMPILE=aarch64-linux-gnu- ...  for another architecture, as the kernel has it;
#                       CC, CXX, AR and PKG_CONFIG can also be named one by one

# make has names of its own for these, which are for this machine; make -R has none.
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

# $(call remember,FLAGS): the recipe of a file with the flags that objects were built with.
# It changes only if they do. Objects that were built with -Werror serve without it, too.
define remember
@mkdir -p $(@D)
@grep -qxF -e '$1 -Werror' $(if $(werror),,-e '$1') $@ 2>/dev/null || \
	echo '$1$(werror:%= %)' >$@
endef
