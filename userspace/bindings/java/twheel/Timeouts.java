// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package twheel;

import java.util.Arrays;

/**
 * The timeouts that are in a wheel, by their numbers. A number is given out again when its timeout
 * has been taken, which happens once: by whoever reads the event, or deletes the timer before.
 */
final class Timeouts {
    private TwheelTimer.Wheeled[] timeouts = {};
    // Of each number that is free, the next one, or -1.
    private int[] next = {};
    private int free = -1;

    synchronized int put(TwheelTimer.Wheeled timeout) {
        if (free < 0) {
            grow();
        }
        int number = free;
        free = next[number];
        timeouts[number] = timeout;
        return number;
    }

    synchronized TwheelTimer.Wheeled take(int number) {
        TwheelTimer.Wheeled timeout = timeouts[number];
        timeouts[number] = null;
        next[number] = free;
        free = number;
        return timeout;
    }

    private void grow() {
        int size = timeouts.length;
        int larger = Math.max(64, size * 2);
        int[] links = Arrays.copyOf(next, larger);
        timeouts = Arrays.copyOf(timeouts, larger);
        next = links;
        for (int number = size; number < larger; number++) {
            next[number] = number + 1 < larger ? number + 1 : -1;
        }
        free = size;
    }
}
