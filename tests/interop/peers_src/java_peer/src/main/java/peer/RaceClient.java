package peer;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

import com.agentclientprotocol.sdk.client.AcpAsyncClient;
import com.agentclientprotocol.sdk.client.AcpClient;
import com.agentclientprotocol.sdk.client.transport.AgentParameters;
import com.agentclientprotocol.sdk.client.transport.StdioAcpClientTransport;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.spec.AcpClientSession;
import com.agentclientprotocol.sdk.spec.AcpSchema;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** Follows a plan without give-up and stray, and prints one JSON line per answer. */
final class RaceClient {

    private record Held(AcpSchema.RequestPermissionRequest request,
            Sinks.One<AcpSchema.RequestPermissionResponse> answer) {
    }

    private final List<Held> held = new CopyOnWriteArrayList<>();

    private final Map<String, CompletableFuture<Void>> answers = new ConcurrentHashMap<>();

    private final List<String> sessions = new CopyOnWriteArrayList<>();

    private final AcpAsyncClient client;

    private RaceClient(StdioAcpClientTransport transport) {
        client = AcpClient.async(transport)
            .requestTimeout(Duration.ofSeconds(180))
            .requestPermissionHandler(this::permission)
            .sessionUpdateConsumer(update -> Mono.empty())
            .build();
    }

    private Mono<AcpSchema.RequestPermissionResponse> permission(AcpSchema.RequestPermissionRequest request) {
        Sinks.One<AcpSchema.RequestPermissionResponse> answer = Sinks.one();
        held.add(new Held(request, answer));
        return answer.asMono();
    }

    private void settle(String session, boolean choose) {
        for (Held each : held) {
            if (each.request.sessionId().equals(session)) {
                held.remove(each);
                each.answer.tryEmitValue(new AcpSchema.RequestPermissionResponse(
                        choose ? new AcpSchema.PermissionSelected(each.request.options().get(0).optionId())
                                : new AcpSchema.PermissionCancelled()));
            }
        }
    }

    private static synchronized void report(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String outcome(Throwable error) {
        if (error instanceof AcpProtocolException refused) {
            return String.valueOf(refused.getCode());
        }
        if (error instanceof AcpClientSession.AcpError refused) {
            return String.valueOf(refused.getCode());
        }
        error.printStackTrace();
        return "\"" + error.getClass().getSimpleName() + "\"";
    }

    private void prompt(String ref, String session, String text) {
        CompletableFuture<Void> answered = new CompletableFuture<>();
        answers.put(ref, answered);
        client.prompt(new AcpSchema.PromptRequest(session, List.of(new AcpSchema.TextContent(text))))
            .map(response -> "\"" + response.stopReason().name().toLowerCase() + "\"")
            .onErrorResume(error -> Mono.just(outcome(error)))
            .subscribe(outcome -> {
                report("{\"ref\":" + ref + ",\"outcome\":" + outcome + "}");
                answered.complete(null);
            });
    }

    private void follow(List<String> plan) throws Exception {
        client.initialize().block();
        for (int n = 0; n < 2; n++) {
            sessions.add(client.newSession(new AcpSchema.NewSessionRequest("/", List.of())).block().sessionId());
        }
        for (String line : plan) {
            String[] words = line.split(" ", 4);
            switch (words[0]) {
                case "prompt" -> prompt(words[1], sessions.get(Integer.parseInt(words[2])), words[3]);
                case "cancel" -> {
                    String session = sessions.get(Integer.parseInt(words[1]));
                    client.cancel(new AcpSchema.CancelNotification(session)).block();
                    settle(session, false);
                }
                case "permit" -> settle(sessions.get(Integer.parseInt(words[1])), true);
                case "pause" -> Thread.sleep(Long.parseLong(words[1]));
                case "await" -> answers.get(words[1]).get();
                case "cork", "uncork" -> {
                    // The SDK writes each message by itself; the next one follows at once.
                }
                case "drop" -> {
                    ProcessHandle.current().children().forEach(ProcessHandle::destroyForcibly);
                    Runtime.getRuntime().halt(0);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        report("{\"finished\":true}");
    }

    static void run(String[] arguments) throws Exception {
        List<String> plan = Files.readAllLines(Path.of(arguments[1]));
        String[] rest = Arrays.copyOfRange(arguments, 4, arguments.length);
        var transport = new StdioAcpClientTransport(AgentParameters.builder(arguments[3]).args(rest).build());
        RaceClient race = new RaceClient(transport);
        race.follow(plan);
        race.client.closeGracefully().block(Duration.ofSeconds(180));
    }

}
