// SPDX-License-Identifier: GPL-2.0
package io.netty.util;

/** The interface as newer versions of Netty have it, before that of Debian in the class path. */
public interface TimerTask {
    void run(Timeout timeout) throws Exception;

    default void cancelled(Timeout timeout) {}
}
