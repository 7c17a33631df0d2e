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

    /** Arms a timer, and sets the fields id and reference of its timeout before that. */
    static native void add(long wheel, long delayNanos, Object timeout);

    /** Deletes a timer, and the reference if no event of it has been or will be read. */
    static native void delete(long wheel, long id, long reference);

    /** Waits for an event or for wake(). */
    static native void await(long wheel);

    static native void wake(long wheel);

    /** Returns how many timeouts it has put into the array. */
    static native int read(long wheel, Object[] timeouts);

    /** Lets all timers expire. */
    static native void drain(long wheel);
}
