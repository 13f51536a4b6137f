package peer;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

import com.agentclientprotocol.sdk.client.AcpAsyncClient;
import com.agentclientprotocol.sdk.client.AcpClient;
import com.agentclientprotocol.sdk.client.transport.AgentParameters;
import com.agentclientprotocol.sdk.client.transport.StdioAcpClientTransport;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.json.AcpJsonMapper;
import com.agentclientprotocol.sdk.spec.AcpClientSession;
import com.agentclientprotocol.sdk.spec.AcpSchema;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** The client of the cross-SDK suite (interop.matrix.steps). */
final class MatrixClient {

    private static final AcpJsonMapper JSON = AcpJsonMapper.createDefault();

    private static final Duration OP = Duration.ofSeconds(180);

    private final String cwd;

    private final AcpAsyncClient client;

    private final Map<String, String> names = new ConcurrentHashMap<>();

    private final Map<String, Terminal> terminals = new ConcurrentHashMap<>();

    private final List<CompletableFuture<Void>> running = new ArrayList<>();

    private final AtomicReference<String> toCancel = new AtomicReference<>();

    private final List<Sinks.One<AcpSchema.RequestPermissionResponse>> held = new ArrayList<>();

    private volatile String step = "init.initialize";

    private record Terminal(Process process, CompletableFuture<String> output) {
    }

    private MatrixClient(StdioAcpClientTransport transport, String cwd, AcpSchema.ClientCapabilities capabilities) {
        this.cwd = cwd;
        client = AcpClient.async(transport)
            .requestTimeout(OP)
            .clientCapabilities(capabilities)
            .sessionUpdateConsumer(this::updated)
            .requestPermissionHandler(this::permission)
            .readTextFileHandler(this::read)
            .writeTextFileHandler(request -> Mono.fromCallable(() -> {
                Files.writeString(Path.of(request.path()), request.content());
                return made(AcpSchema.WriteTextFileResponse.class, Map.of());
            }))
            .createTerminalHandler(request -> Mono.fromCallable(() -> start(request)))
            .waitForTerminalExitHandler(request -> Mono.fromFuture(() -> ended(request)))
            .terminalOutputHandler(request -> Mono.fromFuture(terminals.get(request.terminalId()).output)
                .map(output -> made(AcpSchema.TerminalOutputResponse.class,
                        Map.of("output", output, "truncated", false))))
            .killTerminalHandler(request -> {
                terminals.get(request.terminalId()).process.destroyForcibly();
                return Mono.just(made(AcpSchema.KillTerminalCommandResponse.class, Map.of()));
            })
            .releaseTerminalHandler(
                    request -> Mono.just(made(AcpSchema.ReleaseTerminalResponse.class, Map.of())))
            .createElicitationHandler(request -> {
                Object mode = made(Map.class, request).get("mode");
                report("elicitation", Map.of("mode", mode));
                return Mono.just(made(AcpSchema.CreateElicitationResponse.class, "form".equals(mode)
                        ? Map.of("action", "accept", "content", Map.of("name", "matrix")) : Map.of("action", "accept")));
            })
            .requestHandler("_matrix/echo", Mono::just)
            .notificationHandler("_matrix/note", params -> {
                report("ext_notification", Map.of("params", params));
                return Mono.empty();
            })
            .notificationHandler("elicitation/complete", params -> {
                report("elicitation_complete", made(Map.class, params));
                return Mono.empty();
            })
            .build();
    }

    private static <T> T made(Class<T> kind, Object value) {
        return JSON.convertValue(value, kind);
    }

    private synchronized void report(String event, Map<?, ?> members) {
        Map<Object, Object> line = new HashMap<>(members);
        line.put("step", step);
        line.put("event", event);
        try {
            System.out.println(JSON.writeValueAsString(line));
        }
        catch (IOException error) {
            throw new IllegalStateException(error);
        }
        System.out.flush();
    }

    private void cancelNow() {
        String session = toCancel.getAndSet(null);
        if (session != null) {
            client.cancel(new AcpSchema.CancelNotification(session)).subscribe(null, null, () -> {
                held.forEach(each -> each.tryEmitValue(
                        new AcpSchema.RequestPermissionResponse(new AcpSchema.PermissionCancelled())));
                held.clear();
            });
        }
    }

