// SPDX-License-Identifier: GPL-2.0
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongFunction;
import java.util.function.ToLongFunction;
import org.junit.After;
import org.junit.Assume;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.junit.runners.Parameterized;
import org.junit.runners.Parameterized.Parameter;
import org.junit.runners.Parameterized.Parameters;
import twheel.TwheelTimer;

/** The behavior that HashedWheelTimer and TwheelTimer share. */
@RunWith(Parameterized.class)
public class TimerTest {
    private static final long TIMEOUT_SECONDS = 60;
    private static final TimerTask NOTHING = timeout -> {};

    @Parameters(name = "{0}")
    public static Collection<Object[]> timers() {
        LongFunction<Timer> ours =
                most ->
                        new TwheelTimer(
                                Executors.defaultThreadFactory(), 0, TimeUnit.MILLISECONDS, most);
        LongFunction<Timer> nettys =
                most ->
                        new HashedWheelTimer(
                                Executors.defaultThreadFactory(),
                                10,
                                TimeUnit.MILLISECONDS,
                                32,
                                true,
                                most);
        ToLongFunction<Timer> pending = timer -> ((TwheelTimer) timer).pendingTimeouts();
        ToLongFunction<Timer> nettysPending =
                timer -> ((HashedWheelTimer) timer).pendingTimeouts();
        return Arrays.asList(
                new Object[] {"TwheelTimer", ours, pending},
                new Object[] {"HashedWheelTimer", nettys, nettysPending});
    }

    @Parameter(0)
    public String name;

    @Parameter(1)
    public LongFunction<Timer> maker;

    @Parameter(2)
    public ToLongFunction<Timer> pending;

    private Timer timer;

    private Timer timer(long most) {
        timer = maker.apply(most);
        return timer;
    }

    @After
    public void stop() {
        if (timer != null) {
            timer.stop();
        }
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        assertTrue("too late", latch.await(TIMEOUT_SECONDS, TimeUnit.SECONDS));
    }

    private void awaitPending(long wanted) throws InterruptedException {
        for (int i = 0; i < TIMEOUT_SECONDS * 100 && pending.applyAsLong(timer) != wanted; i++) {
            Thread.sleep(10);
        }
        assertEquals(wanted, pending.applyAsLong(timer));
    }

