// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package twheel;

/** The functions of libtwheel that wheel.c offers. A wheel is an address. */
final class Wheel {
    static {
        System.loadLibrary("twheel-jni");
        init(TwheelTimer.Wheeled.class);
    }

    private Wheel() {}

    private static native void init(Class<?> timeout);

    static native long open(long tickNanos);

    static native void close(long wheel);

    /** Arms a timer for the timeout with this number, after it has set the id of the timeout. */
    static native void add(long wheel, long delayNanos, int number, Object timeout);

    /** Deletes a timer. Returns true if no event of it has been read or ever will be. */
    static native boolean delete(long wheel, long id);

    /** Waits for an event or for wake(). */
    static native void await(long wheel);

    static native void wake(long wheel);

    /** Puts the numbers of timeouts that have expired into the array. Returns how many. */
    static native int read(long wheel, int[] numbers);

    /** Makes all timers expire now. */
    static native void drain(long wheel);
}
