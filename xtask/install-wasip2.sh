#!/usr/bin/env bash
# Makes `cargo build --target wasm32-wasip2` work, without flags, on the active stable toolchain.
#
#   1. It works already: a small program that uses std links. Nothing is done.
#   2. `rustup target add`, under a time limit, since a server that cannot be reached may hang.
#   3. Std is built once from Debian's rust-src of exactly this release and put, with Debian's
#      wasi-libc, into the toolchain's own sysroot, where cargo looks for it.
#
# It may be run any number of times, and by several processes at once. The third way needs apt-get
# and dpkg-deb, and cargo must reach its registry; it does not need root.
#
# Environment:
#   WASIP2_RUSTUP_TIMEOUT  seconds for rustup; 0 leaves rustup out      (default 60)
#   WASIP2_WORK            scratch folder            (default ~/.cache/skillrun-wasip2)
#   WASIP2_SUITES          Debian suites to look in, in this order
#   WASIP2_DEBS            a folder with rust-src_*.deb and wasi-libc_*.deb to use before apt-get
#   WASIP2_KEEP=1          keeps the scratch folder
set -euo pipefail

target=wasm32-wasip2
rustup_timeout=${WASIP2_RUSTUP_TIMEOUT:-60}
work=${WASIP2_WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/skillrun-wasip2}
suites=${WASIP2_SUITES:-trixie-backports trixie sid forky trixie-backports-sloppy experimental}
debs=$work/debs
libc_files=(crt1-command.o crt1-reactor.o libc.a)

release=$(rustc -vV | sed -n 's/^release: //p')
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
sysroot=$(rustc --print sysroot)
installed=$sysroot/lib/rustlib/$target
# One installed path a line, relative to $installed; tells our files from those of rustup.
stamp=$installed/built-from-debian-source

