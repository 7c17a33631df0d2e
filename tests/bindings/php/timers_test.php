<?php
// SPDX-License-Identifier: GPL-2.0
// timers_test.php [without-sockets]: tests Timers.php, and the example that kicks silent
// sockets. Prints TAP.

declare(strict_types=1);

$package = dirname(__DIR__, 3) . '/userspace/bindings/php';
require "$package/Timers.php";

use Twheel\Timers;

// Any warning is an error, unless it is suppressed.
set_error_handler(function (int $severity, string $text, string $file, int $line): bool {
    if (!(error_reporting() & $severity)) {
        return true;
    }
    throw new ErrorException($text, 0, $severity, $file, $line);
});

function is(mixed $wanted, mixed $got): void
{
    if ($wanted !== $got) {
        throw new Exception(var_export($got, true) . ', not ' . var_export($wanted, true));
    }
}

function throws(string $class, callable $function): void
{
    try {
        $function();
    } catch (Throwable $e) {
        is($class, get_class($e));
        return;
    }
    throw new Exception("no $class");
}

/** Returns for each descriptor of a wheel whether exec closes it. */
function closedByExec(): array
{
    $closed = [];
    foreach (scandir('/proc/self/fd') as $fd) {
        $file = (string) @readlink("/proc/self/fd/$fd");
        if ($file === '/dev/twheel' || str_starts_with($file, 'anon_inode:')) {
            preg_match('/^flags:\s+(\d+)/m', file_get_contents("/proc/self/fdinfo/$fd"), $flags);
            $closed[] = (octdec($flags[1]) & 02000000) !== 0;
        }
    }
    return $closed;
}

/** Runs a worker's loop until a condition holds. */
function loop(Timers $timers, callable $until, float $timeout = 30): void
{
    $end = microtime(true) + $timeout;
    while (!$until() && microtime(true) < $end) {
        $ready = [$timers->stream()];
        $none = null;
        stream_select($ready, $none, $none, 0, 100000);
        $timers->run();
    }
    is(true, $until());
}

/** Runs a worker's loop for this long. */
function pass(Timers $timers, float $seconds): void
{
    $end = microtime(true) + $seconds;
    loop($timers, fn() => microtime(true) >= $end);
}

