#!/usr/bin/env bash
# Builds a skill that uses this SDK: bash build.sh SOURCE WIT OUT
#   SOURCE  the skill: app.py and other modules, SKILL.md, skill.toml
#   WIT     the package skillrun:skill
#   OUT     the folder that becomes the skill
# The tool is the one in PATH: componentize-py.
set -euo pipefail
sdk="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source=$1 wit=$2 out=$3

# The build writes compiled modules beside the sources.
rm -rf "$out/source"
mkdir -p "$out/source"
cp "$source"/*.py "$out/source"
cp -r "$sdk/skillrun_sdk" "$out/source"

# WASI stays connected, not stubbed (-s): print goes to the log and random numbers differ from run to
# run. A stub would trap, and would have drawn its numbers when the skill was built.
componentize-py --quiet --wit-path "$wit" --world skill \
  componentize app --python-path "$out/source" --output "$out/skill.wasm"

cp "$source/SKILL.md" "$source/skill.toml" "$out"
