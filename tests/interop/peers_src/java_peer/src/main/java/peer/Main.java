package peer;

/**
 * Agents and clients on the Java SDK: for the plans of race_plans.py, and for the steps of interop.matrix.steps.
 *
 * <pre>
 *   java -jar java-peer.jar agent [listen]
 *   java -jar java-peer.jar client PLAN_FILE spawn AGENT [ARGUMENT...]
 *   java -jar java-peer.jar matrix-agent
 *   java -jar java-peer.jar matrix-client PLAN_FILE
 * </pre>
 *
 * The SDK's client has no transport for TCP. Neither half of version 0.14 knows $/cancel_request.
 */
public final class Main {

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "agent" -> RaceAgent.serve(arguments.length > 1);
            case "client" -> RaceClient.run(arguments);
            case "matrix-agent" -> MatrixAgent.serve();
            case "matrix-client" -> MatrixClient.run(arguments[1]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.exit(0);
    }

}