    private Mono<Void> updated(AcpSchema.SessionNotification notification) {
        Map<?, ?> params = made(Map.class, notification);
        report("update", Map.of("sessionId", params.get("sessionId"), "update", params.get("update")));
        cancelNow();
        return Mono.empty();
    }

    private Mono<AcpSchema.RequestPermissionResponse> permission(AcpSchema.RequestPermissionRequest request) {
        Map<?, ?> params = made(Map.class, request);
        Map<String, Object> said = new HashMap<>();
        said.put("title", request.toolCall().title());
        said.put("meta", params.get("_meta"));
        report("permission", said);
        if ("hold".equals(request.toolCall().title())) {
            Sinks.One<AcpSchema.RequestPermissionResponse> answer = Sinks.one();
            held.add(answer);
            cancelNow();
            return answer.asMono();
        }
        cancelNow();
        return Mono.just(new AcpSchema.RequestPermissionResponse(
                new AcpSchema.PermissionSelected(request.options().get(0).optionId())));
    }

    private Mono<AcpSchema.ReadTextFileResponse> read(AcpSchema.ReadTextFileRequest request) {
        report("read", Map.of("path", request.path()));
        return Mono.fromCallable(() -> {
            List<String> lines;
            try {
                lines = Files.readString(Path.of(request.path())).lines().map(line -> line + "\n").toList();
            }
            catch (NoSuchFileException error) {
                throw new AcpProtocolException(-32002, "Resource not found");
            }
            int first = request.line() == null ? 0 : request.line() - 1;
            int last = request.limit() == null ? lines.size() : Math.min(lines.size(), first + request.limit());
            String text = request.line() == null ? Files.readString(Path.of(request.path()))
                    : String.join("", lines.subList(first, last));
            return made(AcpSchema.ReadTextFileResponse.class, Map.of("content", text));
        });
    }

    private AcpSchema.CreateTerminalResponse start(AcpSchema.CreateTerminalRequest request) throws IOException {
        List<String> command = new ArrayList<>(List.of(request.command()));
        command.addAll(request.args());
        Process process = new ProcessBuilder(command).directory(Path.of(cwd).toFile()).redirectErrorStream(true).start();
        CompletableFuture<String> output = CompletableFuture.supplyAsync(() -> {
            try {
                return new String(process.getInputStream().readAllBytes());
            }
            catch (IOException error) {
                return "";
            }
        });
        String id = "terminal-" + terminals.size();
        terminals.put(id, new Terminal(process, output));
        return made(AcpSchema.CreateTerminalResponse.class, Map.of("terminalId", id));
    }

    private CompletableFuture<AcpSchema.WaitForTerminalExitResponse> ended(
            AcpSchema.WaitForTerminalExitRequest request) {
        return terminals.get(request.terminalId()).process.onExit()
            .thenApply(process -> made(AcpSchema.WaitForTerminalExitResponse.class,
                    Map.of("exitCode", process.exitValue())));
    }

    // ---- the plan

    private Object filled(Object value) {
        if (value instanceof String text) {
            if (text.contains("$CWD/")) {
                return text.replace("$CWD/", cwd + "/");
            }
            return text.startsWith("$") ? names.get(text.substring(1)) : text;
        }
        if (value instanceof Map<?, ?> members) {
            Map<Object, Object> all = new HashMap<>();
            members.forEach((name, each) -> all.put(name, filled(each)));
            return all;
        }
        return value;
    }

