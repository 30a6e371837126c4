# Sourced by the service scripts. Needs bash, coreutils, procps, util-linux.
set -euo pipefail
SVC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Installed programs live outside of the repository, so that a fresh clone finds them again.
SVC_DIR=${EXACTLY_SERVICES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/exactly-services}
SVC_OPT=$SVC_DIR/opt
NICE=${NICE-nice -n 5}
mkdir -p "$SVC_OPT"

log() { printf '%s\n' "$*" >&2; }
die() { log "error: $*"; exit 1; }
now_ms() { date +%s%3N; }

# locked NAME CMD...: one at a time on this machine; test binaries that start together share one install.
locked() {
  local name=$1; shift
  (exec 9>"$SVC_OPT/.$name.lock"; flock 9; "$@" 9>&-)
}

# apt_need COMMAND PACKAGE...: makes sure that COMMAND exists.
apt_need() {
  local cmd=$1; shift
  command -v "$cmd" >/dev/null && return
  locked apt apt_install "$cmd" "$@"
}
apt_install() {
  local cmd=$1; shift
  ! command -v "$cmd" >/dev/null || return 0
  command -v apt-get >/dev/null || die "$cmd is missing: install it (on Debian it is in $*)"
  [ "$(id -u)" = 0 ] || die "$cmd is missing: run 'apt-get install $*' as root"
  log "installing $*"
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1   # RUNLEVEL=1: no service is started by its package
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends "$@" >&2
}

# go_need BINARY PACKAGE@VERSION [BUILT-NAME]: a server built from its Go module.
go_need() {
  local bin=$SVC_OPT/gobin/$1 pkg=$2 built=${3:-$1} t
  [ ! -x "$bin" ] || return 0
  log "building $pkg"
  mkdir -p "$SVC_OPT/gobin"; t=$(mktemp -d "$SVC_OPT/build.XXXXXX")
  GOFLAGS= GOBIN=$t nice -n 2 go install -trimpath -ldflags=-s "$pkg" >&2
  mv "$t/$built" "$bin"; rmdir "$t"
}

# mvn_need POM DIR PROPERTY...: the runtime dependencies of a pom as jar files.
mvn_need() {
  local pom=$1 dir=$2; shift 2
  [ ! -f "$dir/.done" ] || return 0
  log "fetching the jars of $(basename "$dir")"
  rm -rf "$dir"
  nice mvn -B -q -ntp -f "$pom" "$@" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/libs" >&2
  touch "$dir/.done"
}

# pid_alive PIDFILE: true if the process that wrote the pidfile is still that process.
pid_alive() {
  [ -s "$1" ] || return 1
  local pid st s; read -r pid st <"$1" || return 1
  # Field 3 is the state (a zombie counts as dead), field 22 the start time (pids are used again).
  s=$(sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null) || return 1
  set -- $s
  [ "$1" != Z ] && [ "${20}" = "$st" ]
}

# start_bg DIR CMD...: run detached, log to DIR/log, pid and start time to DIR/pid.
start_bg() {
  local dir=$1 pid s; shift
  mkdir -p "$dir"
  setsid "$@" >>"$dir/log" 2>&1 </dev/null &
  pid=$!
  s=$(sed 's/^.*) //' "/proc/$pid/stat"); set -- $s
  echo "$pid ${20}" >"$dir/pid"
}

# wait_ready DIR SECONDS CMD...: poll CMD until it succeeds, the process dies, or time is up.
wait_ready() {
  local dir=$1 secs=$2 end; shift 2
  end=$(( $(now_ms) + secs*1000 ))
  until "$@" >/dev/null 2>&1; do
    pid_alive "$dir/pid" || { tail -n 30 "$dir/log" >&2; die "process died before it was ready ($dir/log)"; }
    [ "$(now_ms)" -lt "$end" ] || { tail -n 30 "$dir/log" >&2; die "not ready after ${secs}s ($dir/log)"; }
    sleep 0.1
  done
}

tcp_open() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# need_free PORT...: without it a readiness probe can be answered by somebody else's server on that port.
need_free() { local p; for p in "$@"; do ! tcp_open 127.0.0.1 "$p" || die "port $p is already in use"; done; }

# stop_pidfile DIR [SECONDS] [SIGNAL]: signal, bounded wait, then KILL; idempotent.
stop_pidfile() {
  local dir=$1 secs=${2:-15} sig=${3:-TERM} pid st end
  if pid_alive "$dir/pid"; then
    read -r pid st <"$dir/pid"
    kill -"$sig" "$pid" 2>/dev/null || true
    end=$(( $(now_ms) + secs*1000 ))
    while pid_alive "$dir/pid" && [ "$(now_ms)" -lt "$end" ]; do sleep 0.1; done
    ! pid_alive "$dir/pid" || { log "KILL $pid"; kill -KILL "$pid" 2>/dev/null || true; sleep 0.2; }
  fi
  # An orphan may be reaped late: until then its pid exists, which PostgreSQL takes for a running server.
  if [ -s "$dir/pid" ]; then
    read -r pid st <"$dir/pid"
    for _ in $(seq 100); do
      case $(sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null) in Z*) sleep 0.1;; *) break;; esac
    done
  fi
  rm -f "$dir/pid"
}

# stats DIR: memory and CPU used so far by the process of DIR/pid.
stats() {
  local pid st m s; read -r pid st <"$1/pid"
  m=$(awk '/^VmRSS/{r=$2}/^VmHWM/{h=$2}END{printf "rss=%dMB peak=%dMB",r/1024,h/1024}' "/proc/$pid/status")
  s=$(sed 's/^.*) //' "/proc/$pid/stat"); set -- $s
  awk -v m="$m" -v t="$(( ${12} + ${13} ))" -v hz="$(getconf CLK_TCK)" 'BEGIN{printf "%s cpu=%.1fs\n", m, t/hz}'
}

# serve DATADIR CMD...: `run` of a script, in the foreground as this very process, so that a caller's
# signals, and the death signal that internal/services sets, reach the server itself.
serve() { local dir=$1; shift; mkdir -p "$dir"; exec $NICE "$@"; }

absdir() { mkdir -p "$1"; (cd "$1" && pwd); }
