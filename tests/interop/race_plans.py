"""
Random schedules of prompts and cancellations, the same for each seed, that clients in several languages can follow.

A plan is a list of lines, each a word and its arguments:

    prompt REF SESSION TEXT     send a prompt; do not wait for its answer
    cancel SESSION              session/cancel; permission requests that are open are answered cancelled (V1C3)
    give-up REF                 $/cancel_request for that prompt, as the library has it; nothing once it is answered
    stray REF                   $/cancel_request with that prompt's id, written by hand, answered or not
    permit SESSION              choose the first option of the permission requests that are open
    pause MILLISECONDS
    await REF                   wait for that prompt's answer
    cork, uncork                what is sent between them leaves in one write
    drop                        cut the connection; the last line

Sessions are counted from 0, and are open when the plan begins.
"""

from __future__ import annotations

from random import Random

from attrs import define, field

SESSIONS = 2
ENDLESS = ("polite", "hang", "fail-on-cancel", "permission 1", "permission 3")
ENDING = ("stream 3", "stream 20", "stream 5 0.002", "stream 8 0.004", "fail -32055", "len and nothing more")


@define
class Schedule:
    """
    A plan that grows.

    @ivar strays: whether the client that follows it can write C{$/cancel_request} by hand.
    @ivar give_up: whether it can send C{$/cancel_request} at all.
    """

    random: Random
    strays: bool = True
    give_up: bool = True
    lines: list[str] = field(factory=list)
    refs: int = 0
    waiting: dict[int, tuple[int, bool]] = field(factory=dict)

    def prompt(self) -> int:
        """
        A prompt on any session, busy or not.

        @return: its session.
        """
        session = self.random.randrange(SESSIONS)
        text = self.random.choice(ENDLESS if self.random.random() < 0.5 else ENDING)
        self.lines.append(f"prompt {self.refs} {session} {text}")
        self.waiting[self.refs] = session, text in ENDING
        self.refs += 1
        return session

    def cancel(self, session: int) -> None:
        """
        A cancelled session: all of its prompts so far will be answered.
        """
        self.lines.append(f"cancel {session}")
        self.waiting.update({ref: (of, True) for ref, (of, _) in self.waiting.items() if of == session})

    def any_ref(self) -> int:
        """
        A prompt, rather a late one.
        """
        return self.random.randrange(max(0, self.refs - 6), self.refs)

    def behind(self) -> None:
        """
        A prompt, and its cancellation right behind it in one write.
        """
        self.lines.append("cork")
        session = self.prompt()
        if self.give_up and self.random.random() < 0.5:
            self.lines.append(f"give-up {self.refs - 1}")
        else:
            self.cancel(session)
        self.lines.append("uncork")

    def answered(self) -> None:
        """
        Wait for a prompt that will be answered; and then, sometimes, cancel what is over, or prompt at once.
        """
        ready = [ref for ref, (_, sure) in self.waiting.items() if sure]
        if not ready:
            return
        ref = self.random.choice(ready)
        session, _ = self.waiting.pop(ref)
        self.lines.append(f"await {ref}")
        what = self.random.choice(["cancel", "give-up", "stray", "prompt"])
        if what == "cancel":
            self.cancel(session)
        elif what == "give-up" and self.give_up:
            self.lines.append(f"give-up {ref}")
        elif what == "stray" and self.strays:
            self.lines.append(f"stray {ref}")
        else:
            self.prompt()

    def step(self) -> None:
        """
        The next event or two.
        """
        kind = self.random.choices(
            ["prompt", "behind", "cancel", "give-up", "stray", "permit", "pause", "await"],
            [4, 4, 6, 3 * self.give_up, 2 * self.strays, 1, 4, 6],
        )[0]
        if kind == "prompt" or not self.refs:
            self.prompt()
        elif kind == "behind":
            self.behind()
        elif kind == "cancel":
            self.cancel(self.random.randrange(SESSIONS))
        elif kind in ("give-up", "stray"):
            self.lines.append(f"{kind} {self.any_ref()}")
        elif kind == "permit":
            self.lines.append(f"permit {self.random.randrange(SESSIONS)}")
        elif kind == "pause":
            self.lines.append(f"pause {self.random.choice([0, 1, 2, 5, 15])}")
        else:
            self.answered()


def plan(seed: int, *, events: int = 100, drop: bool = False, strays: bool = True, give_up: bool = True) -> list[str]:
    """
    A schedule.

    @param drop: whether it ends with the connection cut, whatever runs; else everything is answered in the end.
    """
    schedule = Schedule(Random(seed), strays, give_up)
    while len(schedule.lines) < events:
        schedule.step()
    if drop:
        return [*schedule.lines, "drop"]
    for session in range(SESSIONS):
        schedule.cancel(session)
    return [*schedule.lines, *(f"await {ref}" for ref in sorted(schedule.waiting))]