$tests = [
    'a timer expires once, with its arguments, and never early' => function (Timers $timers) {
        $seen = [];
        $begin = hrtime(true);
        $timers->add(0.05, function (...$args) use (&$seen) {
            $seen[] = $args;
        }, ['a', 1], false);
        loop($timers, function () use (&$seen) {
            return $seen !== [];
        });
        is(true, hrtime(true) - $begin >= 50000000);
        pass($timers, 0.1);
        is([['a', 1]], $seen);
    },
    'a persistent timer keeps its rate, without what it missed' => function (Timers $timers) {
        $count = 0;
        $begin = hrtime(true);
        $id = $timers->add(0.01, function () use (&$count) {
            $count++;
        });
        loop($timers, function () use (&$count) {
            return $count === 5;
        });
        is(true, hrtime(true) - $begin >= 50000000);
        usleep(100000);
        is(1, $timers->run());
        is(6, $count);
        is(true, $timers->del($id));
        pass($timers, 0.05);
        is(6, $count);
    },
    'del is final, and tells whether there was a timer' => function (Timers $timers) {
        $count = 0;
        $id = $timers->add(0.01, function () use (&$count) {
            $count++;
        }, [], false);
        usleep(50000);
        is(true, $timers->del($id));
        is(false, $timers->del($id));
        is(false, $timers->restart($id));
        is(0, $timers->run());
        $id = $timers->add(0, fn() => null, [], false);
        pass($timers, 0.05);
        is(false, $timers->del($id));
        is(0, $count);
    },
    'delAll ends all timers, and others can begin' => function (Timers $timers) {
        $count = 0;
        $function = function () use (&$count) {
            $count++;
        };
        for ($i = 0; $i < 200; $i++) {
            $timers->add(0.01 + $i / 10000, $function, [], $i % 2 === 0);
        }
        $timers->delAll();
        pass($timers, 0.1);
        is(0, $count);
        $timers->add(0, $function, [], false);
        pass($timers, 0.05);
        is(1, $count);
    },
    'restart puts an expiration off' => function (Timers $timers) {
        $count = 0;
        $id = $timers->add(0.2, function () use (&$count) {
            $count++;
        }, [], false);
        for ($i = 0; $i < 6; $i++) {
            pass($timers, 0.05);
            is(true, $timers->restart($id));
        }
        is(0, $count);
        loop($timers, function () use (&$count) {
            return $count === 1;
        });
        is(false, $timers->restart($id));
    },
    'a function ends another timer that is due, and begins a third' => function (Timers $timers) {
        $seen = [];
        $ids = [];
        foreach ([0, 1] as $own) {
            $ids[$own] = $timers->add(0.01, function () use ($timers, $own, &$ids, &$seen) {
                $seen[] = $own;
                $timers->del($ids[1 - $own]);
                $timers->add(0.001, function () use (&$seen) {
                    $seen[] = 'third';
                }, [], false);
            }, [], false);
        }
        usleep(50000);
        pass($timers, 0.1);
        is(2, count($seen));
        is('third', $seen[1]);
    },
    'a function that throws loses no other timer' => function (Timers $timers) {
        $count = 0;
        for ($i = 0; $i < 10; $i++) {
            $timers->add(0.01, function () use (&$count) {
                $count++;
                throw new DomainException();
            }, [], false);
        }
        usleep(50000);
        for ($i = 0; $i < 10; $i++) {
            throws('DomainException', fn() => $timers->run());
        }
        is(0, $timers->run());
        is(10, $count);
    },
    'a function longer than its interval lets the loop go on' => function (Timers $timers) {
        $timers->add(0.001, fn() => usleep(5000));
        usleep(5000);
        is(1, $timers->run());
    },
    'the longest interval is never, and impossible ones are refused' => function (Timers $timers) {
        $count = 0;
        $timers->add(INF, function () use (&$count) {
            $count++;
        });
        pass($timers, 0.05);
        is(0, $count);
        throws('ValueError', fn() => $timers->add(-1, fn() => null));
        throws('ValueError', fn() => $timers->add(NAN, fn() => null));
        throws('ValueError', fn() => $timers->add(0, fn() => null));
    },
    'programs that are executed inherit no descriptor' => function () {
        $before = count(closedByExec());
        $timers = new Timers();
        $closed = closedByExec();
        is(true, count($closed) >= $before + 2);
        is(false, in_array(false, $closed, true));
    },
    'without a stream there are no timers, and no descriptor is left' => function () {
        $before = count(closedByExec());
        stream_wrapper_unregister('php');
        try {
            throws('RuntimeException', fn() => new Timers());
        } finally {
            stream_wrapper_restore('php');
        }
        is($before, count(closedByExec()));
    },
    'timers cannot be copied' => function (Timers $timers) {
        throws('Error', fn() => clone $timers);
        throws('Exception', fn() => serialize($timers));
    },
    'the backend is the one that is wanted' => function (Timers $timers) {
        is(getenv('TWHEEL_BACKEND'), $timers->backend());
    },
    'the example kicks exactly the silent' => function () use ($package) {
        $command = [PHP_BINARY, "$package/examples/idle_server.php", '1'];
        $server = proc_open($command, [1 => ['pipe', 'w']], $pipes);
        $port = trim(fgets($pipes[1]));
        $begin = microtime(true);
        $silent = stream_socket_client("tcp://127.0.0.1:$port");
        $partial = stream_socket_client("tcp://127.0.0.1:$port");
        fwrite($partial, 'no newline');
        $alive = stream_socket_client("tcp://127.0.0.1:$port");
        foreach ([$silent, $partial, $alive] as $client) {
            stream_set_timeout($client, 10);
        }
        for ($i = 0; $i < 10; $i++) {
            fwrite($alive, "$i\n");
            is("$i\n", fgets($alive));
            usleep(200000);
        }
        is(false, fgets($silent));
        is(true, feof($silent));
        is('no newline', fgets($partial));
        is(true, feof($partial));
        fclose($alive);
        proc_terminate($server);
        proc_close($server);
    },
];

if (($argv[1] ?? '') === 'without-sockets') {
    unset($tests['the example kicks exactly the silent']);
}
echo "TAP version 14\n";
$number = 0;
$failed = false;
foreach ($tests as $name => $test) {
    $number++;
    try {
        $test(new Timers());
        echo "ok $number $name\n";
    } catch (Throwable $e) {
        $failed = true;
        echo "not ok $number $name\n# ", str_replace("\n", "\n# ", (string) $e), "\n";
    }
}
echo "1..$number\n";
exit($failed ? 1 : 0);
