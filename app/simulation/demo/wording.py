"""What a screen shows at one instant, and what happens, as lines of text; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from app.core.errors import trimmed
from app.core.model.instants import format_duration
from app.core.model.probing import ShootState
from app.simulation.demo.losses import (
    Comparison,
    Fates,
    GateOutcome,
    Harm,
    Toll,
    added_up,
    is_gated,
)
from app.simulation.demo.pod_story import (
    NOTHING_SAVED,
    AllBack,
    Back,
    Deleted,
    Happening,
    Saving,
    ServiceBack,
)
from app.simulation.demo.program_api import DemoLeases, ShootReport
from app.simulation.scenarios.player import Performance
from app.simulation.scenarios.scenario import Nobody, Scene, short

CONTROLLERS: Final = {
    "kcm": "kube-controller-manager",
    "mcm": "machine-controller-manager",
    "ca": "cluster-autoscaler",
}
"""The columns of replicas: their heads, and whose they are."""

STARTING: Final = "Starting"
"""In the place of a state before there is one."""

_RANKS: Final = {state: rank for rank, state in enumerate(ShootState)}
_SETTLED: Final = frozenset({ShootState.HEALTHY, ShootState.NOT_PROBED})
_UNSEEN: Final = len(_RANKS)


@dataclass(frozen=True, slots=True)
class TrueReplicas:
    """The true replicas of a controller."""

    wanted: int
    ready: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.wanted}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a shoot."""

    shoot: str
    """Its short name."""
    state: ShootState | None
    reason: str
    leases: DemoLeases | None
    """As of the last probe; None where it read none."""
    replicas: tuple[TrueReplicas | None, ...]
    """One for each of CONTROLLERS; None where it does not exist."""
    scenes: tuple[str, ...] = ()
    """The actions of the scenes that it is in."""
    waiting: int = 0
    """Its pods that wait in CrashLoopBackOff."""

    @property
    def happens(self) -> str:
        """What happens to it: `etcd-outage, 5 waiting`."""
        waiting = (f"{self.waiting} waiting",) if self.waiting else ()
        return ", ".join((*self.scenes, *waiting))

    @property
    def settled(self) -> bool:
        """Whether the shoot is in a normal state, in no scene, and without waiting pods."""
        return self.state in _SETTLED and not self.happens

    @property
    def word(self) -> str:
        """Its state, as a word."""
        return STARTING if self.state is None else str(self.state)


def row(
    shoot: str,
    said: ShootReport | None,
    replicas: Iterable[TrueReplicas | None],
    scenes: Mapping[str, Sequence[str]],
    waiting: int = 0,
) -> Row:
    """Builds the row of one shoot.

    Args:
        shoot: its short name.
        said: what the program says of it; None: nothing yet.
        replicas: its controllers, as they truly are.
        scenes: the actions that each shoot is in the middle of.
        waiting: its pods that wait in CrashLoopBackOff.
    """
    mine = tuple(scenes.get(shoot, ()))
    if said is None:
        return Row(shoot, None, "", None, tuple(replicas), mine, waiting)
    seen = None if said.old else said.leases
    return Row(shoot, said.state, said.reason, seen, tuple(replicas), mine, waiting)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Worst first; of one state, those to which something happens first; else in the order in which they came."""
    return sorted(rows, key=lambda each: (_rank(each.state), not each.happens))


def _rank(state: ShootState | None) -> int:
    return _UNSEEN if state is None else _RANKS[state]


def counted(rows: Iterable[Row]) -> str:
    """How many are in which state, worst first: `1 Protected, 29 Healthy`."""
    found = Counter((_rank(each.state), each.word) for each in rows)
    return ", ".join(f"{number} {word}" for (_, word), number in sorted(found.items()))


def leases(seen: DemoLeases | None) -> str:
    """`10 fresh`, or what else there is: `3 fresh, 7 expired of 10`."""
    if seen is None:
        return "-"
    parts = [(seen.fresh, "fresh"), (seen.expired, "expired"), (seen.unknown, "unknown")]
    shown = [f"{number} {word}" for number, word in parts if number]
    whole = f" of {seen.candidates}" if len(shown) > 1 else ""
    return (", ".join(shown) or "none") + whole


def shown(rows: Sequence[Row], room: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """The rows that fit into so many lines, and those that do not: a line is kept to say how many these are."""
    if len(rows) <= room:
        return rows, ()
    kept = max(room - 1, 0)
    return rows[:kept], rows[kept:]


# What a screen shows at one instant.


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line that reports an event."""

    at: float
    """Seconds since the start."""
    text: str


