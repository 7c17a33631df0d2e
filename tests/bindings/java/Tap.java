// SPDX-License-Identifier: GPL-2.0
import java.util.HashSet;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the tests of a JUnit class, and prints TAP. */
public final class Tap extends RunListener {
    private final Set<Description> skipped = new HashSet<>();
    private final Set<Description> bad = new HashSet<>();
    private int number;

    @Override
    public void testFailure(Failure failure) {
        bad.add(failure.getDescription());
        failure.getTrace().lines().limit(20).forEach(line -> System.out.println("# " + line));
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        skipped.add(failure.getDescription());
        System.out.println("# " + failure.getMessage());
    }

    @Override
    public void testFinished(Description test) {
        String verdict = bad.contains(test) ? "not ok " : "ok ";
        // Tests that do not apply to a timer are not counted.
        if (!skipped.contains(test)) {
            System.out.println(verdict + ++number + " " + test.getMethodName());
        }
    }

    public static void main(String[] args) throws ClassNotFoundException {
        JUnitCore core = new JUnitCore();
        Tap tap = new Tap();

        System.out.println("TAP version 14");
        core.addListener(tap);
        Result result = core.run(Class.forName(args[0]));
        System.out.println("1.." + tap.number);
        System.exit(result.wasSuccessful() && tap.number > 0 ? 0 : 1);
    }
}
