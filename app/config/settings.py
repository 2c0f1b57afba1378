"""Every setting: one field of :class:`Settings`, whose metadata names its variable, its default and its meaning.

Law of this room: declarations alone, a module for each group of them; the reference page, the start-up checks and the
code read them.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.config.of_models import ModelSettings
from app.config.of_runs import RunSettings
from app.config.of_server import ServerSettings
from app.config.of_visitors import VisitorSettings
from app.config.of_watching import WatchSettings

#: The groups in the order of the reference page. The first line of each one's docstring is its title there.
GROUPS = (ServerSettings, RunSettings, ModelSettings, VisitorSettings, WatchSettings)


@dataclass(frozen=True, kw_only=True)
class Settings(ServerSettings, RunSettings, ModelSettings, VisitorSettings, WatchSettings):
    """Everything that can be configured; immutable for the life of the process. Made by :func:`app.config.load`."""

    def __post_init__(self) -> None:
        """Fill in what depends on another field, so that a Settings made in a test is complete too."""
        if not self.database_url:
            object.__setattr__(self, "database_url", f"sqlite:///{self.data_dir / 'studio.db'}")
