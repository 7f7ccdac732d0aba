"""The global resource manager: whole nodes go to the partition that needs them, while the machine runs.

Brock et al. 2001, section 5, names such a manager without saying how it decides. Here it looks at regular times at the
share of its processors' time that each partition uses, and moves one node when a partition has been above its goal for
several looks and another can spare a node (:mod:`servsim.manager.decide`). Who may have how much is a file
(:mod:`servsim.manager.goals`), what it did and why is a log (:mod:`servsim.manager.host`).
"""

from servsim.manager.decide import Decision, Look, Manager, Move
from servsim.manager.goals import Goal, Goals, load, parse
from servsim.manager.host import Event, manage

__all__ = ["Decision", "Event", "Goal", "Goals", "Look", "Manager", "Move", "load", "manage", "parse"]
