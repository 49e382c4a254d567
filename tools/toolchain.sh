# Makes and updates the Debian testing root that ./rlx works in when the host lacks the tools.
# Sourced by ./rlx, which defines note, fail and checkout. Result of prepare_toolchain: toolchain_root.
# shellcheck shell=bash disable=SC2154
#
# The root is in the cache directory, outside the checkout, so that every checkout and every later
# build finds it. It is built as root.partial and renamed when complete; the next use continues what was
# interrupted (or starts over, if the base system was not complete).

suite=forky  # Debian testing, by name: "testing" will be a different system one day
toolchain_dir=${RLX_TOOLCHAIN_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/rlx/toolchain}
[[ $toolchain_dir == /* ]] || toolchain_dir=$PWD/$toolchain_dir
toolchain_root=$toolchain_dir/root
toolchain_log=$toolchain_dir/prepare.log
disk_needed_mb=4096

# prepare_toolchain LIST...: with the packages of these files of tools/.
prepare_toolchain() {
  local lists=("${@/#/$checkout/tools/}") packages list_hash lock
  ((EUID == 0)) || fail "this machine lacks the tools to build rlx (see ${lists[*]}), and making a" \
    "Debian testing root for them needs root: run as root, install them, or use the Dockerfile"
  read_package_lists
  # One mark for each list that has been installed: packages are only ever added, so an older checkout's
  # list stays satisfied.
  local mark=$toolchain_root/var/lib/rlx/packages-$list_hash
  [[ ! -e $mark ]] || return 0

  mkdir -p "$toolchain_dir"
  exec {lock}>"$toolchain_dir/lock"
  if ! flock --nonblock "$lock"; then
    note "another ./rlx is preparing the toolchain; waiting for it"
    flock "$lock"
  fi
  if [[ ! -e $mark ]]; then
    trap 'printf "\n" >&2; note "interrupted; the next use continues from here"; exit 130' INT TERM
    : >"$toolchain_log"
    if [[ -d $toolchain_root ]]; then update_root; else make_root; fi
    trap - INT TERM
  fi
  exec {lock}>&-
}

read_package_lists() {
  mapfile -t packages < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "${lists[@]}")
  list_hash=$(printf '%s\n' "${packages[@]}" | sha256sum)
  list_hash=${list_hash:0:16}
}

mark_installed() {
  mkdir -p "$1/var/lib/rlx"
  : >"$1/var/lib/rlx/packages-$list_hash"
}

# ---- the two ways to get a complete root ----

make_root() {
  local partial=$toolchain_root.partial start=$SECONDS
  check_machine
  note "preparing the toolchain (Debian testing, once, about 1.6 GB) in $toolchain_dir"
  step 1 4 "bootstrap tool" install_debootstrap
  if [[ ! -e $partial/var/lib/rlx/base ]]; then
    rm -rf --one-file-system "$partial"
    step 2 4 "base system" bootstrap_base "$partial"
    mkdir -p "$partial/var/lib/rlx"
    : >"$partial/var/lib/rlx/base"
  fi
  step 3 4 "package lists" update_lists "$partial"
  step 4 4 "${#packages[@]} packages" install_packages "$partial"
  mark_installed "$partial"
  mv "$partial" "$toolchain_root"
  note "the toolchain is ready after $((SECONDS - start)) s"
}

update_root() {
  if ! all_installed "$toolchain_root"; then
    note "adding the packages of ${lists[*]##*/} that are missing to the toolchain"
    step 1 2 "package lists" update_lists "$toolchain_root"
    step 2 2 "${#packages[@]} packages" install_packages "$toolchain_root"
  fi
  mark_installed "$toolchain_root"
}

