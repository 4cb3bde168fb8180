// The run that this code is part of.

import * as host from "skillrun:skill/run@0.1.0";

export { attempt, id, remainingMs, skillBody, skillName } from "skillrun:skill/run@0.1.0";

/** The run that handed work to this one, if one did. */
export function parentId(): string | undefined {
  // What is absent comes as null, whatever its type says.
  return host.parentId() ?? undefined;
}
