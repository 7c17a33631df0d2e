// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package twheel;

import java.util.Arrays;

/**
 * The timeouts that are in a wheel, by their numbers. A number can be used again once its timeout
 * has been taken. A timeout is taken by the thread that reads its event, or by the one that deletes
 * its timer before there is an event.
 */
final class Timeouts {
    private TwheelTimer.Wheeled[] timeouts = {};
    // The next free number after each free number, or -1.
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