check_machine() {
  local free_mb
  free_mb=$(df --output=avail -B1M "$toolchain_dir" | tail -n 1)
  ((free_mb >= disk_needed_mb)) || fail "the toolchain needs $disk_needed_mb MB of disk in $toolchain_dir," \
    "only ${free_mb// /} MB are free (RLX_TOOLCHAIN_DIR names another place)"
  unshare --mount --propagation private true 2>>"$toolchain_log" || fail "this machine does not allow mount" \
    "namespaces (an unprivileged container?), which the toolchain needs; use the Dockerfile instead"
}

# ---- the steps ----

install_debootstrap() {
  if type -P debootstrap >/dev/null && [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
    return 0
  fi
  type -P apt-get >/dev/null || { echo "debootstrap is missing, and there is no apt-get to install it"; return 1; }
  local install=(apt-get install -y --no-install-recommends debootstrap debian-archive-keyring)
  export DEBIAN_FRONTEND=noninteractive
  "${install[@]}" || { apt-get update && "${install[@]}"; }
}

# In a mount namespace, because debootstrap mounts /proc in its target and would leave it there when killed.
# The empty mirror means its default one; the script is named since older versions do not know the suite.
bootstrap_base() {
  unshare --mount --propagation private \
    debootstrap --variant=minbase "$suite" "$1" "" /usr/share/debootstrap/scripts/sid
}

# A mirror may be some days behind, which is not a reason to stop.
update_lists() {
  cp -L --remove-destination /etc/resolv.conf "$1/etc/resolv.conf" || true
  in_root "$1" dpkg --configure -a &&
    in_root "$1" apt-get update -o Acquire::Check-Valid-Until=false -o APT::Update::Error-Mode=any
}

# unsafe-io: without a sync after each file; a half-written root.partial is never used.
install_packages() {
  in_root "$1" apt-get install -y --no-install-recommends -o APT::Status-Fd=1 \
    -o Dpkg::Options::=--force-unsafe-io -o Acquire::Retries=3 "${packages[@]}" &&
    in_root "$1" apt-get clean
}

all_installed() {
  local states
  # shellcheck disable=SC2016
  states=$(in_root "$1" dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null) || return 1
  [[ $(sort -u <<<"$states") == installed ]]
}

in_root() {
  local root=$1 name environment=()
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [[ ! ${!name-} ]] || environment+=("$name=${!name}")
  done
  # shellcheck disable=SC2016
  unshare --mount --propagation private bash -c '
    mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" \
    /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    "${environment[@]}" "${@:2}"
}

# ---- progress ----

# step NUMBER COUNT TITLE COMMAND...: runs the command with its output in the log and its progress on the
# terminal; when it fails, shows the end of the log and ends the launcher.
step() {
  local title="[$1/$2] $3" start=$SECONDS
  [[ -t 2 ]] || printf '%s ...\n' "$title" >&2
  if ! "${@:4}" </dev/null 2>&1 | show_step "$title"; then
    printf '\n' >&2
    tail -n 15 "$toolchain_log" >&2
    note "preparing the toolchain failed at step $title; the whole log: $toolchain_log"
    note "it needs the network and Debian's package archive; run the same command again to continue from here," \
      "or delete $toolchain_dir to start over"
    exit 1
  fi
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  printf '%s: done in %s s\n' "$title" "$((SECONDS - start))" >&2
}

# Appends what it reads to the log; on a terminal it also shows the latest line, or apt's percentages.
show_step() {
  local title=$1 line live='' text='' apt='' width=$((${COLUMNS:-80} - 1))
  [[ -t 2 ]] && live=1
  while IFS= read -r line; do
    case $line in
      dlstatus:*:*:* | pmstatus:*:*:*)  # kind:package:percent:words
        [[ $line == dl* ]] && apt=downloading || apt=installing
        line=${line#*:*:}
        text="$apt ${line%%[.:]*} %"
        ;;
      *)
        printf '%s\n' "$line" >>"$toolchain_log"
        [[ $apt ]] || text=${line#I: }
        ;;
    esac
    if [[ $live ]]; then
      line="$title: $text"
      printf '\r\033[K%s' "${line:0:width}" >&2
    fi
  done
}
