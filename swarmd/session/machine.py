"""The runners' host for a set of places."""

from __future__ import annotations

import os

from swarmd.places import Places
from swarmd.runners import cgroup
from swarmd.runners.host import Host


def host_of(places: Places) -> Host:
    """This machine as the sessions of this state see it."""
    return Host.here(
        state=str(places.state),
        runtime=str(places.runtime),
        agents=str(places.agents),
        credentials=os.environ.get("CREDENTIALS_DIRECTORY"),
        cgroup=cgroup.delegated(),
    )