    @Test
    public void taskDoesNotRunBeforeItsDelay() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        Timeout timeout = timer(0).newTimeout(t -> ran.countDown(), 10, TimeUnit.SECONDS);
        assertFalse(ran.await(1, TimeUnit.SECONDS));
        assertFalse(timeout.isExpired());
        assertFalse(timeout.isCancelled());
    }

    @Test
    public void taskRunsAfterItsDelay() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        Timeout timeout = timer(0).newTimeout(t -> ran.countDown(), 200, TimeUnit.MILLISECONDS);
        await(ran);
        assertTrue(timeout.isExpired());
        assertFalse(timeout.isCancelled());
    }

    @Test
    public void timeoutKnowsTimerAndTask() throws Exception {
        BlockingQueue<Timeout> seen = new LinkedBlockingQueue<>();
        TimerTask task = seen::add;
        Timeout timeout = timer(0).newTimeout(task, 1, TimeUnit.MILLISECONDS);
        assertSame(timer, timeout.timer());
        assertSame(task, timeout.task());
        assertSame(timeout, seen.poll(TIMEOUT_SECONDS, TimeUnit.SECONDS));
        assertNotNull(timeout.toString());
    }

    @Test
    public void stopReturnsWhatWasLeft() {
        timer(0);
        List<Timeout> left = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            left.add(timer.newTimeout(NOTHING, 5 + i, TimeUnit.SECONDS));
        }
        Timeout cancelled = left.remove(0);
        assertTrue(cancelled.cancel());
        Set<Timeout> unprocessed = timer.stop();
        assertEquals(299, unprocessed.size());
        assertTrue(unprocessed.containsAll(left));
        for (Timeout timeout : left) {
            assertFalse(timeout.isExpired());
            assertFalse(timeout.isCancelled());
        }
        assertTrue("after the stop", left.get(0).cancel());
        assertTrue(left.get(0).isCancelled());
    }

    @Test
    public void stopReturnsNothingThatHasRun() throws Exception {
        CountDownLatch ran = new CountDownLatch(3);
        timer(0);
        for (int i = 0; i < 3; i++) {
            timer.newTimeout(t -> ran.countDown(), 1, TimeUnit.MILLISECONDS);
        }
        await(ran);
        awaitPending(0);
        assertTrue(timer.stop().isEmpty());
    }

    @Test
    public void stopIsEmptyBeforeTheFirstTimeoutAndTheSecondTime() {
        assertTrue(timer(0).stop().isEmpty());
        timer(0).newTimeout(NOTHING, 1, TimeUnit.HOURS);
        assertEquals(1, timer.stop().size());
        assertTrue(timer.stop().isEmpty());
    }

    @Test
    public void noTaskRunsAfterStop() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        timer(0).newTimeout(t -> ran.countDown(), 100, TimeUnit.MILLISECONDS);
        assertEquals(1, timer.stop().size());
        assertFalse(ran.await(300, TimeUnit.MILLISECONDS));
    }

    @Test
    public void stopInterruptsATaskThatBlocks() throws Exception {
        CountDownLatch running = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        timer(0).newTimeout(
                t -> {
                    running.countDown();
                    try {
                        TimeUnit.SECONDS.sleep(TIMEOUT_SECONDS);
                    } catch (InterruptedException e) {
                        interrupted.countDown();
                    }
                },
                1,
                TimeUnit.MILLISECONDS);
        await(running);
        timer.stop();
        assertEquals(0, interrupted.getCount());
    }

    @Test
    public void newTimeoutAfterStopThrows() throws Exception {
        timer(0).newTimeout(NOTHING, 1, TimeUnit.MILLISECONDS);
        timer.stop();
        assertThrows(
                IllegalStateException.class,
                () -> timer.newTimeout(NOTHING, 1, TimeUnit.MILLISECONDS));
    }

    @Test
    public void stopFromATaskThrows() throws Exception {
        BlockingQueue<Throwable> thrown = new LinkedBlockingQueue<>();
        timer(0).newTimeout(
                t -> {
                    try {
                        timer.stop();
                    } catch (IllegalStateException e) {
                        thrown.add(e);
                    }
                },
                1,
                TimeUnit.MILLISECONDS);
        assertNotNull(thrown.poll(TIMEOUT_SECONDS, TimeUnit.SECONDS));
    }

    @Test
    public void tasksRunInTime() throws Exception {
        int count = 100;
        BlockingQueue<Long> lateness = new LinkedBlockingQueue<>();
        timer(0);
        for (int i = 0; i < count; i++) {
            long begin = System.nanoTime();
            long delay = TimeUnit.MILLISECONDS.toNanos(20 + i);
            timer.newTimeout(
                    t -> lateness.add(System.nanoTime() - begin - delay),
                    delay,
                    TimeUnit.NANOSECONDS);
        }
        for (int i = 0; i < count; i++) {
            Long late = lateness.poll(TIMEOUT_SECONDS, TimeUnit.SECONDS);
            assertNotNull(late);
            // Netty's clock starts a little after begin.
            assertTrue(late + " ns late", late >= 0);
        }
    }

    @Test
    public void maxPendingTimeoutsRejectsAndCountsBack() throws Exception {
        timer(2);
        Timeout first = timer.newTimeout(NOTHING, 5, TimeUnit.SECONDS);
        timer.newTimeout(NOTHING, 5, TimeUnit.SECONDS);
        assertThrows(
                RejectedExecutionException.class,
                () -> timer.newTimeout(NOTHING, 1, TimeUnit.MILLISECONDS));
        assertTrue(first.cancel());
        awaitPending(1);
        CountDownLatch ran = new CountDownLatch(1);
        timer.newTimeout(t -> ran.countDown(), 10, TimeUnit.MILLISECONDS);
        await(ran);
        awaitPending(1);
        timer.newTimeout(NOTHING, 5, TimeUnit.SECONDS);
    }

    /** If the thread cannot be started, no timeout stays counted. */
    @Test
    public void anErrorOfTheThreadCountsBack() {
        Assume.assumeTrue("HashedWheelTimer waits for the thread", name.equals("TwheelTimer"));
        timer =
                new TwheelTimer(
                        task ->
                                new Thread(task) {
                                    @Override
                                    public void start() {
                                        throw new OutOfMemoryError("this is the test");
                                    }
                                });
        assertThrows(
                OutOfMemoryError.class, () -> timer.newTimeout(NOTHING, 1, TimeUnit.HOURS));
        assertEquals(0, pending.applyAsLong(timer));
    }

    /** There may be more timeouts than libtwheel's default maximum of 2^20. */
    @Test
    public void aMillionTimeoutsAreNotTheMost() {
        Assume.assumeTrue("HashedWheelTimer has no limit", name.equals("TwheelTimer"));
        Assume.assumeTrue(
                "the machine has no memory for them",
                "inprocess".equals(System.getenv("TWHEEL_BACKEND")));
        int count = (1 << 20) + 1;
        timer(0);
        for (int i = 0; i < count; i++) {
            timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        }
        assertEquals(count, pending.applyAsLong(timer));
    }

    /** The exception names a lower limit of the module, and no timeout stays counted. */
    @Test
    public void aFullWheelRejectsAndNamesItsLimit() throws Exception {
        Assume.assumeTrue("HashedWheelTimer has no limit", name.equals("TwheelTimer"));
        Assume.assumeTrue(
                "no module", "kernel".equals(System.getenv("TWHEEL_BACKEND")));
        Path limit = Path.of("/sys/module/twheel/parameters/max_timers_limit");
        String before = Files.readString(limit);
        Files.writeString(limit, "100");
        try {
            timer(0);
        } finally {
            Files.writeString(limit, before);
        }
        for (int i = 0; i < 99; i++) {
            timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        }
        RejectedExecutionException full =
                assertThrows(
                        RejectedExecutionException.class,
                        () -> timer.newTimeout(NOTHING, 1, TimeUnit.HOURS));
        assertTrue(full.getMessage(), full.getMessage().contains("at most 99 timeouts"));
        assertEquals(99, pending.applyAsLong(timer));
    }

    @Test
    public void pendingTimeoutsAreCounted() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        timer(0).newTimeout(t -> ran.countDown(), 200, TimeUnit.MILLISECONDS);
        Timeout second = timer.newTimeout(NOTHING, 5, TimeUnit.MINUTES);
        assertEquals(2, pending.applyAsLong(timer));
        second.cancel();
        await(ran);
        awaitPending(0);
    }

    @Test
    public void cancelTellsTheTruth() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        Timeout later = timer(0).newTimeout(NOTHING, 1, TimeUnit.HOURS);
        assertTrue(later.cancel());
        assertFalse(later.cancel());
        assertTrue(later.isCancelled());
        assertFalse(later.isExpired());
        Timeout now = timer.newTimeout(t -> ran.countDown(), 0, TimeUnit.NANOSECONDS);
        await(ran);
        assertFalse(now.cancel());
        assertTrue(now.isExpired());
        assertFalse(now.isCancelled());
    }

    @Test
    public void taskCancelsAnotherAndAddsAThird() throws Exception {
        CountDownLatch third = new CountDownLatch(1);
        AtomicInteger ran = new AtomicInteger();
        Timeout second = timer(0).newTimeout(t -> ran.incrementAndGet(), 1, TimeUnit.SECONDS);
        timer.newTimeout(
                t -> {
                    assertTrue(second.cancel());
                    assertFalse(t.cancel());
                    timer.newTimeout(u -> third.countDown(), 1, TimeUnit.MILLISECONDS);
                },
                10,
                TimeUnit.MILLISECONDS);
        await(third);
        assertEquals(0, ran.get());
        assertTrue(second.isCancelled());
    }

    @Test
    public void theLongestDelayDoesNotOverflow() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        Timeout timeout =
                timer(0).newTimeout(t -> ran.countDown(), Long.MAX_VALUE, TimeUnit.MILLISECONDS);
        assertFalse(ran.await(300, TimeUnit.MILLISECONDS));
        assertTrue(timeout.cancel());
    }

    @Test
    public void aNegativeDelayIsOver() throws Exception {
        CountDownLatch ran = new CountDownLatch(2);
        timer(0).newTimeout(t -> ran.countDown(), -1, TimeUnit.SECONDS);
        timer.newTimeout(t -> ran.countDown(), Long.MIN_VALUE / 2, TimeUnit.NANOSECONDS);
        await(ran);
    }

    @Test
    public void aTaskThatThrowsHarmsNoOther() throws Exception {
        CountDownLatch ran = new CountDownLatch(1);
        timer(0).newTimeout(
                t -> {
                    throw new IllegalArgumentException("this is the test");
                },
                1,
                TimeUnit.MILLISECONDS);
        timer.newTimeout(t -> ran.countDown(), 30, TimeUnit.MILLISECONDS);
        await(ran);
    }

    @Test
    public void nullIsRefused() {
        timer(0);
        assertThrows(
                NullPointerException.class,
                () -> timer.newTimeout(null, 1, TimeUnit.MILLISECONDS));
        assertThrows(NullPointerException.class, () -> timer.newTimeout(NOTHING, 1, null));
        assertEquals(0, pending.applyAsLong(timer));
    }

    /** Each timeout either runs or is canceled, once, whichever thread cancels it. */
    @Test
    public void cancelFromAnyThread() throws Exception {
        Assume.assumeTrue(
                "HashedWheelTimer counts wrong: netty/netty#14959", name.equals("TwheelTimer"));
        int threads = 4;
        int each = 5000;
        AtomicInteger ran = new AtomicInteger();
        AtomicInteger cancelled = new AtomicInteger();
        AtomicReference<Throwable> failed = new AtomicReference<>();
        BlockingQueue<Timeout> others = new LinkedBlockingQueue<>();
        List<Thread> all = new ArrayList<>();
        timer(0);
        for (int n = 0; n < threads; n++) {
            Thread thread =
                    new Thread(
                            () -> {
                                ThreadLocalRandom random = ThreadLocalRandom.current();
                                for (int i = 0; i < each; i++) {
                                    others.add(
                                            timer.newTimeout(
                                                    t -> ran.incrementAndGet(),
                                                    random.nextInt(3000),
                                                    TimeUnit.MICROSECONDS));
                                    // Usually the timeout of another thread.
                                    Timeout other = i % 2 == 0 ? others.poll() : null;
                                    if (other != null && other.cancel()) {
                                        cancelled.incrementAndGet();
                                    }
                                }
                            });
            thread.setUncaughtExceptionHandler((t, e) -> failed.set(e));
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        assertEquals(null, failed.get());
        awaitPending(0);
        Thread.sleep(50);
        assertEquals(threads * each, ran.get() + cancelled.get());
        assertTrue(timer.stop().isEmpty());
    }

    /** stop() races with newTimeout(): each timeout runs, is returned, or was refused. */
    @Test
    public void stopLosesNoTimeout() throws Exception {
        Assume.assumeTrue("HashedWheelTimer can lose one", name.equals("TwheelTimer"));
        for (int round = 0; round < 100; round++) {
            AtomicInteger made = new AtomicInteger();
            AtomicInteger ran = new AtomicInteger();
            CountDownLatch running = new CountDownLatch(2);
            List<Thread> all = new ArrayList<>();
            timer(0);
            for (int n = 0; n < 2; n++) {
                Thread thread =
                        new Thread(
                                () -> {
                                    try {
                                        for (int i = 0; ; i++) {
                                            timer.newTimeout(
                                                    t -> ran.incrementAndGet(),
                                                    i % 2 == 0 ? 0 : 1000,
                                                    TimeUnit.SECONDS);
                                            made.incrementAndGet();
                                            running.countDown();
                                        }
                                    } catch (IllegalStateException e) {
                                        // The timer was stopped.
                                    }
                                });
                thread.start();
                all.add(thread);
            }
            running.await();
            int left = timer.stop().size();
            for (Thread thread : all) {
                thread.join();
            }
            assertEquals(made.get(), ran.get() + left);
        }
    }
}