    private CompletableFuture<Void> answered(Supplier<Mono<?>> asked) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        Mono.defer(() -> asked.get()).timeout(OP).subscribe(result -> {
            report("result", Map.of("result", result));
            done.complete(null);
        }, error -> {
            if (error instanceof AcpProtocolException refused) {
                report("error", Map.of("code", refused.getCode(), "message", String.valueOf(error.getMessage())));
            }
            else if (error instanceof AcpClientSession.AcpError refused) {
                report("error", Map.of("code", refused.getCode(), "message", String.valueOf(error.getMessage())));
            }
            else if (error instanceof java.util.concurrent.TimeoutException) {
                report("timeout", Map.of());
            }
            else {
                report("failed", Map.of("error", String.valueOf(error)));
            }
            done.complete(null);
        }, () -> done.complete(null));
        return done;
    }

    private Mono<?> call(String method, Object params) {
        return switch (method) {
            case "authenticate" -> client.authenticate(made(AcpSchema.AuthenticateRequest.class, params));
            case "logout" -> client.logout(made(AcpSchema.LogoutRequest.class, params));
            case "session/list" -> client.listSessions(made(AcpSchema.ListSessionsRequest.class, params));
            case "session/delete" -> client.deleteSession(made(AcpSchema.DeleteSessionRequest.class, params));
            case "session/close" -> client.closeSession(made(AcpSchema.CloseSessionRequest.class, params));
            case "session/set_mode" -> client.setSessionMode(made(AcpSchema.SetSessionModeRequest.class, params));
            case "session/set_config_option" ->
                client.setSessionConfigOption(made(AcpSchema.SetSessionConfigOptionRequest.class, params));
            default -> Mono.error(new UnsupportedOperationException("no way to send " + method));
        };
    }

    private Mono<?> open(String name, String method, Map<?, ?> params) {
        Mono<?> opened = switch (method) {
            case "session/new" -> client.newSession(made(AcpSchema.NewSessionRequest.class, params));
            case "session/load" -> client.loadSession(made(AcpSchema.LoadSessionRequest.class, params));
            default -> client.resumeSession(made(AcpSchema.ResumeSessionRequest.class, params));
        };
        return opened.doOnNext(answer -> {
            Object id = params.containsKey("sessionId") ? params.get("sessionId")
                    : ((AcpSchema.NewSessionResponse) answer).sessionId();
            names.put(name, (String) id);
        });
    }

    private void prompt(String name, String words, Map<?, ?> options) throws Exception {
        int pad = options.containsKey("pad") ? ((Number) options.get("pad")).intValue() : 0;
        Map<String, Object> params = new HashMap<>();
        params.put("sessionId", names.get(name));
        params.put("prompt", List.of(Map.of("type", "text", "text", filled(words) + "x".repeat(pad))));
        params.put("_meta", options.get("meta"));
        if ("session".equals(options.get("cancel"))) {
            toCancel.set(names.get(name));
        }
        CompletableFuture<Void> turn = answered(() -> client.prompt(made(AcpSchema.PromptRequest.class, params)));
        if (options.containsKey("background")) {
            running.add(turn);
        }
        else {
            turn.get();
        }
    }

    private void act(List<?> op) throws Exception {
        switch ((String) op.get(0)) {
            case "call" -> answered(() -> call((String) op.get(1), filled(op.get(2)))).get();
            case "open" ->
                answered(() -> open((String) op.get(1), (String) op.get(2), (Map<?, ?>) filled(op.get(3)))).get();
            case "prompt" -> prompt((String) op.get(1), (String) op.get(2), (Map<?, ?>) op.get(3));
            case "settle" -> {
                for (CompletableFuture<Void> each : running) {
                    each.get();
                }
                running.clear();
            }
            case "close" -> {
                ProcessHandle child = ProcessHandle.current().children().findFirst().orElseThrow();
                client.closeGracefully().block(OP);
                child.onExit().get();
                report("exited", Map.of("code", 0));
            }
            default -> report("failed", Map.of("error", "no way to send the notification " + op.get(1)));
        }
    }

    static void run(String file) throws Exception {
        Map<?, ?> plan = JSON.readValue(Files.readString(Path.of(file)), Map.class);
        List<?> argv = (List<?>) plan.get("agent");
        String[] rest = argv.subList(1, argv.size()).toArray(String[]::new);
        var transport = new StdioAcpClientTransport(
                AgentParameters.builder((String) argv.get(0)).args(rest).build());
        var capabilities = made(AcpSchema.ClientCapabilities.class, plan.get("capabilities"));
        MatrixClient suite = new MatrixClient(transport, (String) plan.get("cwd"), capabilities);
        suite.answered(() -> suite.client.initialize(new AcpSchema.InitializeRequest(1, capabilities))).get();
        for (Object each : (List<?>) plan.get("steps")) {
            Map<?, ?> step = (Map<?, ?>) each;
            suite.step = (String) step.get("id");
            for (Object op : (List<?>) step.get("ops")) {
                suite.act((List<?>) op);
                Thread.sleep(30);
            }
        }
    }

}
