# SPDX-License-Identifier: GPL-2.0
#
# Included by each makefile of programs. CPPFLAGS, CFLAGS, CXXFLAGS and LDFLAGS belong to
# the user, in the environment or as arguments. No makefile changes them, because make
# hands them down: the library would get the flags of the programs.
#
#   make WERROR=1 ...   a warning is an error. CI sets it, users see warnings only

# make -R has none of these.
CC ?= cc
CXX ?= c++
AR ?= ar
RM ?= rm -f

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
