#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheelctl with a made-up /proc, and the metrics of wheels.

  [PROMTOOL=FILE] unshare -m metrics_test.py DIRECTORY    where twheelctl was built

The /proc shows what no real module can on demand: an older version, strange names, many wheels.
"""
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import traceback

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PACKAGING = os.path.join(TOP, "packaging")
PROMTOOL = os.environ.get("PROMTOOL")
OUT = os.path.abspath(sys.argv[1])
CTL = os.path.join(OUT, "twheelctl")
LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')

OLD = """pos:\t0
flags:\t02104002
twheel-clock:\t1
twheel-tick-ns:\t524288
twheel-max:\t1048576
twheel-timers:\t70
twheel-armed:\t5
twheel-unread:\t1
twheel-expired:\t1000
twheel-next:\tnever
"""
NEW = OLD + """twheel-id:\t{id}
twheel-moved:\t12
twheel-late-max-ns:\t1469416
twheel-late-sum-ns:\t310724264
twheel-lateness:\t0=3 13=9 20=22 63=1
"""

PROGRAM = r"""
#include <libtwheel.h>

int main(void)
{
	struct twheel *w;
	struct twheel_event event;
	uint64_t id;

	if (twheel_open(&w, NULL) || twheel_add(w, twheel_after(w, 10000000), 0, &id) ||
	    twheel_wait(w, -1) != 1 || twheel_read(w, &event, 1) != 1 ||
	    twheel_add(w, twheel_after(w, 3600000000000), 0, &id))
		return 1;
	return !!twheel_metrics(w, "loop=\"1\",role=\"peer\"", stdout);
}
"""

tests = []


def test(name):
    def enter(f):
        tests.append((name, f))
        return f
    return enter


def equal(have, want, what=""):
    assert have == want, f"{what}: {have!r}, not {want!r}"


def make_proc(processes):
    """Mount a /proc with these processes: pid to (comm, {fd: fdinfo})."""
    subprocess.run(["mount", "-t", "tmpfs", "made-up", "/proc"], check=True)
    os.mkdir("/proc/self")
    for pid, (comm, fds) in processes.items():
        for name in ("fd", "fdinfo"):
            os.makedirs(f"/proc/{pid}/{name}")
        with open(f"/proc/{pid}/comm", "wb") as f:
            f.write(comm + b"\n")
        for fd, text in fds.items():
            os.symlink("/dev/twheel", f"/proc/{pid}/fd/{fd}")
            with open(f"/proc/{pid}/fdinfo/{fd}", "w", encoding="ascii") as f:
                f.write(text)


def leave_proc():
    subprocess.run(["umount", "/proc"], check=True)


def ctl(*words, status=0, env=None):
    """Return: the output of twheelctl."""
    p = subprocess.run([CTL, *words], capture_output=True, timeout=60, check=False, env=env)
    equal(p.returncode, status, p.stderr)
    return p.stdout.decode()


def over(processes, *words, status=0):
    make_proc(processes)
    try:
        return ctl(*words, status=status)
    finally:
        leave_proc()


def promtool(*words, text=None):
    p = subprocess.run([PROMTOOL, *words], input=text, capture_output=True, text=True,
                       timeout=60, check=False)
    assert p.returncode == 0 and not p.stderr, p.stdout + p.stderr
    return p.stdout


def check(text):
    """Check a page by the rules of its format. Return: the value of each series."""
    values, done, family = {}, set(), None
    lines = text.splitlines()
    assert text.endswith("\n") and lines
    for n, line in enumerate(lines):
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in done, f"{family} twice"
            done.add(family)
            kind = lines[n + 1].split()
            equal(kind[:3], ["#", "TYPE", family])
            continue
        if line.startswith("# TYPE "):
            continue
        m = LINE.fullmatch(line)
        assert m, line
        suffix = "_bucket|_sum|_count" if kind[3] == "histogram" else ""
        assert re.fullmatch(family + f"({suffix})", m[1]), f"{m[1]} below {family}"
        assert kind[3] != "counter" or family.endswith("_total"), family
        series = line.rsplit(" ", 1)[0]
        assert series not in values, f"{series} twice"
        values[series] = float(m[3])
    for series, count in values.items():
        if "_count{" not in series:
            continue
        bucket = series.replace("_count{", "_bucket{")[:-1] + ',le="'
        row = [v for s, v in values.items() if s.startswith(bucket)]
        equal(row, sorted(row), series)
        equal(row[-1], count, series)
        assert bucket + '+Inf"}' in values, series
    if PROMTOOL:
        promtool("check", "metrics", text=text)
    return values


@test("two descriptors of one wheel count as one wheel, but as two with an older module")
def merged():
    made = {7: (b"a", {3: NEW.format(id=9), 4: NEW.format(id=9)}), 12: (b"b", {3: NEW.format(id=9)}),
            100: (b"old", {3: OLD, 5: OLD})}
    rows = [json.loads(line) for line in over(made, "ps", "--json").splitlines()]
    equal([[(h["pid"], h["fd"]) for h in r["holders"]] for r in rows],
          [[(7, 3), (7, 4), (12, 3)], [(100, 3)], [(100, 5)]])
    equal([r.get("wheel") for r in rows], [9, None, None])
    table = over(made, "ps").splitlines()
    equal(len(table), 4)
    assert table[1].split()[:2] == ["0000009", "7:3+2"], table[1]


@test("fields that an older module does not report are absent")
def older():
    made = {100: (b"old", {3: OLD})}
    row = json.loads(over(made, "ps", "--json"))
    equal(sorted(set(row) & {"wheel", "moved", "worst_lateness_ns"}), [])
    equal((row["armed"], row["expired"], row["next_in_ns"]), (5, 1000, None))
    line = over(made, "ps").splitlines()[1].split()
    equal(line, ["-", "100:3", "old", "5", "1", "1000", "-", "never"])
    values = check(over(made, "ps", "--openmetrics"))
    assert 'twheel_expired_total{backend="kernel",pid="100",comm="old",fd="3"}' in values
    equal([s for s in values if "lateness" in s or "moved" in s], [])
    over(made, "hist", status=1)


@test("fdinfo of the current module, as metrics and as a histogram")
def newer():
    made = {100: (b"new", {3: NEW.format(id=1)}), 101: (b"new", {3: NEW.format(id=2)})}
    values = check(over(made, "ps", "--openmetrics"))
    labels = 'backend="kernel",pid="101",comm="new",id="2"'
    for name, value in ((f"twheel_timers{{{labels},state=\"idle\"}}", 64),
                        (f"twheel_moved_total{{{labels}}}", 12),
                        (f"twheel_next_seconds{{{labels}}}", float("inf")),
                        (f"twheel_lateness_max_seconds{{{labels}}}", 0.001469416),
                        (f"twheel_lateness_seconds_sum{{{labels}}}", 0.310724264),
                        (f"twheel_lateness_seconds_count{{{labels}}}", 35),
                        (f'twheel_lateness_seconds_bucket{{{labels},le="0.000008192"}}', 3),
                        (f'twheel_lateness_seconds_bucket{{{labels},le="0.000016384"}}', 12),
                        (f'twheel_lateness_seconds_bucket{{{labels},le="17.179869184"}}', 34)):
        equal(values[name], value, name)
    buckets = json.loads(over(made, "hist", "--json"))["buckets"]
    equal({int(b["from_ns"]): b["count"] for b in buckets if b["count"]},
          {0: 6, 1 << 13: 18, 1 << 20: 44, 1 << 63: 2})


@test("a process name of arbitrary bytes harms neither a terminal, nor JSON, nor metrics")
def names():
    made = {100: (b'a"b\\c\x1b[2J\xff', {3: NEW.format(id=1)})}
    assert "\x1b" not in over(made, "ps")
    equal(json.loads(over(made, "ps", "--json"))["holders"][0]["command"],
          'a"b\\c\x1b[2J\ufffd')
    values = check(over(made, "ps", "--openmetrics"))
    assert any('comm="a\\"b\\\\c?[2J?"' in s for s in values), values


@test("--output writes into special files, and replaces the file that a link names")
def output():
    made = {100: (b"new", {3: NEW.format(id=1)})}
    with tempfile.TemporaryDirectory() as d:
        null, fifo, file, link = (os.path.join(d, n) for n in ("null", "fifo", "file", "link"))
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        over(made, "ps", "--openmetrics", "-o", null)
        assert stat.S_ISCHR(os.stat(null).st_mode), "the device is a device"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        over(made, "ps", "--openmetrics", "-o", fifo)
        text = os.read(reader, 1 << 20)
        assert b"twheel_expired_total" in text and text.endswith(b"\n"), text
        os.close(reader)
        assert stat.S_ISFIFO(os.stat(fifo).st_mode), "the FIFO is a FIFO"
        old = os.umask(0o077)
        try:
            over(made, "ps", "--openmetrics", "-o", file)
        finally:
            os.umask(old)
        equal(stat.S_IMODE(os.stat(file).st_mode), 0o644, "node_exporter reads a new file")
        os.chmod(file, 0o660)
        os.chown(file, 7, 8)
        os.symlink("file", link)
        inode = os.stat(file).st_ino
        over(made, "ps", "--openmetrics", "-o", link)
        now = os.stat(file)
        assert os.path.islink(link) and now.st_ino != inode, "the target is replaced"
        equal((stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid), (0o660, 7, 8), "as it was")
        equal(sorted(os.listdir(d)), ["fifo", "file", "link", "null"])


@test("--pid refuses the id of a thread, and names its process")
def thread():
    done, number = threading.Event(), []

    def wait():
        number.append(threading.get_native_id())
        done.wait()

    t = threading.Thread(target=wait)
    t.start()
    while not number:
        pass
    want = f"twheelctl: {number[0]} is a thread of process {os.getpid()}: use --pid={os.getpid()}\n"
    try:
        for verb in ("list", "ps", "top", "hist"):
            for target in (number[0], f"{number[0]}:0"):
                p = subprocess.run([CTL, verb, f"--pid={target}"], capture_output=True,
                                   check=False, timeout=60)
                equal((p.returncode, p.stderr.decode()), (5, want), (verb, target))
    finally:
        done.set()
        t.join()


@test("a descriptor on a file system that does not answer blocks nothing")
def silent():
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    with tempfile.TemporaryDirectory() as d:
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
        subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, "silent", d],
                       pass_fds=[fuse], check=True)
        # Opening it does not ask the file system, but stat() would.
        inside = os.open(d, os.O_PATH)
        try:
            ctl("ps", f"--pid={os.getpid()}", status=5)
            ctl("ps")
            ctl("top", "-n", "1", "-i", "1ms")
        finally:
            os.close(inside)
            subprocess.run(["umount", "-l", d], check=True)
            os.close(fuse)
    return None


@test("ps and hist without any wheel")
def none():
    made = {100: (b"x", {})}
    equal(len(over(made, "ps").splitlines()), 1)
    equal(over(made, "ps", "--json"), "")
    over(made, "ps", "--pid=100", status=5)
    assert "no expiration" in over(made, "hist")


@test("jq loses no digit of a number")
def digits():
    p = subprocess.run([CTL, "shell", "--json"], input=b"add @9007199.254740993\nquit\n",
                       env={"TWHEEL_BACKEND": "inprocess"}, capture_output=True, check=True)
    q = subprocess.run(["jq", "-r", ".deadline_ns"], input=p.stdout, capture_output=True,
                       check=True)
    equal(q.stdout, b"9007199254740993\n")


@test("the counters of --json are those of the statistics")
def counters():
    with open(os.path.join(TOP, "include/uapi/linux/twheel.h"), encoding="ascii") as f:
        struct = re.search(r"struct twheel_stats {\n(.*?)\n};", f.read(), re.DOTALL)[1]
    fields = set(re.findall(r"__u64 (\w+)", struct)) - {"lateness", "reserved"}
    row = ctl("stat", "--json", "10ms", "1", env={"TWHEEL_BACKEND": "inprocess"}).splitlines()[0]
    equal(set(json.loads(row)) - {"schema", "type", "elapsed_ns", "p50_ns", "p99_ns"}, fields)


@test("doctor without the module")
def doctor():
    text = ctl("doctor", "--device=/nonexistent", status=3)
    assert re.search(r"^FAIL  device .*\n +do: ", text, re.MULTILINE), text
    if not os.path.exists("/sys/module/twheel"):
        assert re.search(r"^FAIL  module .*\n +do: .*(modprobe twheel|load the module on the host)",
                         text, re.MULTILINE), text


@test("the output of twheel_metrics() follows the rules")
def library():
    with tempfile.TemporaryDirectory() as d:
        source, program = os.path.join(d, "page.c"), os.path.join(d, "page")
        with open(source, "w", encoding="ascii") as f:
            f.write(PROGRAM)
        subprocess.run(["gcc", "-Wall", "-Werror", "-I" + TOP + "/userspace/lib",
                        "-I" + TOP + "/include/uapi", "-o", program, source,
                        OUT + "/libtwheel.a", "-pthread"], check=True)
        page = subprocess.run([program], env={"TWHEEL_BACKEND": "inprocess"},
                              capture_output=True, text=True, check=True).stdout
    values = check(page)
    labels = 'backend="inprocess",loop="1",role="peer"'
    equal(values['twheel_armings_total{' + labels + '}'], 2)
    equal(values['twheel_timers{' + labels + ',state="armed"}'], 1)


@test("alerts, dashboard and manual use only metrics that exist")
def known():
    made = {100: (b"x", {3: NEW.format(id=1)})}
    have = {s.split("{")[0] for s in check(over(made, "ps", "--openmetrics"))}
    for name in ("twheel.rules.yml", "twheel.grafana.json"):
        with open(os.path.join(PACKAGING, name), encoding="ascii") as f:
            used = set(re.findall(r"\btwheel_[a-z_]+", f.read()))
        assert used, name
        equal(sorted(used - have), [], name)
    with open(os.path.join(TOP, "doc/man/twheelctl-ps.1"), encoding="ascii") as f:
        page = f.read()
    for name in have:
        name = re.sub("_(bucket|sum|count)$", "", name)
        assert name in page, name


def prometheus():
    """Tests that only Prometheus can judge."""
    @test("promtool accepts the alerts, and they fire when they must and no sooner")
    def alerts():
        assert "4 rules found" in promtool("check", "rules",
                                           os.path.join(PACKAGING, "twheel.rules.yml"))
        promtool("test", "rules", os.path.join(os.path.dirname(__file__), "alerts.yml"))

    @test("promtool can parse each expression of the dashboard")
    def dashboard():
        with open(os.path.join(PACKAGING, "twheel.grafana.json"), encoding="ascii") as f:
            board = json.load(f)
        found = [t["expr"] for p in board["panels"] for t in p["targets"]]
        assert len(found) >= 8
        rules = "groups:\n- name: dashboard\n  rules:\n" + "".join(
            f"  - {{record: 'dashboard:{n}', expr: {json.dumps(e)}}}\n"
            for n, e in enumerate(re.sub(r"\$__\w+", "5m", e) for e in found))
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
            f.write(rules)
            f.flush()
            assert f"{len(found)} rules found" in promtool("check", "rules", f.name)


def main():
    failed = False
    # A test may mount, which no other process may see.
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if PROMTOOL:
        prometheus()
    print(f"TAP version 14\n1..{len(tests)}")
    for n, (name, f) in enumerate(tests, 1):
        skip = None
        try:
            skip = f()
        except Exception:    # pylint: disable=broad-except
            failed = True
            print(re.sub("^", "# ", traceback.format_exc().rstrip(), flags=re.MULTILINE))
            print("not ", end="")
        print(f"ok {n} - {name}" + (f" # SKIP {skip}" if skip else ""), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
