"""The run that this code is part of."""

from wit_world.imports.run import attempt, id, parent_id, remaining_ms, skill_body, skill_name

__all__ = ["attempt", "id", "parent_id", "remaining_ms", "skill_body", "skill_name"]
