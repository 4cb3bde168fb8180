#!/usr/bin/env bash
# Builds this agent into target/guests/chat-ts, from anywhere: bash guest-skills/chat-ts/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/node_modules/.bin:$PATH"
bash guest-skills/sdk-ts/build.sh guest-skills/chat-ts wit target/guests/chat-ts
