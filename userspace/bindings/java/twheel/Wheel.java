// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package twheel;

/** What wheel.c has of libtwheel. A wheel is an address. */
final class Wheel {
    static {
        System.loadLibrary("twheel-jni");
        init(TwheelTimer.Wheeled.class);
    }

    private Wheel() {}

    private static native void init(Class<?> timeout);

    static native long open(long tickNanos);

    static native void close(long wheel);

    /** Arms a timer for the timeout of this number, whose field id it sets before that. */
    static native void add(long wheel, long delayNanos, int number, Object timeout);

    /** Deletes a timer. Returns whether no event of it has been read, nor will be. */
    static native boolean delete(long wheel, long id);

    /** Waits for an event or for wake(). */
    static native void await(long wheel);

    static native void wake(long wheel);

    /** Puts the numbers of timeouts that have expired into the array. Returns how many. */
    static native int read(long wheel, int[] numbers);

    /** Lets all timers expire. */
    static native void drain(long wheel);
}
