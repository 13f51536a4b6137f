package peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import com.agentclientprotocol.sdk.agent.AcpAgent;
import com.agentclientprotocol.sdk.agent.AcpAsyncAgent;
import com.agentclientprotocol.sdk.agent.PromptContext;
import com.agentclientprotocol.sdk.agent.transport.StdioAcpAgentTransport;
import com.agentclientprotocol.sdk.error.AcpProtocolException;
import com.agentclientprotocol.sdk.json.AcpJsonMapper;
import com.agentclientprotocol.sdk.spec.AcpAgentSession;
import com.agentclientprotocol.sdk.spec.AcpSchema;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The agent of the cross-SDK suite (interop.matrix.steps). */
final class MatrixAgent {

    private static final AcpJsonMapper JSON = AcpJsonMapper.createDefault();

    private static final Map<String, Object> MODES = Map.of("currentModeId", "ask", "availableModes",
            List.of(Map.of("id", "ask", "name", "Ask"), Map.of("id", "code", "name", "Code")));

    private static final Map<String, Object> TEXT = Map.of("type", "text", "text", "matrix");

    private static final Map<String, Map<String, Object>> UPDATES = Map.ofEntries(
            Map.entry("agent_message_chunk", Map.of("content", TEXT)),
            Map.entry("user_message_chunk", Map.of("content", TEXT)),
            Map.entry("agent_thought_chunk", Map.of("content", TEXT)),
            Map.entry("tool_call",
                    Map.of("toolCallId", "t1", "title", "matrix", "kind", "search", "status", "in_progress")),
            Map.entry("tool_call_update", Map.of("toolCallId", "t1", "status", "completed")),
            Map.entry("plan",
                    Map.of("entries", List.of(Map.of("content", "matrix", "priority", "high", "status", "pending")))),
            Map.entry("available_commands_update",
                    Map.of("availableCommands", List.of(Map.of("name", "matrix", "description", "A command")))),
            Map.entry("current_mode_update", Map.of("currentModeId", "code")),
            Map.entry("config_option_update", Map.of("configOptions", List.of())),
            Map.entry("session_info_update", Map.of("title", "matrix")),
            Map.entry("usage_update", Map.of("used", 10, "size", 1000)));

    private static final class Session {

        String model = "small";

        boolean brave;

        volatile boolean stopped;

    }

    private final Map<String, Session> sessions = new ConcurrentHashMap<>();

    private AcpSchema.InitializeRequest hello;

    private AcpAsyncAgent agent;

    private MatrixAgent() {
    }

    private static <T> T made(Class<T> kind, Object value) {
        return JSON.convertValue(value, kind);
    }

