#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/java.sh: what Netty's HashedWheelTimer does, as JUnit tests of that and of
# TwheelTimer, over the wheel in the process. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

# A warning is an error here.
export WERROR=1

need default-jdk-headless gcc junit4 libc6-dev libhamcrest-java libnetty-java make uthash-dev
out=$build/java
java=/usr/share/java
export JAVA_HOME=/usr/lib/jvm/default-java TWHEEL_BACKEND=inprocess
classes=$out/tests:$out/twheel-netty.jar:$java/netty-common.jar:$java/junit4.jar:$java/hamcrest.jar

make -s -C "$top/userspace/bindings/java" O="$out"
rm -rf "$out/tests"
mkdir -p "$out/tests"
"$JAVA_HOME/bin/javac" -Xlint:all -Werror -cp "$classes" -d "$out/tests" \
	"$top"/tests/bindings/java/*.java
# The JVM checks each call of JNI.
timeout 300 "$JAVA_HOME/bin/java" -Xcheck:jni -Djava.library.path="$out" -cp "$classes" \
	Tap TimerTest
