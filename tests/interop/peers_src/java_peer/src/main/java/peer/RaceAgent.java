package peer;

import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

import com.agentclientprotocol.sdk.agent.AcpAgent;
import com.agentclientprotocol.sdk.agent.AcpAsyncAgent;
import com.agentclientprotocol.sdk.agent.PromptContext;
import com.agentclientprotocol.sdk.agent.transport.StdioAcpAgentTransport;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.json.AcpJsonMapper;
import com.agentclientprotocol.sdk.spec.AcpSchema;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** The directives of race_plans.py; the SDK itself refuses a second turn of a session. */
final class RaceAgent {

    private final Map<String, Sinks.Empty<Void>> stops = new ConcurrentHashMap<>();

    private final AtomicInteger sessions = new AtomicInteger();

    private RaceAgent() {
    }

    private Mono<Void> play(String text, String session, PromptContext context, Mono<Void> stop) {
        String[] words = text.split(" ");
        return switch (words[0]) {
            case "stream" -> {
                Flux<Integer> numbers = Flux.range(1, Integer.parseInt(words[1]));
                if (words.length > 2) {
                    numbers = numbers.delayElements(Duration.ofMillis((long) (1000 * Double.parseDouble(words[2]))));
                }
                yield numbers.takeUntilOther(stop).concatMap(n -> context.sendMessage(String.valueOf(n))).then();
            }
            case "polite", "hang", "fail-on-cancel" -> stop;
            case "fail" -> Mono.error(new AcpProtocolException(Integer.parseInt(words[1]), "asked to fail"));
            case "len" -> context.sendMessage("0");
            case "permission" -> Flux.range(0, Integer.parseInt(words[1]))
                .flatMap(n -> context.requestPermission(ask(session)))
                .then();
            default -> Mono.error(new AcpProtocolException(-32602, "no such directive"));
        };
    }

    private static AcpSchema.RequestPermissionRequest ask(String session) {
        var call = new AcpSchema.ToolCallUpdate("t1", "Change a file", AcpSchema.ToolKind.EDIT,
                AcpSchema.ToolCallStatus.PENDING, null, null, null, null);
        return new AcpSchema.RequestPermissionRequest(session, call,
                List.of(new AcpSchema.PermissionOption("allow", "Allow", AcpSchema.PermissionOptionKind.ALLOW_ONCE),
                        new AcpSchema.PermissionOption("deny", "Reject", AcpSchema.PermissionOptionKind.REJECT_ONCE)));
    }

    private Mono<AcpSchema.PromptResponse> prompt(AcpSchema.PromptRequest request, PromptContext context) {
        String session = request.sessionId();
        Sinks.Empty<Void> stop = Sinks.empty();
        boolean[] stopped = { false };
        stops.put(session, stop);
        Mono<Void> stopping = stop.asMono().doOnTerminate(() -> stopped[0] = true).cache();
        stopping.subscribe();
        return play(request.text(), session, context, stopping)
            .then(Mono.fromSupplier(() -> new AcpSchema.PromptResponse(
                    stopped[0] ? AcpSchema.StopReason.CANCELLED : AcpSchema.StopReason.END_TURN)));
    }

    private Mono<Void> cancel(AcpSchema.CancelNotification notification) {
        Sinks.Empty<Void> stop = stops.get(notification.sessionId());
        if (stop != null) {
            stop.tryEmitEmpty();
        }
        return Mono.empty();
    }

    static void serve(boolean listen) throws Exception {
        StdioAcpAgentTransport transport = new StdioAcpAgentTransport();
        if (listen) {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                System.out.println("listening " + server.getLocalPort());
                Socket socket = server.accept();
                socket.setTcpNoDelay(true);
                InputStream input = socket.getInputStream();
                OutputStream output = socket.getOutputStream();
                transport = new StdioAcpAgentTransport(AcpJsonMapper.createDefault(), input, output);
            }
        }
        RaceAgent race = new RaceAgent();
        AcpAsyncAgent agent = AcpAgent.async(transport)
            .initializeHandler(request -> Mono.just(AcpSchema.InitializeResponse.ok()))
            .newSessionHandler(request -> Mono
                .just(new AcpSchema.NewSessionResponse("java-" + race.sessions.incrementAndGet(), null, null)))
            .promptHandler(race::prompt)
            .cancelHandler(race::cancel)
            .build();
        agent.start().block();
        agent.awaitTermination().block();
    }

}
