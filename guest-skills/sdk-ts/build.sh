#!/usr/bin/env bash
# Builds a skill that uses this SDK: bash build.sh SOURCE WIT OUT [KIND]
#   SOURCE  the skill: src/main.ts, tsconfig.json, SKILL.md, skill.toml
#   WIT     the package skillrun:skill
#   OUT     the folder that becomes the skill
#   KIND    skill or agent; told by what src/main.ts exports if it is left out: an agent exports sessionHandler
# The tools are those in PATH: jco, tsc, esbuild, componentize-qjs.
set -euo pipefail
sdk="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source=$1 wit=$2 out=$3 kind=${4:-}
mkdir -p "$out"

# The worlds of the SDK with all that they refer to.
rm -rf "$out/wit"
cp -r "$sdk/wit" "$out/wit"
mkdir "$out/wit/deps/skillrun-skill"
cp "$wit"/*.wit "$out/wit/deps/skillrun-skill"

# The interfaces of the worlds as TypeScript, for the compiler and for the editor. The SDK uses those of both.
for world in skill agent; do
  jco guest-types "$out/wit" --world-name "ts-$world" --out-dir "$out/types" --quiet
done

# Types are checked first, since the bundler only strips them.
tsc --project "$source"

# One file, because only the world's interfaces can be imported at run time. Where the SDK is, the
# bundler reads from `paths` in tsconfig.json, as the compiler does.
esbuild "$source/src/main.ts" --bundle --format=esm --target=es2023 --tsconfig="$source/tsconfig.json" \
  '--external:skillrun:*' '--external:wasi:*' --log-level=warning --outfile="$out/skill.js"

exported="$(sed -n '/^export {/,/^};/p' "$out/skill.js")"
if [[ -z $kind ]]; then
  kind=skill
  if grep -qw sessionHandler <<<"$exported"; then kind=agent; fi
fi

# Without --sync the component uses the asynchronous calls of WASI 0.3, which the world does not need.
componentize-qjs --wit "$out/wit" --world "ts-$kind" --js "$out/skill.js" --sync --output "$out/skill.wasm"

cp "$source/SKILL.md" "$source/skill.toml" "$out"