    private static String text(Object value) {
        try {
            return JSON.writeValueAsString(value);
        }
        catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private List<Object> options(Session session) {
        List<Object> found = new ArrayList<>();
        found.add(Map.of("id", "model", "name", "Model", "type", "select", "currentValue", session.model, "options",
                List.of(Map.of("value", "small", "name", "Small"), Map.of("value", "large", "name", "Large"))));
        return found;
    }

    private Map<String, Object> open(String id) {
        Session session = new Session();
        sessions.put(id, session);
        return new HashMap<>(Map.of("modes", MODES, "configOptions", options(session)));
    }

    private Mono<AcpSchema.InitializeResponse> initialize(AcpSchema.InitializeRequest request) {
        hello = request;
        return Mono.just(made(AcpSchema.InitializeResponse.class, Map.of("protocolVersion", 1, "agentInfo",
                Map.of("name", "matrix", "version", "1"), "authMethods",
                List.of(Map.of("id", "matrix-login", "name", "Log in")), "agentCapabilities",
                Map.of("loadSession", true, "promptCapabilities", Map.of("image", true, "embeddedContext", true),
                        "mcpCapabilities", Map.of("http", true), "sessionCapabilities",
                        Map.of("list", Map.of(), "delete", Map.of(), "resume", Map.of(), "close", Map.of()), "auth",
                        Map.of("logout", Map.of())))));
    }

    private final class Turn {

        private final PromptContext context;

        private final AcpSchema.PromptRequest request;

        private final Session session;

        Turn(AcpSchema.PromptRequest request, PromptContext context, Session session) {
            this.request = request;
            this.context = context;
            this.session = session;
        }

        Mono<Void> update(Map<String, Object> update) {
            return context.sendUpdate(request.sessionId(), made(AcpSchema.SessionUpdate.class, update));
        }

        <T> T asked(Class<T> kind, Map<String, Object> params) {
            Map<String, Object> all = new HashMap<>(params);
            all.put("sessionId", request.sessionId());
            return made(kind, all);
        }

        Mono<Void> say(String words) {
            return context.sendMessage(words);
        }

        Mono<Void> read(Map<String, Object> params) {
            return context.readTextFile(asked(AcpSchema.ReadTextFileRequest.class, params))
                .map(AcpSchema.ReadTextFileResponse::content)
                .onErrorResume(error -> Mono.just("error " + code(error)))
                .flatMap(this::say);
        }

        Mono<Void> terminal(boolean kill, String rest) {
            Map<String, Object> command = kill ? Map.of("command", "sleep", "args", List.of("60"))
                    : Map.of("command", "/bin/sh", "args", List.of("-c", rest));
            return context.createTerminal(asked(AcpSchema.CreateTerminalRequest.class, command)).flatMap(made -> {
                Map<String, Object> named = Map.of("terminalId", made.terminalId());
                Mono<?> killed = kill
                        ? context.killTerminal(asked(AcpSchema.KillTerminalCommandRequest.class, named)) : Mono.empty();
                return killed
                    .then(context.waitForTerminalExit(asked(AcpSchema.WaitForTerminalExitRequest.class, named)))
                    .flatMap(ended -> context.getTerminalOutput(asked(AcpSchema.TerminalOutputRequest.class, named))
                        .flatMap(shown -> context.releaseTerminal(asked(AcpSchema.ReleaseTerminalRequest.class, named))
                            .then(say(kill ? "killed"
                                    : text(Map.of("output", shown.output(), "exitCode", ended.exitCode()))))));
            });
        }

        Mono<Void> elicit(Map<String, Object> mode) {
            return context.createElicitation(asked(AcpSchema.CreateElicitationRequest.class, mode))
                .flatMap(answer -> say(text(answer)));
        }

        Mono<AcpSchema.PromptResponse> permission(String title) {
            var asked = asked(AcpSchema.RequestPermissionRequest.class, Map.of("toolCall",
                    Map.of("toolCallId", "t1", "title", title, "kind", "edit", "status", "pending"), "options",
                    List.of(Map.of("optionId", "allow", "name", "Allow", "kind", "allow_once"),
                            Map.of("optionId", "reject", "name", "Reject", "kind", "reject_once")),
                    "_meta", Map.of("matrix", true)));
            return context.requestPermission(asked).flatMap(answer -> {
                boolean cancelled = answer.outcome() instanceof AcpSchema.PermissionCancelled;
                return say(text(answer.outcome())).thenReturn(new AcpSchema.PromptResponse(
                        cancelled ? AcpSchema.StopReason.CANCELLED : AcpSchema.StopReason.END_TURN));
            });
        }

        Mono<AcpSchema.PromptResponse> play(String first, String rest) {
            Mono<Void> done = switch (first) {
                case "say" -> say(rest);
                case "len" -> say(String.valueOf(first.length() + 1 + rest.length()));
                case "big" -> say("x".repeat(Integer.parseInt(rest)));
                case "echo-caps" -> say(text(hello.clientCapabilities()));
                case "fs-read" -> {
                    String[] words = rest.split(" ");
                    yield read(words.length < 3 ? Map.of("path", words[0])
                            : Map.of("path", words[0], "line", Integer.valueOf(words[1]), "limit",
                                    Integer.valueOf(words[2])));
                }
                case "fs-slow" -> context
                    .readTextFile(asked(AcpSchema.ReadTextFileRequest.class, Map.of("path", rest)))
                    .map(AcpSchema.ReadTextFileResponse::content)
                    .timeout(Duration.ofMillis(100), Mono.just("gave up"))
                    .flatMap(this::say);
                case "fs-write" -> {
                    String[] words = rest.split(" ", 2);
                    yield context
                        .writeTextFile(asked(AcpSchema.WriteTextFileRequest.class,
                                Map.of("path", words[0], "content", words[1])))
                        .then(say("written"));
                }
                case "term-run" -> terminal(false, rest);
                case "term-kill" -> terminal(true, rest);
                case "elicit-form" -> elicit(Map.of("message", "Who are you?", "mode", "form", "requestedSchema",
                        Map.of("type", "object", "properties", Map.of("name", Map.of("type", "string")), "required",
                                List.of("name"))));
                case "elicit-url" -> elicit(Map.of("message", "Look", "mode", "url", "elicitationId", "matrix-1", "url",
                        "http://127.0.0.1/matrix"))
                    .then(context.completeElicitation(made(AcpSchema.CompleteElicitationNotification.class,
                            Map.of("elicitationId", "matrix-1"))));
                case "emit" -> {
                    Map<String, Object> update = new HashMap<>(
                            UPDATES.getOrDefault(rest, Map.of("payload", Map.of("kept", 1))));
                    update.put("sessionUpdate", UPDATES.containsKey(rest) ? rest : "matrix_unknown");
                    yield update(update);
                }
                case "enum" -> update(switch (rest) {
                    case "tool_call" -> Map.of("sessionUpdate", rest, "toolCallId", "t2", "title", "odd", "kind",
                            "matrix_odd", "status", "matrix_odd");
                    case "plan" -> Map.of("sessionUpdate", rest, "entries",
                            List.of(Map.of("content", "odd", "priority", "matrix_odd", "status", "matrix_odd")));
                    default -> Map.of("sessionUpdate", "agent_message_chunk", "content", Map.of("type", "text", "text",
                            "odd", "annotations", Map.of("audience", List.of("matrix_odd", "user"))));
                });
                default -> Mono.error(new AcpProtocolException(-32602, "no such directive"));
            };
            return done.thenReturn(AcpSchema.PromptResponse.endTurn());
        }

        Mono<AcpSchema.PromptResponse> answer() {
            String[] words = request.text().split(" ", 2);
            String rest = words.length > 1 ? words[1] : "";
            return switch (words[0]) {
                case "permission" -> permission(rest);
                case "stop" -> Mono.fromSupplier(
                        () -> made(AcpSchema.PromptResponse.class, Map.of("stopReason", rest)));
                case "meta" -> say(text(request.meta()))
                    .thenReturn(new AcpSchema.PromptResponse(AcpSchema.StopReason.END_TURN, request.meta()));
                case "slow" -> Flux.range(0, 200)
                    .delayElements(Duration.ofMillis(20))
                    .takeWhile(n -> !session.stopped)
                    .concatMap(n -> say("tick " + n + " "))
                    .then(Mono.fromSupplier(() -> new AcpSchema.PromptResponse(
                            session.stopped ? AcpSchema.StopReason.CANCELLED : AcpSchema.StopReason.END_TURN)));
                default -> play(words[0], rest);
            };
        }

    }

    private static int code(Throwable error) {
        if (error instanceof AcpProtocolException refused) {
            return refused.getCode();
        }
        return error instanceof AcpAgentSession.AcpError refused ? refused.getCode() : 0;
    }

    private Mono<AcpSchema.PromptResponse> prompt(AcpSchema.PromptRequest request, PromptContext context) {
        Session session = sessions.get(request.sessionId());
        if (session == null) {
            return Mono.error(new AcpProtocolException(-32602, "no such session"));
        }
        session.stopped = false;
        return Mono.defer(() -> new Turn(request, context, session).answer());
    }

    private void stop(String id) {
        Session session = sessions.get(id);
        if (session != null) {
            session.stopped = true;
        }
    }

    static void serve() {
        MatrixAgent matrix = new MatrixAgent();
        matrix.agent = AcpAgent.async(new StdioAcpAgentTransport())
            .initializeHandler(matrix::initialize)
            .authenticateHandler(request -> Mono.just(made(AcpSchema.AuthenticateResponse.class, Map.of())))
            .logoutHandler(request -> Mono.just(made(AcpSchema.LogoutResponse.class, Map.of())))
            .newSessionHandler(request -> {
                String id = "matrix-" + matrix.sessions.size();
                Map<String, Object> opened = matrix.open(id);
                opened.put("sessionId", id);
                return Mono.just(made(AcpSchema.NewSessionResponse.class, opened));
            })
            .loadSessionHandler(request -> {
                Map<String, Object> opened = matrix.open(request.sessionId());
                Map<String, Object> earlier = Map.of("sessionUpdate", "agent_message_chunk", "content",
                        Map.of("type", "text", "text", "earlier"));
                return matrix.agent
                    .sendSessionUpdate(request.sessionId(), made(AcpSchema.SessionUpdate.class, earlier))
                    .thenReturn(made(AcpSchema.LoadSessionResponse.class, opened));
            })
            .resumeSessionHandler(request -> Mono
                .just(made(AcpSchema.ResumeSessionResponse.class, matrix.open(request.sessionId()))))
            .listSessionsHandler(request -> Mono.just(made(AcpSchema.ListSessionsResponse.class,
                    Map.of("sessions", List.of(Map.of("sessionId", "stored", "cwd", "/"))))))
            .closeSessionHandler(request -> {
                matrix.stop(request.sessionId());
                matrix.sessions.remove(request.sessionId());
                return Mono.just(made(AcpSchema.CloseSessionResponse.class, Map.of()));
            })
            .deleteSessionHandler(request -> Mono.just(made(AcpSchema.DeleteSessionResponse.class, Map.of())))
            .setSessionModeHandler(request -> Mono.just(made(AcpSchema.SetSessionModeResponse.class, Map.of())))
            .setSessionConfigOptionHandler(request -> {
                Session session = matrix.sessions.get(request.sessionId());
                if (request.value() instanceof Boolean brave) {
                    session.brave = brave;
                }
                else {
                    session.model = String.valueOf(request.value());
                }
                return Mono.just(made(AcpSchema.SetSessionConfigOptionResponse.class,
                        Map.of("configOptions", matrix.options(session))));
            })
            .promptHandler(matrix::prompt)
            .cancelHandler(notification -> {
                matrix.stop(notification.sessionId());
                return Mono.empty();
            })
            .build();
        matrix.agent.start().block();
        matrix.agent.awaitTermination().block();
    }

}
