#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/java.sh: JUnit tests of the behavior of Netty's HashedWheelTimer, which run
# with that and with TwheelTimer, with the in-process wheel and with the kernel wheel in
# user-mode Linux. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

need default-jdk-headless gcc junit4 libc6-dev libhamcrest-java libnetty-java make uthash-dev
out=$build/java
java=/usr/share/java
machine=$out/machine
export JAVA_HOME=/usr/lib/jvm/default-java
jars=("$out/twheel-netty.jar" "$java"/{netty-common,junit4,hamcrest}.jar)

# class_path JAR...: prints the option for these archives.
class_path() {
	local IFS=:

	echo "$*"
}

make -s -C "$top/userspace/bindings/java" O="$out"
# The jar contains the texts of its licenses.
rm -rf "$out/unpacked"
mkdir "$out/unpacked"
(cd "$out/unpacked" && "$JAVA_HOME/bin/jar" --extract --file "$out/twheel-netty.jar" META-INF/LICENSES)
for license in LGPL-2.1-or-later.txt MIT.txt; do
	cmp "$out/unpacked/META-INF/LICENSES/$license" "$top/LICENSES/$license"
done
rm -rf "$out/tests" "$machine"
mkdir -p "$out/tests" "$machine"/{lib,lib64,app}
"$JAVA_HOME/bin/javac" -Xlint:all -Werror -cp "$(class_path "${jars[@]}")" -d "$out/tests" \
	"$top"/tests/bindings/java/*.java
"$JAVA_HOME/bin/jar" --create --file "$out/tests.jar" -C "$out/tests" .
jars+=("$out/tests.jar")

# The JVM checks each JNI call.
status=0
echo "# run: TimerTest, in the process"
LD_LIBRARY_PATH=$out TWHEEL_BACKEND=inprocess timeout 300 "$JAVA_HOME/bin/java" -Xcheck:jni \
	-cp "$(class_path "${jars[@]}")" Tap TimerTest 2>&1 || status=$?
echo "# exit: $status"

# Classes that only newer versions of Netty have, unlike Debian's.
newer=$out/newer
rm -rf "$newer"
mkdir -p "$newer"
"$JAVA_HOME/bin/javac" -Xlint:all -Werror -cp "$(class_path "${jars[@]}")" -d "$newer" \
	"$top"/tests/bindings/java/newer/*.java "$top"/tests/bindings/java/newer/io/netty/util/*.java
echo "# run: CancelledTest, in the process"
newer_status=0
LD_LIBRARY_PATH=$out TWHEEL_BACKEND=inprocess timeout 300 "$JAVA_HOME/bin/java" -Xcheck:jni \
	-cp "$(class_path "$newer" "${jars[@]}")" Tap CancelledTest 2>&1 || newer_status=$?
echo "# exit: $newer_status"
status=$((status | newer_status))

# The machine gets executable files, one directory at a time.
"$JAVA_HOME/bin/jlink" --add-modules java.base,java.logging,java.management,jdk.unsupported \
	--strip-debug --no-header-files --no-man-pages --output "$machine/jre"
cp -L "${jars[@]}" "$out/libtwheel-jni.so" "$machine/app"
find "$machine" \( -name java -o -name '*.so' \) -exec ldd {} + |
	sed -nE 's|.*=> (/lib\S+) .*|\1|p' | sort -u | xargs cp -Lt "$machine/lib"
cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
chmod -R +x "$machine"
bins=()
while read -r part; do
	bins+=(--bin "$machine/jre/$part:/jre/$part")
done < <(cd "$machine/jre" && find bin lib conf -type d)
jars=("${jars[@]##*/}")
"$top/vm/run.sh" --raw --kernel uml --name java --limit 300 --timeout 400 \
	"${bins[@]}" --bin "$machine/app:/app" \
	--bin "$machine/lib:/lib/x86_64-linux-gnu" --bin "$machine/lib64:/lib64" \
	--run "LD_LIBRARY_PATH=/app TWHEEL_BACKEND=kernel /jre/bin/java -Xcheck:jni -cp $(
		class_path "${jars[@]/#//app/}") Tap TimerTest" || status=1
exit $status