@dataclass(frozen=True, slots=True)
class Pods:
    """Numbers of pods in all control planes."""

    waiting: int = 0
    """Pods waiting in CrashLoopBackOff."""
    waiting_without: int = 0
    """The same in the world without a watchdog."""
    saving: Saving = NOTHING_SAVED

    def __bool__(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.waiting or self.waiting_without or self.saving)


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that a screen shows."""

    elapsed: float
    """Seconds since the start."""
    now: float
    scenario: str
    running: tuple[Performance, ...]
    rows: tuple[Row, ...]
    """Worst first."""
    lost: Comparison
    latest: tuple[EventLine, ...]
    """Event lines, the newest last."""
    hints: tuple[str, ...]
    """Commands for a closer look."""
    pods: Pods = Pods()
    trouble: str = ""
    """Why the rows are out of date; empty if they are current."""
    over: bool = False
    """Whether the scenario has ended."""

    @property
    def unsettled(self) -> int:
        """The number of shoots that are not in their normal state."""
        return sum(not row.settled for row in self.rows)


_MINUTE: Final = 60
# The maximum number of shoots that a line names; the others are only counted.
_NAMED: Final = 3
BELOW_LIMIT: Final = "below the limit"
"""The heading of losses where too few nodes were cut off for a scale-down."""
# The width of a scene's title in a table.
_TITLE: Final = 45
# States that are not reported when a shoot is first seen.
_EASY: Final = frozenset({ShootState.PENDING, ShootState.HEALTHY})


def stamp(seconds: float) -> str:
    """Formats the time since the start: `+1:05`."""
    minutes, rest = divmod(max(int(seconds), 0), _MINUTE)
    return f"+{minutes}:{rest:02}"


def spoken(seconds: float) -> str:
    """Formats a duration in whole seconds: `9 s`, `2 min 41 s`, `1 h 5 min`."""
    sign, whole = "-" if seconds < 0 else "", round(abs(seconds))
    minutes, rest = divmod(whole, _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{sign}{hours} h {minutes} min"
    return sign + (f"{minutes} min {rest} s" if minutes else f"{rest} s")


def shoots(count: int) -> str:
    """Formats a number of shoots: `1 shoot`, `30 shoots`."""
    return f"{count} shoot" + ("" if count == 1 else "s")


def names(shoots: Sequence[str], whole: int) -> str:
    """Names shoots: `all 30 shoots`, or up to three names and the number of others; `whole` is the total."""
    if len(shoots) > _NAMED and len(shoots) == whole:
        return f"all {whole} shoots"
    if len(shoots) <= _NAMED:
        return ", ".join(shoots)
    return f"{', '.join(shoots[:_NAMED])} and {len(shoots) - _NAMED} more"


def who(performance: Performance, whole: int) -> str:
    """Returns what a scene affects: the seed, or shoots."""
    seed = isinstance(performance.scene.chosen, Nobody)
    return "the seed" if seed else names(performance.shoots, whole)


def how_long(scene: Scene) -> str:
    """Formats the duration of a scene: ` (for 45s)`, ` (3 times for 45s)`, or empty."""
    timing = scene.timing
    if not timing.lasting:
        return ""
    several = f"{timing.times} times " if timing.times > 1 else ""
    return f" ({several}for {format_duration(timing.lasting)})"


def scene_begins(performance: Performance, whole: int) -> str:
    """Reports the start of a scene."""
    scene = performance.scene
    told = f"{who(performance, whole)}: {scene.say}"
    return f"scene {performance.number} begins: {told}{how_long(scene)}"


def scene_ends(performance: Performance, whole: int, lost: Comparison) -> str:
    """Reports the end of a scene, and its losses so far."""
    lines = f"{who(performance, whole)}; {lost_words(lost)}"
    return f"scene {performance.number} is over: {lines}"


def lost_words(lost: Comparison) -> str:
    """Formats both columns in one line: `nodes marked NotReady: 0, without the watchdog 10; …`."""
    mine, theirs = lost.having, lost.lacking
    words = (
        f"{Harm.NODE}: {mine.nodes}, without the watchdog {theirs.nodes}; "
        f"{Harm.MACHINE}: {mine.machines}, without {theirs.machines}"
    )
    return f"{words}; {BELOW_LIMIT}: {below_words(lost)}" if any(lost.below) else words


def below_words(lost: Comparison) -> str:
    """Formats losses below the limit: `nodes 59, without the watchdog 59`, and machines if there are any."""
    mine, theirs = lost.below
    words = f"nodes {mine.nodes}, without the watchdog {theirs.nodes}"
    if mine.machines or theirs.machines:
        words += f"; machines {mine.machines}, without {theirs.machines}"
    return words


def pods_changed(happening: Happening) -> str:
    """Reports an event of the pods of a control plane."""
    match happening:
        case ServiceBack(shoot, service, waiting):
            waits = f"; {_pods(waiting)} in CrashLoopBackOff" if waiting else ""
            return f"{shoot}: {service} is ready again{waits}"
        case Deleted(restart):
            left = "" if restart.due is None else spoken(restart.due - restart.at)
            before = f", {left} before its start" if left else ""
            return f"{restart.shoot}: {restart.pod} is deleted{before}"
        case Back(restart, after, of):
            which = f"{restart.workload} ({restart.ready} of {of})" if of > 1 else restart.workload
            otherwise = "" if restart.due is None else spoken(restart.due - restart.since)
            instead = f" instead of {otherwise}" if otherwise else ""
            return f"{restart.shoot}: {which} is back after {spoken(after)}{instead}"
        case AllBack(shoot, pods, service, after):
            return f"{shoot}: all {_pods(pods)} are ready, {spoken(after)} after {service}"
        case _:
            assert_never(happening)


def without_us(over: AllBack) -> str:
    """Reports the end of a recovery in the world without a watchdog."""
    return f"without the watchdog, {pods_changed(over)} there"


def _pods(count: int) -> str:
    return f"{count} pod" + ("" if count == 1 else "s")


def pod_words(pods: Pods) -> str:
    """Formats numbers of pods: `pods waiting: 0, without the watchdog 9; 8 pods restarted, …`."""
    waiting = f"pods waiting: {pods.waiting}, without the watchdog {pods.waiting_without}"
    return f"{waiting}; {saved_words(pods.saving)}" if pods.saving else waiting


def saved_words(saving: Saving) -> str:
    """Formats savings: `8 pods restarted: 17 min 1 s sooner in all, 2 min 40 s at most`."""
    sooner = f"{spoken(saving.seconds)} sooner in all, {spoken(saving.most)} at most"
    return f"{_pods(saving.restarts)} restarted: {sooner}"


def changes(
    before: Mapping[str, ShootReport], after: Mapping[str, ShootReport], whole: int
) -> list[str]:
    """Reports shoots whose state changed, with one line for all that changed in the same way."""
    alike: defaultdict[tuple[str, ShootState, str], list[str]] = defaultdict(list)
    for namespace in sorted(after, key=_natural):
        said, was = after[namespace], before.get(namespace)
        if _is_news(was, said):
            came_from = "" if was is None or was.state is said.state else f"{was.state} → "
            alike[(came_from, said.state, said.reason)].append(namespace)
    return [_change(key, found, after, whole) for key, found in alike.items()]


def _natural(namespace: str) -> tuple[int, str]:
    # Sorts s9 before s10.
    return len(namespace), namespace


def _is_news(was: ShootReport | None, said: ShootReport) -> bool:
    if was is None:
        return said.state not in _EASY
    if is_gated(said) and not is_gated(was):
        return True
    return was.state is not said.state and not (was.state in _EASY and said.state in _EASY)


def _change(
    key: tuple[str, ShootState, str],
    found: Sequence[str],
    after: Mapping[str, ShootReport],
    whole: int,
) -> str:
    came_from, state, reason = key
    shoots = names([short(each) for each in found], whole)
    return trimmed(f"{shoots}: {came_from}{state} ({reason}): {after[found[0]].message}")


def summary(
    performances: Iterable[Performance],
    lost: Mapping[int, Comparison],
    together: Comparison,
    whole: int,
) -> list[str]:
    """Returns the final table of losses by scene, with the watchdog and without it."""
    head = f"{'':<46}{Harm.NODE:^24}{Harm.MACHINE:^20}"
    columns = f"{'scene':<46}{'with':>10}{'without':>11}{'with':>11}{'without':>11}"
    lines: list[str] = []
    for each in performances:
        if each.number in lost:
            lines += _lines(_title(each, whole), lost[each.number])
    lines.append(_line("all together", together.having, together.lacking))
    if any(together.below):
        lines.append(_line(f"{BELOW_LIMIT}, where nothing is scaled", *together.below))
    return [head, columns, *lines]


def _lines(title: str, lost: Comparison) -> list[str]:
    """Returns the lines of a scene; losses below the limit get a separate line."""
    if not any(lost.below):
        return [_line(title, lost.having, lost.lacking)]
    suffix = f", {BELOW_LIMIT}"
    below = _line(title[: _TITLE - len(suffix)] + suffix, *lost.below)
    if not (lost.having or lost.lacking):
        return [below]
    return [_line(title, lost.having, lost.lacking), below]


def _title(performance: Performance, whole: int) -> str:
    return f"{performance.number:>2} {performance.scene.action}: {who(performance, whole)}"


def _line(title: str, mine: Toll, theirs: Toll) -> str:
    numbers = f"{mine.nodes:>10}{theirs.nodes:>11}{mine.machines:>11}{theirs.machines:>11}"
    return f"{title[:_TITLE]:<46}{numbers}"


def summary_of_pods(
    performances: Iterable[Performance],
    saved: Mapping[int, Saving],
    together: Saving,
    whole: int,
) -> list[str]:
    """Returns the final table of restarted pods by scene, and the time saved."""
    head = f"{'scene':<46}{'pods restarted':>15}{'sooner in all':>15}{'at most':>13}"
    lines = [
        _saved_line(_title(each, whole), saved[each.number])
        for each in performances
        if saved[each.number]
    ]
    return [head, *lines, _saved_line("all together", together)]


def _saved_line(title: str, saved: Saving) -> str:
    times = f"{spoken(saved.seconds):>15}{spoken(saved.most):>13}"
    return f"{title[:_TITLE]:<46}{saved.restarts:>15}{times}"


def summary_of_gate(
    performances: Iterable[Performance], fates: Mapping[int, Fates], whole: int
) -> list[str]:
    """Returns the final table of shoots that were scaled down, and of those that only a closed gate kept from it."""
    head = f"{'scene':<46}" + "".join(f"{fate:>24}" for fate in GateOutcome)
    lines = [_fates_line(_title(each, whole), fates[each.number]) for each in performances]
    return [head, *lines, _fates_line("all together", added_up(fates.values()))]


def _fates_line(title: str, fates: Fates) -> str:
    return f"{title[:_TITLE]:<46}" + "".join(f"{shoots(fates[fate]):>24}" for fate in GateOutcome)
