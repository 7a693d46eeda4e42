package fourfold;

import java.util.concurrent.Callable;

/** Waiting for conditions: never for a time. */
final class Eventually {
    private Eventually() {}

    /** Waits until {@code probe} answers true; fails with {@code what} otherwise. */
    static void holds(String what, int seconds, Callable<Boolean> probe) {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        try {
            while (!probe.call()) {
                if (System.nanoTime() > end) {
                    throw new AssertionError("not within " + seconds + " s: " + what);
                }
                Thread.sleep(20);
            }
        } catch (RuntimeException why) {
            throw why;
        } catch (Exception why) {
            throw new AssertionError(what, why);
        }
    }
}