say() { printf '  %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

links() {
  local folder status=0
  folder=$(mktemp -d)
  cat >"$folder/probe.rs" <<'RUST'
fn main() {
    let empty = std::collections::HashMap::<String, u32>::new();
    println!("{}", empty.len());
}
RUST
  (cd "$folder" && env -u RUSTFLAGS rustc --edition 2024 --target "$target" probe.rs -o probe.wasm) \
    >"$folder/log" 2>&1 && [ -s "$folder/probe.wasm" ] || status=1
  rm -rf "$folder"
  return $status
}

# An install of ours can be half done, or from an older release of the same toolchain. Files that
# rustup has claimed since then stay.
remove_own_files() {
  [ -f "$stamp" ] || return 0
  local file manifest=$sysroot/lib/rustlib/manifest-rust-std-$target
  while IFS= read -r file; do
    if ! grep -qsxF "file:lib/rustlib/$target/$file" "$manifest"; then rm -f "$installed/$file"; fi
  done <"$stamp"
  rm -f "$stamp"
  find "$installed" -type d -empty -delete 2>/dev/null || true
}

add_with_rustup() {
  [ "$rustup_timeout" -gt 0 ] && command -v rustup >/dev/null || return 1
  if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    die "rustup lists $target as installed, yet nothing links with it: reinstall it with rustup"
  fi
  say "asking rustup for $target (at most $rustup_timeout s)"
  if timeout "$rustup_timeout" rustup target add "$target" >"$work/rustup.log" 2>&1 && links; then
    return 0
  fi
  say "rustup could not add it: $(grep -m 1 '^error' "$work/rustup.log" | cut -c1-160)"
  return 1
}

# --- the two packages ---------------------------------------------------------------------------

# Prints the folder of the standard library's source, if this release's is already on the machine.
source_at_hand() {
  local folder
  for folder in "$sysroot/lib/rustlib/src/rust/library" "/usr/src/rustc-$release/library"; do
    if [ -f "$folder/Cargo.lock" ]; then (cd "$folder" && pwd -P); return; fi
  done
}
have_source() { [ -n "$(source_at_hand)" ] || compgen -G "$debs/rust-src_$release+*.deb" >/dev/null; }
have_libc() { compgen -G "$debs/wasi-libc_*.deb" >/dev/null; }

# The archive that this machine already uses, be it a mirror or behind a proxy.
debian_archive() {
  apt-get indextargets --format '$(REPO_URI)|$(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk -F'|' '$2 == "main" && $1 ~ /\/debian\/?$/ { print $1; exit }'
}

# apt-get and apt-cache on one suite, with lists of their own: the machine's sources stay as they are.
apt_for_suite() {
  local suite=$1 archive=$2 folder=$work/apt-$1
  mkdir -p "$folder"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" \
    >"$folder/sources.list"
  apt_options=(
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null
    -o Dir::State::lists="$folder/lists" -o Dir::State::status=/dev/null
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User="$(id -un)"
    -o Acquire::Languages=none -o Acquire::Retries=3
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
  )
  apt-get "${apt_options[@]}" -q update >"$folder/log" 2>&1 &&
    ! grep -q '^[EW]: .*Failed' "$folder/log"
}

download_source() {
  local version
  version=$(apt-cache "${apt_options[@]}" madison rust-src |
    awk -F'|' -v prefix="$release+" '{ gsub(/ /, "", $2) } index($2, prefix) == 1 { print $2; exit }')
  [ -n "$version" ] || return 0
  (cd "$debs" && apt-get "${apt_options[@]}" -q download "rust-src=$version") >/dev/null 2>&1 || return 0
  say "downloaded rust-src $version from $1"
}

# Any version will do that carries this target's libc; the first suite that has one wins.
download_libc() {
  (cd "$debs" && apt-get "${apt_options[@]}" -q download wasi-libc) >/dev/null 2>&1 || return 0
  local package=("$debs"/wasi-libc_*.deb)
  if dpkg-deb -c "${package[0]}" | grep "/usr/lib/$target/libc.a" >/dev/null; then
    say "downloaded wasi-libc from $1"
  else
    rm -f "${package[@]}"
  fi
}

fetch_packages() {
  mkdir -p "$debs"
  if [ -n "${WASIP2_DEBS:-}" ]; then
    cp -n "$WASIP2_DEBS"/{rust-src_"$release"+,wasi-libc_}*.deb "$debs/" 2>/dev/null || true
  fi
  if have_source && have_libc; then return; fi
  command -v apt-get >/dev/null ||
    die "no apt-get here: put rust-src_$release*.deb and wasi-libc_*.deb into a folder and name it in WASIP2_DEBS"
  local archive suite
  archive=$(debian_archive)
  [ -n "$archive" ] || die "no Debian archive among the apt sources of this machine"
  for suite in $suites; do
    if ! apt_for_suite "$suite" "$archive"; then say "suite $suite has no index here"; continue; fi
    have_source || download_source "$suite"
    have_libc || download_libc "$suite"
    if have_source && have_libc; then return; fi
  done
  have_source || die "no rust-src $release in the Debian suites: $suites"
  die "no wasi-libc with $target in the Debian suites: $suites"
}

unpack_packages() {
  local package
  rm -rf "$work/unpacked"
  mkdir -p "$work/unpacked"
  for package in "$debs"/rust-src_"$release"+*.deb "$debs"/wasi-libc_*.deb; do
    [ ! -f "$package" ] || dpkg-deb -x "$package" "$work/unpacked"
  done
  library=$(source_at_hand)
  library=${library:-$work/unpacked/usr/src/rustc-$release/library}
  libc=$work/unpacked/usr/lib/$target
  [ -f "$library/std/Cargo.toml" ] && [ -f "$library/Cargo.lock" ] || die "rust-src $release holds no library"
  local file
  for file in "${libc_files[@]}"; do [ -s "$libc/$file" ] || die "wasi-libc lacks $target/$file"; done
}

# --- std, once ----------------------------------------------------------------------------------

# Cargo is told where the source is, so that it need not lie in the sysroot. Guests built with `lto`
# need the bitcode; the remapped paths are the ones that a panic message shows with rustup's std.
build_std() {
  local build=$work/build separator=$'\037'
  rm -rf "$build"
  mkdir -p "$build/src"
  printf '[package]\nname = "stdbuild"\nversion = "0.0.0"\nedition = "2024"\n\n' >"$build/Cargo.toml"
  printf '[profile.release]\nopt-level = 3\ndebug = false\ncodegen-units = 1\n' >>"$build/Cargo.toml"
  : >"$build/src/lib.rs"
  local registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
  local flags="-Cembed-bitcode=yes"
  flags+="$separator--remap-path-prefix=$library=/rustc/$commit/library"
  flags+="$separator--remap-path-prefix=$registry=/rust/deps"
  say "building std $release for $target"
  (cd "$build" && env -u CARGO_BUILD_TARGET -u CARGO_TARGET_DIR -u RUSTC_WRAPPER \
    RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$library" CARGO_ENCODED_RUSTFLAGS="$flags" \
    cargo build --release --target "$target" -Zbuild-std=std,panic_abort,test,proc_macro) \
    >"$work/build.log" 2>&1 ||
    { tail -n 30 "$work/build.log" >&2; die "std does not build (log: $work/build.log)"; }
}

install_std() {
  local file
  mkdir -p "$installed/lib/self-contained"
  : >"$stamp"
  for file in "$work/build/target/$target/release/deps"/lib*.rlib; do
    case ${file##*/} in libstdbuild-*) continue ;; esac
    echo "lib/${file##*/}" >>"$stamp"
    install -m 644 "$file" "$installed/lib/"
  done
  for file in "${libc_files[@]}"; do
    echo "lib/self-contained/$file" >>"$stamp"
    install -m 644 "$libc/$file" "$installed/lib/self-contained/"
  done
}

# ------------------------------------------------------------------------------------------------

mkdir -p "$work"
exec 9>"$work/lock"
flock 9

if links; then say "$target: already there"; exit 0; fi
remove_own_files
if links; then say "$target: already there"; exit 0; fi
if add_with_rustup; then say "$target: added by rustup"; exit 0; fi
if compgen -G "$installed/lib/*.rlib" >/dev/null; then
  die "$installed/lib holds libraries that are not ours and that do not link"
fi
case $release in *-*) die "rustc $release is not a stable release, so no Debian rust-src matches it" ;; esac
say "building it from Debian's rust-src and wasi-libc instead, which takes about a minute"
fetch_packages
unpack_packages
build_std
install_std
links || die "std is installed, but a program still does not link for $target"
if [ "${WASIP2_KEEP:-0}" != 1 ]; then rm -rf "$work"/{unpacked,build,debs} "$work"/apt-*; fi
say "$target: std $release built and installed in $installed"
