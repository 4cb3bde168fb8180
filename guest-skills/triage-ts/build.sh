#!/usr/bin/env bash
# Builds this skill into target/guests/triage-ts, from anywhere: bash guest-skills/triage-ts/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/node_modules/.bin:$PATH"
bash guest-skills/sdk-ts/build.sh guest-skills/triage-ts wit target/guests/triage-ts
