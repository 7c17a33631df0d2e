// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package twheel;

import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import io.netty.util.internal.logging.InternalLogger;
import io.netty.util.internal.logging.InternalLoggerFactory;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Collections;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A Netty timer on a wheel of libtwheel, which replaces HashedWheelTimer. A task is never early,
 * and at most about a tick late. One thread waits for the timeouts and runs the tasks, and it does
 * not wake up while nothing is due. Any thread can call newTimeout(), cancel() and stop().
 *
 * <p>Because a timeout may be canceled after stop(), the wheel itself is only closed once neither
 * the timer nor any of its timeouts can be reached.
 */
public final class TwheelTimer implements Timer {
    private static final InternalLogger LOGGER =
            InternalLoggerFactory.getInstance(TwheelTimer.class);
    private static final Cleaner CLEANER = Cleaner.create();
    private static final int BATCH = 64;

    /** TimerTask.cancelled(), or null: only newer versions of Netty have it. */
    private static final MethodHandle TASK_CANCELLED = findCancelled();

    private static final int INIT = 0;
    private static final int STARTED = 1;
    private static final int STOPPED = 2;

    private final AtomicInteger state = new AtomicInteger(INIT);
    private final AtomicInteger adding = new AtomicInteger();
    private final AtomicLong pending = new AtomicLong();
    private final Timeouts timeouts = new Timeouts();
    private final long maxPending;
    private final long wheel;
    private final Thread worker;

