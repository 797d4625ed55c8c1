"""The states of a shoot, as the dashboards colour and number them."""

from collections.abc import Mapping
from typing import Final

from app.core.model.probing import ShootState

COLOURS: Final[Mapping[str, str]] = {
    ShootState.UNPROTECTED: "#e0218a",
    ShootState.PROTECTED: "red",
    ShootState.PROTECTING: "dark-red",
    ShootState.RECOVERING: "purple",
    ShootState.UNREACHABLE: "dark-orange",
    ShootState.FAILING: "orange",
    ShootState.SUSPECT: "yellow",
    ShootState.PENDING: "blue",
    ShootState.HEALTHY: "green",
    ShootState.NOT_PROBED: "#808080",
}
NUMBERS: Final = {state: number for number, state in enumerate(ShootState, start=1)}
"""What stands for each state where a panel needs numbers: from 1, the worst."""
WORDS: Final = {number: (str(state), COLOURS[state]) for state, number in NUMBERS.items()}
