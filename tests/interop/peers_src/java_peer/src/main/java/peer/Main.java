package peer;

/**
 * An agent and a client on the Java SDK, for the plans of race_plans.py.
 *
 * <pre>
 *   java -jar java-peer.jar agent [listen]
 *   java -jar java-peer.jar client PLAN_FILE spawn AGENT [ARGUMENT...]
 * </pre>
 *
 * The SDK's client has no transport for TCP. Neither half of version 0.14 knows $/cancel_request.
 */
public final class Main {

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("agent")) {
            RaceAgent.serve(arguments.length > 1);
        }
        else {
            RaceClient.run(arguments);
        }
        System.exit(0);
    }

}
