"""
The last step from a decorated class to an agent: its methods become handlers of a builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve, frozen
from twisted.logger import Logger

from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder
from acp_twisted.agent.annotations.invoke import ByVersion, Calling
from acp_twisted.agent.annotations.marks import AgentMark, Mark
from acp_twisted.agent.annotations.returns import union_of
from acp_twisted.agent.annotations.versions import version_of
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from acp_twisted.agent.v2.agent import VersionedAgent, VersionedAgentBuilder
    from acp_twisted.schema import v2

_log = Logger()


@frozen
class Serving:
    """
    A decorated method on its way into a builder.

    @ivar mark: the decorator.
    @ivar callings: how it is called in each version that it serves.
    @ivar apart: whether it is set for each version by itself: it names classes of versions, or does not serve all that
        it could.
    """

    mark: Mark
    callings: dict[int, Calling]
    apart: bool

    @property
    def handler(self) -> Any:
        """
        The handler to be set, for all of its versions.
        """
        return ByVersion(self.callings) if len(self.callings) > 1 else next(iter(self.callings.values()))

    @property
    def where(self) -> str:
        """
        Class, method and decorator.
        """
        return str(next(iter(self.callings.values())).handler)


def set_handlers(builder: AcpAgentBuilder, methods: Sequence[Serving]) -> None:
    """
    Set each method for the versions that it serves.
    """
    if 2 not in builder.spoken_versions:
        for each in methods:
            _set(builder, each.mark, each.handler)
        return
    versioned = cast("VersionedAgentBuilder", builder)
    chosen = versioned.chosen_versions
    resumes = any(each.mark.method == "session/resume" and each.apart and 2 in each.callings for each in methods)
    for each in methods:
        # Whoever resumes in the words of version 2 replays there, unless somebody loads in them.
        if not (each.apart or (resumes and each.mark.method == "session/load")):
            _set(builder, each.mark, each.handler)
            continue
        for version, calling in each.callings.items():
            _set(versioned.for_versions(version), each.mark, calling)
        versioned.for_versions(*chosen)


def _set(builder: AcpAgentBuilder, mark: Mark, handler: Any) -> None:
    setter = getattr(builder, f"{mark.decorator}_handler")
    if mark.decorator.startswith("ext_"):
        setter(mark.method, handler)
    else:
        setter(handler)


def set_auth_methods(builder: AcpAgentBuilder, mark: AgentMark) -> None:
    """
    Set the ways to authenticate, those of version 2 for that version.
    """
    first = [each for each in mark.auth_methods if version_of(type(each)) != 2]
    second = [each for each in mark.auth_methods if version_of(type(each)) == 2]
    if first:
        builder.auth_methods(first)
    if second:
        cast("VersionedAgentBuilder", builder).auth_methods_v2(second)


def warn_of_gaps(builder: AcpAgentBuilder, methods: Sequence[Serving], versions: Sequence[int]) -> None:
    """
    A method for one version alone may be meant so, or not: what the agent does not do in the other one is logged.
    """
    for each in methods:
        if each.mark.key == "session/load":  # in version 2 there are several ways to it
            continue
        for version in versions:
            name = each.mark.name_in(version)
            if version in each.mark.versions and not builder.handles(name, version):
                _log.warn(
                    "{method} does not serve version {version}, and nothing else handles {name} there",
                    method=each.where,
                    version=version,
                    name=name,
                )


def unanswered_logins(builder: AcpAgentBuilder) -> str | None:
    """
    What stands against the ways to authenticate: that nothing handles them.
    """
    if 1 in builder.spoken_versions and builder.promises_authentication and not builder.handles("authenticate"):
        return "its auth_methods promise what nothing handles; decorate a method with @authenticate"
    if 2 in builder.spoken_versions and cast("VersionedAgentBuilder", builder).promises_login:
        needed = {"@authenticate": "auth/login", "@logout": "auth/logout"}
        missing = [each for each, name in needed.items() if not builder.handles(name, 2)]
        if missing:
            return (
                f"its auth_methods promise what nothing handles in version 2; decorate a method with "
                f"{' and one with '.join(missing)}"
            )
    return None


def with_capabilities(agent: AcpAgent, mark: AgentMark, methods: Sequence[Serving]) -> AcpAgent:
    """
    The agent, with what the decorators' arguments say it can do.
    """
    prompts = {version: each.mark for each in methods if each.mark.decorator == "prompt" for version in each.callings}
    agent = evolve(agent, capabilities=union_of(agent.capabilities, _capabilities(mark, prompts.get(1))))
    if not hasattr(agent, "second"):
        return agent
    versioned = cast("VersionedAgent", agent)
    said = versioned.second.capabilities
    if said.session is not None:
        session = union_of(said.session, _session_capabilities(mark, prompts.get(2)))
        said = evolve(said, session=session)
    return evolve(versioned, second=evolve(versioned.second, capabilities=said))


def _capabilities(mark: AgentMark, prompt: Mark | None) -> v1.AgentCapabilities:
    more = v1.SessionAdditionalDirectoriesCapabilities() if mark.additional_directories else None
    said = v1.AgentCapabilities(
        mcp_capabilities=v1.McpCapabilities(http=mark.mcp_http, sse=mark.mcp_sse),
        session_capabilities=v1.SessionCapabilities(additional_directories=more),
    )
    if prompt is not None:
        said.prompt_capabilities = v1.PromptCapabilities(
            image=prompt.image, audio=prompt.audio, embedded_context=prompt.embedded_context
        )
    return said


def _session_capabilities(mark: AgentMark, prompt: Mark | None) -> v2.SessionCapabilities:
    """
    The same in the words of version 2, which says nothing of what it has not.
    """
    from acp_twisted.schema import v2  # noqa: PLC0415

    said = v2.SessionCapabilities()
    if mark.additional_directories:
        said.additional_directories = v2.SessionAdditionalDirectoriesCapabilities()
    if mark.mcp_http:
        said.mcp = v2.McpCapabilities(http=v2.McpHttpCapabilities())
    if prompt is not None and (prompt.image or prompt.audio or prompt.embedded_context):
        said.prompt = v2.PromptCapabilities(
            image=v2.PromptImageCapabilities() if prompt.image else None,
            audio=v2.PromptAudioCapabilities() if prompt.audio else None,
            embedded_context=v2.PromptEmbeddedContextCapabilities() if prompt.embedded_context else None,
        )
    return said
