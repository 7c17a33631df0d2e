// SPDX-License-Identifier: GPL-2.0
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.Test;
import twheel.TwheelTimer;

/** A TimerTask of newer Netty is notified of its cancellation, once. */
public class CancelledTest {
    private final List<Timeout> told = new ArrayList<>();

    private TimerTask task(boolean throwing) {
        return new TimerTask() {
            @Override
            public void run(Timeout timeout) {}

            @Override
            public void cancelled(Timeout timeout) {
                told.add(timeout);
                if (throwing) {
                    throw new IllegalStateException("this is the test");
                }
            }
        };
    }

    @Test
    public void taskHearsThatItWasCancelled() {
        TwheelTimer timer = new TwheelTimer();
        Timeout timeout = timer.newTimeout(task(false), 1, TimeUnit.HOURS);
        assertTrue(timeout.cancel());
        assertTrue(!timeout.cancel());
        assertEquals(List.of(timeout), told);
        timer.stop();
    }

    @Test
    public void aTaskThatThrowsIsCancelled() {
        TwheelTimer timer = new TwheelTimer();
        Timeout timeout = timer.newTimeout(task(true), 1, TimeUnit.HOURS);
        assertTrue(timeout.cancel() && timeout.isCancelled());
        assertEquals(List.of(timeout), told);
        timer.stop();
    }
}
