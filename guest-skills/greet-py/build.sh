#!/usr/bin/env bash
# Builds this skill into target/guests/greet-py, from anywhere: bash guest-skills/greet-py/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/python/bin:$PATH"
source=guest-skills/greet-py
skill=target/guests/greet-py
rm -rf "$skill/source"
mkdir -p "$skill/source"

# The build writes compiled modules beside the sources.
cp "$source"/*.py "$skill/source"

# WASI stays connected, not stubbed (-s): print goes to the log and random numbers differ from run to
# run. A stub would trap, and would have drawn its numbers when the skill was built.
componentize-py --quiet --wit-path wit --world skill \
  componentize app --python-path "$skill/source" --output "$skill/skill.wasm"

cp "$source/SKILL.md" "$source/skill.toml" "$skill"
