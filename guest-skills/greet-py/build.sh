#!/usr/bin/env bash
# Builds this skill into target/guests/greet-py, from anywhere: bash guest-skills/greet-py/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/python/bin:$PATH"
bash guest-skills/sdk-py/build.sh guest-skills/greet-py wit target/guests/greet-py
