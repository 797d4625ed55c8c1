"""What each call needs: the verb and resource that a SubjectAccessReview is asked for, and the role."""

from enum import Enum

from app.core.model.callers import Access, Role


class Call(Enum):
    """One row of the table "Who may call"."""

    READ_SHOOT = ("get", "shoots", Role.VIEWER)
    LIST = ("list", "shoots", Role.VIEWER)
    READ_AUDIT = ("get", "audit", Role.VIEWER)
    READ_CONFIG = ("get", "config", Role.VIEWER)
    PROBE = ("create", "shoots/probe", Role.OPERATOR)
    WEED = ("create", "shoots/recoveries", Role.OPERATOR)
    PAUSE = ("update", "shoots/pause", Role.OPERATOR)
    RESUME = ("delete", "shoots/pause", Role.OPERATOR)
    IGNORE = ("update", "shoots/ignore-scaling", Role.OPERATOR)
    UNIGNORE = ("delete", "shoots/ignore-scaling", Role.OPERATOR)
    PAUSE_ALL = ("update", "shoots/pause", Role.ADMIN)
    RESUME_ALL = ("delete", "shoots/pause", Role.ADMIN)
    SCALE = ("create", "shoots/scale", Role.ADMIN)
    CANCEL = ("delete", "shoots/scale", Role.ADMIN)
    LOG_LEVEL = ("update", "config", Role.ADMIN)

    def __init__(self, verb: str, resource: str, role: Role) -> None:
        self.verb = verb
        self.resource = resource
        self.role = role
        """The least one that may."""

    @property
    def writes(self) -> bool:
        """Whether it changes something: its review is never taken from a cache."""
        return self.verb not in {"get", "list"}

    def access(self, namespace: str = "") -> Access:
        """What is asked for; `namespace` is the shoot's, empty for all."""
        return Access(self.verb, self.resource, namespace)
