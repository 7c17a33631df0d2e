# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Sourced after python_env.sh: Debian's Python, with this tree's package and its tests, and the
# kernel wheel in user-mode Linux.

# in_machine NAME COMMAND...: runs the command in the machine, in tests/bindings.
in_machine() {
	local name=$1 python=usr/lib/python3.11 packages=usr/lib/python3/dist-packages
	local machine=$build/$1-vm files=(--exclude='*/__pycache__') keys=(/"$python"/test/*.pem)

	rm -rf "$machine"
	mkdir -p "$machine"/{bin,lib,lib64,files}
	cp -L /usr/bin/python3 "$machine/bin/python3.11"
	ldd /usr/bin/python3 "$out/libtwheel.so.0" /$python/lib-dynload/*.so \
		/$packages/_cffi_backend*.so | sed -nE 's/.*=> (\S+) .*/\1/p' | sort -u |
		xargs cp -Lt "$machine/lib"
	cp -L "$out/libtwheel.so.0" "$machine/lib"
	cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
	# run.sh expects executable files. Of the compiled Python files, those of the packages
	# are enough.
	tar -C / -chf "$machine/files/python.tar" --exclude='config-3.11-*' --exclude="$python/test" \
		--exclude=idlelib --exclude=lib2to3 --exclude=distutils --exclude=sitecustomize.py \
		$python "$packages"/{cffi,ply,pycparser,pytest,_pytest,pluggy,iniconfig,packaging,attr} \
		"$packages"/py "$packages"/{py,typing_extensions}.py \
		"$(cd / && echo $packages/_cffi_backend*.so)"
	[ ! -d /$python/test/test_asyncio ] ||
		tar -C / "${files[@]}" -rf "$machine/files/python.tar" \
			$python/test/{__init__.py,lock_tests.py,support,test_asyncio} "${keys[@]#/}"
	tar -C "$top" "${files[@]}" -rf "$machine/files/python.tar" --transform='s,^,src/,' \
		userspace/bindings/python bench/timers/python.py tests/bindings
	chmod -R +x "$machine"
	"$top/vm/run.sh" --raw --kernel uml --name "$name" --limit 400 --timeout 500 \
		--bin "$machine/bin" --bin "$machine/lib:/lib/x86_64-linux-gnu" \
		--bin "$machine/lib64:/lib64" --bin "$machine/files:/files" \
		--run "tar -C / -xf /files/python.tar && rm /files/python.tar && \
cd /src/tests/bindings && TWHEEL_BACKEND=kernel PYTHONHOME=/usr \
PYTHONPATH=/src/userspace/bindings/python PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1 ${*:2}"
}
