<?php
// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

declare(strict_types=1);

namespace Twheel;

use FFI;

/**
 * Timers for a worker, with the methods of Workerman's Timer: add(), del() and delAll(). The loop
 * of the worker waits for stream(), and calls run() when the stream is readable.
 */
final class Timers
{
    private const CDEF = <<<'END'
        struct twheel;
        struct twheel_event {
            uint64_t id, user_data, deadline_ns, expired_ns, expirations;
            uint32_t flags, reserved;
        };
        int twheel_open(struct twheel **wheel, const void *options);
        void twheel_close(struct twheel *wheel);
        int twheel_fd(const struct twheel *wheel);
        const char *twheel_backend(const struct twheel *wheel);
        uint64_t twheel_now(const struct twheel *wheel);
        uint64_t twheel_after(const struct twheel *wheel, uint64_t delay_ns);
        int twheel_add(struct twheel *wheel, uint64_t deadline, uint64_t user_data, uint64_t *id);
        int twheel_set(struct twheel *wheel, uint64_t id, uint64_t deadline);
        int twheel_del(struct twheel *wheel, uint64_t id);
        int twheel_read(struct twheel *wheel, struct twheel_event *events, unsigned int n);
        int fcntl(int fd, int command, ...);
        int close(int fd);
        END;

    // From <fcntl.h>.
    private const F_DUPFD = 0;
    private const F_SETFD = 2;
    private const FD_CLOEXEC = 1;

    private static ?FFI $lib = null;

    private FFI\CData $wheel;
    private FFI\CData $event;
    /** @var resource */
    private $stream;
    /** @var array<int, array{callable, array, int, bool}> function, arguments, ns, persistent */
    private array $timers = [];

    public function __construct(string $library = 'libtwheel.so.0')
    {
        self::$lib ??= FFI::cdef(self::CDEF, $library);
        $this->wheel = self::$lib->new('struct twheel *');
        $this->event = self::$lib->new('struct twheel_event');
        self::check(self::$lib->twheel_open(FFI::addr($this->wheel), null));
        $stream = self::openStream(self::$lib->twheel_fd($this->wheel));
        if ($stream === null) {
            // The destructor is not called if the constructor throws.
            self::$lib->twheel_close($this->wheel);
            throw new \RuntimeException('twheel: the descriptor of the wheel cannot be duplicated');
        }
        $this->stream = $stream;
    }

    public function __destruct()
    {
        self::$lib->twheel_close($this->wheel);
    }

    /** The wheel has one owner, whose destructor closes it. */
    private function __clone()
    {
    }

    /** Calls a function after this many seconds, and at that interval if it is persistent. */
    public function add(
        float $seconds,
        callable $function,
        array $args = [],
        bool $persistent = true
    ): int {
        $ns = self::toNs($seconds);
        if ($persistent && $ns === 0) {
            throw new \ValueError('a persistent timer needs an interval');
        }
        $id = self::$lib->new('uint64_t');
        self::check(self::$lib->twheel_add($this->wheel, $this->after($ns), 0, FFI::addr($id)));
        $this->timers[$id->cdata] = [$function, $args, $ns, $persistent];
        return $id->cdata;
    }

    /** Starts the interval of a timer again. Returns false if there is no such timer. */
    public function restart(int $id): bool
    {
        if (!isset($this->timers[$id])) {
            return false;
        }
        $deadline = $this->after($this->timers[$id][2]);
        self::check(self::$lib->twheel_set($this->wheel, $id, $deadline));
        return true;
    }

    /** Deletes a timer. Returns false if there is no such timer. */
    public function del(int $id): bool
    {
        if (!isset($this->timers[$id])) {
            return false;
        }
        unset($this->timers[$id]);
        self::check(self::$lib->twheel_del($this->wheel, $id));
        return true;
    }

    /** Deletes all timers. */
    public function delAll(): void
    {
        foreach (array_keys($this->timers) as $id) {
            $this->del($id);
        }
    }

    /** Returns the stream for stream_select(). Do not read or close it. */
    public function stream()
    {
        return $this->stream;
    }

    /** Calls the functions of the timers that are due, without waiting. Returns how many. */
    public function run(): int
    {
        $now = self::$lib->twheel_now($this->wheel);
        // Return to the loop in time, even if a function takes longer than its interval.
        $most = count($this->timers);
        // Read one event at a time, because a function may throw or delete other timers.
        for ($count = 0; $count < $most && $this->readOne(); $count++) {
            $id = $this->event->id;
            [$function, $args, $ns, $persistent] = $this->timers[$id];
            if ($persistent) {
                // Skip the periods that have passed.
                $late = max($now - $this->event->deadline_ns, 0);
                $next = $this->event->deadline_ns + $ns * (1 + intdiv($late, $ns));
                self::check(self::$lib->twheel_set($this->wheel, $id, $next));
            } else {
                $this->del($id);
            }
            $function(...$args);
        }
        return $count;
    }

    /** Returns "kernel", or "inprocess" if the module is not loaded. */
    public function backend(): string
    {
        return self::$lib->twheel_backend($this->wheel);
    }

    /**
     * Opens a stream with a duplicate of the descriptor, which is closed on exec. PHP does not
     * reveal the descriptor of a stream, but it is the lowest one that is free.
     *
     * @return resource|null
     */
    private static function openStream(int $fd)
    {
        $lowest = self::$lib->fcntl($fd, self::F_DUPFD, 0);
        if ($lowest < 0) {
            return null;
        }
        self::$lib->close($lowest);
        $stream = @fopen("php://fd/$fd", 'r');
        if ($stream === false || self::$lib->fcntl($lowest, self::F_SETFD, self::FD_CLOEXEC) < 0) {
            return null;
        }
        return $stream;
    }

    private function readOne(): bool
    {
        return self::check(self::$lib->twheel_read($this->wheel, FFI::addr($this->event), 1)) > 0;
    }

    private function after(int $ns): int
    {
        return self::$lib->twheel_after($this->wheel, $ns);
    }

    private static function toNs(float $seconds): int
    {
        if (!($seconds >= 0)) {
            throw new \ValueError('the interval is negative');
        }
        return $seconds < PHP_INT_MAX / 1e9 ? (int) ceil($seconds * 1e9) : PHP_INT_MAX;
    }

    private static function check(int $result): int
    {
        if ($result < 0) {
            // A forked child needs its own Timers.
            throw new \RuntimeException('twheel: ' . posix_strerror(-$result), -$result);
        }
        return $result;
    }
}
