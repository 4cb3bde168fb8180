#!/usr/bin/env bash
# Builds this skill into target/guests/greet-ts, from anywhere: bash guest-skills/greet-ts/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH="$PWD/target/toolchains/node_modules/.bin:$PATH"
source=guest-skills/greet-ts
skill=target/guests/greet-ts
mkdir -p "$skill"

# The interfaces of the world as TypeScript, for the compiler and for the editor.
jco guest-types wit --world-name skill --out-dir "$skill/types" --quiet

# Types are checked first, since the bundler only strips them.
tsc --project "$source"

# One file, because only the world's interfaces can be imported at run time.
esbuild "$source/src/greet.ts" --bundle --format=esm --target=es2023 \
  '--external:skillrun:*' --log-level=warning --outfile="$skill/greet.js"

# Without --sync the component uses the asynchronous calls of WASI 0.3, which the world does not need.
componentize-qjs --wit wit --world skill --js "$skill/greet.js" --sync --output "$skill/skill.wasm"

cp "$source/SKILL.md" "$source/skill.toml" "$skill"
