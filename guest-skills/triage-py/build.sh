#!/usr/bin/env bash
# Builds this skill into target/guests/triage-py, from anywhere: bash guest-skills/triage-py/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/python/bin:$PATH"
bash guest-skills/sdk-py/build.sh guest-skills/triage-py wit target/guests/triage-py
