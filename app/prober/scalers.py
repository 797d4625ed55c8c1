"""The scaler of each shoot: it outlives the runner where a person forced a flow."""

from app.prober.environment import Environment
from app.prober.scaler import Scaler


class Scalers:
    """One for each shoot that is probed, or scaled by hand."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._of: dict[str, Scaler] = {}

    def of(self, namespace: str) -> Scaler:
        """The scaler of this shoot."""
        found = self._of.get(namespace)
        if found is None:
            found = self._of[namespace] = Scaler(self._env, namespace)
        return found

    def known(self, namespace: str) -> Scaler | None:
        """The scaler of this shoot, where it has one."""
        return self._of.get(namespace)

    def release(self, namespace: str) -> None:
        """The shoot is not probed: what the scaler remembers goes, unless a flow runs."""
        found = self._of.get(namespace)
        if found is not None and found.idle:
            del self._of[namespace]

    def all(self) -> tuple[Scaler, ...]:
        """All of them."""
        return tuple(self._of.values())