    private static MethodHandle findCancelled() {
        try {
            return MethodHandles.publicLookup()
                    .findVirtual(
                            TimerTask.class,
                            "cancelled",
                            MethodType.methodType(void.class, Timeout.class));
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    /** A timer with the tick of libtwheel, 0.5 ms. */
    public TwheelTimer() {
        this(Executors.defaultThreadFactory());
    }

    /** A timer with the same tick, whose thread is made by the factory. */
    public TwheelTimer(ThreadFactory threadFactory) {
        this(threadFactory, 0, TimeUnit.NANOSECONDS, 0);
    }

    /**
     * A timer with all options.
     *
     * @param threadFactory makes the thread that runs the tasks
     * @param tickDuration the resolution; 0 for the default
     * @param unit of tickDuration
     * @param maxPendingTimeouts newTimeout() throws RejectedExecutionException beyond this; with 0
     *     or less, only the limit of the wheel applies, which is 16,777,215
     */
    public TwheelTimer(
            ThreadFactory threadFactory,
            long tickDuration,
            TimeUnit unit,
            long maxPendingTimeouts) {
        if (tickDuration < 0) {
            throw new IllegalArgumentException("tickDuration is negative: " + tickDuration);
        }
        maxPending = maxPendingTimeouts > 0 ? maxPendingTimeouts : Long.MAX_VALUE;
        worker = threadFactory.newThread(this::run);
        long opened = Wheel.open(unit.toNanos(tickDuration));
        wheel = opened;
        CLEANER.register(this, () -> Wheel.close(opened));
    }

    /** Starts the thread. newTimeout() does this as well. */
    public void start() {
        if (state.compareAndSet(INIT, STARTED)) {
            worker.start();
        } else if (state.get() == STOPPED) {
            throw new IllegalStateException("cannot be started once stopped");
        }
    }

    @Override
    public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
        Objects.requireNonNull(task, "task");
        Objects.requireNonNull(unit, "unit");
        Wheeled timeout = new Wheeled(this, task);
        long count = pending.incrementAndGet();
        if (count > maxPending) {
            pending.decrementAndGet();
            throw new RejectedExecutionException(
                    "Number of pending timeouts (" + count + ") is greater than or equal to "
                            + "maximum allowed pending timeouts (" + maxPending + ")");
        }
        // From here on, stop() waits for this thread.
        adding.incrementAndGet();
        try {
            if (state.get() != STARTED) {
                start();
            }
            timeout.number = timeouts.put(timeout);
            try {
                Wheel.add(wheel, Math.max(unit.toNanos(delay), 0), timeout.number, timeout);
            } catch (RuntimeException e) {
                timeouts.take(timeout.number);
                throw e;
            }
        } catch (RuntimeException | Error e) {
            // There can be an Error, for example if the thread cannot be started.
            pending.decrementAndGet();
            throw e;
        } finally {
            adding.decrementAndGet();
        }
        return timeout;
    }

    /**
     * Ends the timer, and returns the timeouts that have neither expired nor been canceled. It
     * interrupts the task that runs, and waits for its end.
     */
    @Override
    public Set<Timeout> stop() {
        if (Thread.currentThread() == worker) {
            throw new IllegalStateException("stop() cannot be called from a TimerTask");
        }
        if (state.getAndSet(STOPPED) != STARTED) {
            return Collections.emptySet();
        }
        while (adding.get() != 0) {
            Thread.yield();
        }
        Wheel.wake(wheel);
        boolean interrupted = false;
        while (worker.isAlive()) {
            // Repeat this until the thread has ended, because its next task may block as well.
            worker.interrupt();
            try {
                worker.join(100);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        Set<Timeout> left = new HashSet<>();
        int[] batch = new int[BATCH];
        Wheel.drain(wheel);
        for (int n = Wheel.read(wheel, batch); n > 0; n = Wheel.read(wheel, batch)) {
            for (int i = 0; i < n; i++) {
                Wheeled timeout = timeouts.take(batch[i]);
                if (timeout.end(Wheeled.LEFT)) {
                    left.add(timeout);
                }
            }
        }
        Reference.reachabilityFence(this);
        return left;
    }

    /** Returns how many timeouts have neither expired nor been canceled. */
    public long pendingTimeouts() {
        return pending.get();
    }

    private void run() {
        int[] batch = new int[BATCH];

        while (state.get() == STARTED) {
            Wheel.await(wheel);
            int n = Wheel.read(wheel, batch);
            for (int i = 0; i < n; i++) {
                Wheeled timeout = timeouts.take(batch[i]);
                if (timeout.end(Wheeled.EXPIRED)) {
                    timeout.expire();
                }
            }
        }
    }

    /**
     * A timeout. The thread that changes its state also deletes its timer. If no event of the timer
     * was read, this thread also takes the timeout out of timeouts; otherwise the reader does.
     */
    static final class Wheeled extends AtomicInteger implements Timeout {
        private static final long serialVersionUID = 1;
        private static final int CANCELLED = 1;
        private static final int EXPIRED = 2;
        private static final int LEFT = 3;

        private final transient TwheelTimer timer;
        private final transient TimerTask task;
        // Both are set before there can be an event of this timeout; Wheel.add() sets id.
        private volatile long id;
        private volatile int number;

        Wheeled(TwheelTimer timer, TimerTask task) {
            this.timer = timer;
            this.task = task;
        }

        boolean end(int how) {
            if (!compareAndSet(0, how)) {
                return false;
            }
            timer.pending.decrementAndGet();
            if (Wheel.delete(timer.wheel, id)) {
                timer.timeouts.take(number);
            }
            Reference.reachabilityFence(timer);
            return true;
        }

        void expire() {
            try {
                task.run(this);
            } catch (Throwable t) {
                LOGGER.warn("An exception was thrown by " + TimerTask.class.getSimpleName(), t);
            }
        }

        @Override
        public Timer timer() {
            return timer;
        }

        @Override
        public TimerTask task() {
            return task;
        }

        @Override
        public boolean isExpired() {
            return get() == EXPIRED;
        }

        @Override
        public boolean isCancelled() {
            return get() == CANCELLED;
        }

        @Override
        public boolean cancel() {
            if (!end(CANCELLED) && !compareAndSet(LEFT, CANCELLED)) {
                return false;
            }
            if (TASK_CANCELLED != null) {
                tell();
            }
            return true;
        }

        private void tell() {
            try {
                TASK_CANCELLED.invoke(task, this);
            } catch (Throwable t) {
                LOGGER.warn("An exception was thrown by " + TimerTask.class.getSimpleName(), t);
            }
        }

        @Override
        public String toString() {
            String[] states = {"armed", "cancelled", "expired", "left"};
            return "TwheelTimer timeout (" + states[get()] + ", task: " + task + ")";
        }
    }
}
