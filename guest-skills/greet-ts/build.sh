#!/usr/bin/env bash
# Builds this skill into target/guests/greet-ts, from anywhere: bash guest-skills/greet-ts/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/node_modules/.bin:$PATH"
bash guest-skills/sdk-ts/build.sh guest-skills/greet-ts wit target/guests/greet-ts
